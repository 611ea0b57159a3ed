// SPDX-License-Identifier: MIT
// Put and get. A put is a store, so the non-blocking forms differ in what they wait for only: the
// blocking ones return when every thread of the scope is done with source (put) or has dest (get).
//
// All threads of a scope call with the same arguments. What any of them stored in source before the
// call is put.
#pragma once
#include "address.hpp"
#include "copy.hpp"

namespace shmem::device {

// An element of the sized routines, which the private side may hold at any alignment.
template <int bits> struct Sized { unsigned char byte[bits / 8]; };

template <class C, class T, class Scope>
SHMEM_D_ void put_nbi(const char *fn, C c, T *dest, const T *source, size_t n, int pe,
                      Scope scope) {
  T *d = at(fn, "dest", dest, n, world_pe(c, pe));
  scope.sync();
  copy<Remote::dest, unit_of<T>>(d, source, n * sizeof(T), scope);
}
template <class C, class T, class Scope>
SHMEM_D_ void put(const char *fn, C c, T *dest, const T *source, size_t n, int pe, Scope scope) {
  put_nbi(fn, c, dest, source, n, pe, scope);
  if constexpr (!std::is_same_v<Scope, Thread>) device::settle(scope);
}
template <class C, class T, class Scope>
SHMEM_D_ void get_nbi(const char *fn, C c, T *dest, const T *source, size_t n, int pe,
                      Scope scope) {
  const T *s = at(fn, "source", source, n, world_pe(c, pe));
  scope.sync();
  copy<Remote::source, unit_of<T>>(dest, s, n * sizeof(T), scope);
}
template <class C, class T, class Scope>
SHMEM_D_ void get(const char *fn, C c, T *dest, const T *source, size_t n, int pe, Scope scope) {
  get_nbi(fn, c, dest, source, n, pe, scope);
  scope.sync();
}

// One element goes in one store, so that a waiter on it never sees half of it.
template <class C, class T> SHMEM_D_ void p(const char *fn, C c, T *dest, T value, int pe, Thread) {
  arch::store(at(fn, "dest", dest, 1, world_pe(c, pe)), value);
}
template <class C, class T> SHMEM_D_ T g(const char *fn, C c, const T *source, int pe, Thread) {
  return arch::load(at(fn, "source", source, 1, world_pe(c, pe)));
}

// Strides count elements, from one to the next, or from one block to the next. The extent, for
// checks: up to the last element moved.
SHMEM_D_ size_t extent(size_t n, ptrdiff_t stride, size_t block = 1) {
  return n ? (n - 1) * size_t(stride) + block : 0;
}

// A word for each element, unit being its size: elements of the sized routines with their own
// alignment are whole, as for the typed ones, where both sides have it. Where not, words of the
// alignment that both have.
template <Remote remote, int unit, class T>
SHMEM_D_ void copy_strided(T *d, const T *s, ptrdiff_t dst, ptrdiff_t sst, size_t n) {
  if constexpr (unit > alignof(T))
    if ((reinterpret_cast<uintptr_t>(d) | reinterpret_cast<uintptr_t>(s)) % unit)
      return copy_strided<remote, unit / 2>(d, s, dst, sst, n);
  using W = typename arch::WordOf<unit>::type;
  if constexpr (unit == sizeof(T))
    copy_words<remote>(reinterpret_cast<W *>(d), reinterpret_cast<const W *>(s), n, Thread{},
                       size_t(dst), size_t(sst));
  else
    for (size_t i = 0; i < n; i++)
      copy_words<remote>(reinterpret_cast<W *>(d + ptrdiff_t(i) * dst),
                         reinterpret_cast<const W *>(s + ptrdiff_t(i) * sst), sizeof(T) / unit,
                         Thread{});
}
template <Remote remote, class T>
SHMEM_D_ void copy_blocks(T *d, const T *s, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t n) {
  for (size_t i = 0; i < n; i++)
    copy<remote, unit_of<T>>(d + ptrdiff_t(i) * dst, s + ptrdiff_t(i) * sst, bsize * sizeof(T),
                             Thread{});
}

template <class C, class T>
SHMEM_D_ void iput(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                   size_t n, int pe, Thread) {
  T *d = at(fn, "dest", dest, extent(n, dst), world_pe(c, pe));
  copy_strided<Remote::dest, sizeof(T)>(d, source, dst, sst, n);
}
template <class C, class T>
SHMEM_D_ void iget(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                   size_t n, int pe, Thread) {
  const T *s = at(fn, "source", source, extent(n, sst), world_pe(c, pe));
  copy_strided<Remote::source, sizeof(T)>(dest, s, dst, sst, n);
}
template <class C, class T>
SHMEM_D_ void ibput(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                    size_t bsize, size_t nblocks, int pe, Thread) {
  T *d = at(fn, "dest", dest, bsize ? extent(nblocks, dst, bsize) : 0, world_pe(c, pe));
  copy_blocks<Remote::dest>(d, source, dst, sst, bsize, nblocks);
}
template <class C, class T>
SHMEM_D_ void ibget(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                    size_t bsize, size_t nblocks, int pe, Thread) {
  const T *s = at(fn, "source", source, bsize ? extent(nblocks, sst, bsize) : 0, world_pe(c, pe));
  copy_blocks<Remote::source>(dest, s, dst, sst, bsize, nblocks);
}

} // namespace shmem::device

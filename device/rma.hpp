// SPDX-License-Identifier: MIT
// Put and get. A put is a store, so the non-blocking forms differ in what they wait for only: the
// blocking ones return when every thread of the scope is done with source (put) or has dest (get).
//
// All threads of a scope call with the same arguments. put also sends their earlier stores to
// source.
#pragma once
#include "address.hpp"
#include "copy.hpp"
#include "ring.hpp"

namespace shmem::device {

// An element of the sized routines, which the private side may hold at any alignment.
template <int bits> struct Sized { unsigned char byte[bits / 8]; };

// later: done at the next quiet.
template <bool later, class C, class T, class Scope>
SHMEM_D_ void start_put(const char *fn, C c, T *dest, const T *source, size_t n, int pe,
                        Scope scope) {
  const int there = world_pe(c, pe);
  reach(
      fn, "dest", dest, n, there, later ? Use::later : Use::stores,
      [&](T *d) {
        scope.sync();
        copy<Remote::dest, unit_of<T>>(d, source, n * sizeof(T), scope);
      },
      [&] {
        device::settle(scope);
        const uint64_t until = ring::put(fn, dest, source, n, there, scope);
        if (!later && until) ring::await(fn, until);
      });
}
template <bool later, class C, class T, class Scope>
SHMEM_D_ void start_get(const char *fn, C c, T *dest, const T *source, size_t n, int pe,
                        Scope scope) {
  const int there = world_pe(c, pe);
  reach(
      fn, "source", source, n, there, Use::loads,
      [&](const T *s) {
        scope.sync();
        copy<Remote::source, unit_of<T>>(dest, s, n * sizeof(T), scope);
      },
      [&] {
        device::settle(scope);
        const uint64_t until = ring::get(fn, dest, source, n, there, scope);
        if (!later && until) ring::await_data(fn, until);
      });
}
template <class C, class T, class Scope>
SHMEM_D_ void put_nbi(const char *fn, C c, T *dest, const T *source, size_t n, int pe,
                      Scope scope) {
  start_put<true>(fn, c, dest, source, n, pe, scope);
}
template <class C, class T, class Scope>
SHMEM_D_ void put(const char *fn, C c, T *dest, const T *source, size_t n, int pe, Scope scope) {
  start_put<false>(fn, c, dest, source, n, pe, scope);
  if constexpr (!std::is_same_v<Scope, Thread>) device::settle(scope);
}
template <class C, class T, class Scope>
SHMEM_D_ void get_nbi(const char *fn, C c, T *dest, const T *source, size_t n, int pe,
                      Scope scope) {
  start_get<true>(fn, c, dest, source, n, pe, scope);
}
template <class C, class T, class Scope>
SHMEM_D_ void get(const char *fn, C c, T *dest, const T *source, size_t n, int pe, Scope scope) {
  start_get<false>(fn, c, dest, source, n, pe, scope);
  scope.sync();
}

// One element goes in one store, so that a waiter on it never sees half of it.
template <class C, class T> SHMEM_D_ void p(const char *fn, C c, T *dest, T value, int pe, Thread) {
  const int there = world_pe(c, pe);
  reach(
      fn, "dest", dest, 1, there, Use::stores, [&](T *d) { arch::store(d, value); },
      [&] { ring::update(fn, Amo::set, dest, there, value); });
}
template <class C, class T> SHMEM_D_ T g(const char *fn, C c, const T *source, int pe, Thread) {
  const int there = world_pe(c, pe);
  return reach(
      fn, "source", source, 1, there, Use::loads, [&](const T *s) { return arch::load(s); },
      [&] { return ring::fetch(fn, Amo::fetch, source, there, T{}); });
}

// Strides count elements, from one to the next, or from one block to the next. The extent, for
// checks: up to the last element moved.
SHMEM_D_ size_t extent(size_t n, ptrdiff_t stride, size_t block = 1) {
  return n ? (n - 1) * size_t(stride) + block : 0;
}

// A word for each element, if both sides have the alignment of unit, its size: for typed routines
// always, for the sized ones usually. If not, words of the alignment that both sides have.
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

// Blocks to or from a PE that is not mapped: in one request, or one after the other.
template <Remote remote, class T>
SHMEM_D_ void ring_blocks(const char *fn, T *dest, const T *source, size_t dst, size_t sst,
                          size_t block, size_t n, int pe) {
  constexpr bool puts = remote == Remote::dest;
  const T *const local = puts ? source : dest;
  if (!n || !block) return;
  dst *= sizeof(T), sst *= sizeof(T);
  uint64_t until = 0;
  if (n > 1 && ring::is_symmetric(local)) {
    until = ring::transfer(fn, puts ? Operation::put : Operation::get, puts ? dest : source, local,
                           pe, {block * sizeof(T), n, puts ? dst : sst, puts ? sst : dst});
    n = 0;
  }
  for (size_t i = 0; i < n; i++) {
    T *d = reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(dest) + i * dst);
    const T *s = reinterpret_cast<const T *>(reinterpret_cast<uintptr_t>(source) + i * sst);
    if constexpr (puts)
      until = ring::put(fn, d, s, block, pe, Thread{});
    else
      until = ring::get(fn, d, s, block, pe, Thread{});
  }
  if (until) puts ? ring::await(fn, until) : ring::await_data(fn, until);
}
// Does here(the object), which moves n blocks, or the same at a PE that is not mapped.
template <Remote remote, class C, class T, class Here>
SHMEM_D_ void reach_blocks(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst,
                           ptrdiff_t sst, size_t block, size_t n, int pe, Here here) {
  const int there = world_pe(c, pe);
  const auto remotely = [&] {
    ring_blocks<remote>(fn, dest, source, size_t(dst), size_t(sst), block, n, there);
  };
  if constexpr (remote == Remote::dest)
    reach(fn, "dest", dest, block ? extent(n, dst, block) : 0, there, Use::stores, here, remotely);
  else
    reach(fn, "source", source, block ? extent(n, sst, block) : 0, there, Use::loads, here,
          remotely);
}

template <class C, class T>
SHMEM_D_ void iput(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                   size_t n, int pe, Thread) {
  reach_blocks<Remote::dest>(fn, c, dest, source, dst, sst, 1, n, pe, [&](T *d) {
    copy_strided<Remote::dest, sizeof(T)>(d, source, dst, sst, n);
  });
}
template <class C, class T>
SHMEM_D_ void iget(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                   size_t n, int pe, Thread) {
  reach_blocks<Remote::source>(fn, c, dest, source, dst, sst, 1, n, pe, [&](const T *s) {
    copy_strided<Remote::source, sizeof(T)>(dest, s, dst, sst, n);
  });
}
template <class C, class T>
SHMEM_D_ void ibput(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                    size_t bsize, size_t nblocks, int pe, Thread) {
  reach_blocks<Remote::dest>(fn, c, dest, source, dst, sst, bsize, nblocks, pe, [&](T *d) {
    copy_blocks<Remote::dest>(d, source, dst, sst, bsize, nblocks);
  });
}
template <class C, class T>
SHMEM_D_ void ibget(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                    size_t bsize, size_t nblocks, int pe, Thread) {
  reach_blocks<Remote::source>(fn, c, dest, source, dst, sst, bsize, nblocks, pe, [&](const T *s) {
    copy_blocks<Remote::source>(dest, s, dst, sst, bsize, nblocks);
  });
}

} // namespace shmem::device

// SPDX-License-Identifier: MIT
// Put and get. A mapped peer is an address, so a put is a store: it is done when it returns, and
// the non-blocking forms are the blocking ones, except for copies by the GPU.
#pragma once
#include "address.hpp"

namespace shmem {

// Strides count elements, from one to the next. The extent, for checks: up to the last element
// moved.
inline size_t extent(size_t n, ptrdiff_t stride, size_t block = 1) {
  return n ? (n - 1) * size_t(stride) + block : 0;
}

// For SHMEM_CHECK: the private side is not NULL if there is something to move, and strides are at
// least a block long.
[[gnu::cold, gnu::noinline]] void check_strided(const char *fn, const char *arg, const void *other,
                                                ptrdiff_t dst, ptrdiff_t sst, size_t least,
                                                size_t n);

namespace api {

#define TRANSFER(to, from, later)                                                                  \
  template <class C, class T>                                                                      \
  inline void to(const char *fn, C c, T *dest, const T *source, size_t nelems, int pe) {           \
    access(fn, "dest", c, dest, nelems, pe, source,                                                \
           [=](auto d) { d.put(source, nelems, later); });                                         \
  }                                                                                                \
  template <class C, class T>                                                                      \
  inline void from(const char *fn, C c, T *dest, const T *source, size_t nelems, int pe) {         \
    access(fn, "source", c, source, nelems, pe, dest,                                              \
           [=](auto s) { s.get(dest, nelems, later); });                                           \
  }
TRANSFER(put, get, false)
TRANSFER(put_nbi, get_nbi, true)
#undef TRANSFER

// One element goes in one store, so that a waiter on it never sees half of it.
template <class C, class T> inline void p(const char *fn, C c, T *dest, T value, int pe) {
  access_word(fn, "dest", c, dest, pe, [=](auto d) { d.store(value); });
}
template <class C, class T> inline T g(const char *fn, C c, const T *source, int pe) {
  return access_read(fn, "source", c, source, pe, [](auto s) { return s.load(); });
}

template <class C, class T>
inline void ibput(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                  size_t bsize, size_t nblocks, int pe) {
  if (self.check) check_strided(fn, "source", source, dst, sst, bsize, nblocks);
  access(fn, "dest", c, dest, bsize ? extent(nblocks, dst, bsize) : 0, pe, no_other,
         [=](auto d) { d.put_blocks(source, dst, sst, bsize, nblocks); });
}
template <class C, class T>
inline void ibget(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                  size_t bsize, size_t nblocks, int pe) {
  if (self.check) check_strided(fn, "dest", dest, dst, sst, bsize, nblocks);
  access(fn, "source", c, source, bsize ? extent(nblocks, sst, bsize) : 0, pe, no_other,
         [=](auto s) { s.get_blocks(dest, dst, sst, bsize, nblocks); });
}

// Elements are blocks of one.
template <class C, class T>
inline void iput(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                 size_t nelems, int pe) {
  ibput(fn, c, dest, source, dst, sst, 1, nelems, pe);
}
template <class C, class T>
inline void iget(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                 size_t nelems, int pe) {
  ibget(fn, c, dest, source, dst, sst, 1, nelems, pe);
}

} // namespace api
} // namespace shmem

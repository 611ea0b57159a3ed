// SPDX-License-Identifier: MIT
// Put and get. A mapped peer is an address, so a put is a store: it is done when it returns, and
// the non-blocking forms are the blocking ones, except for copies by the GPU.
#pragma once
#include "address.hpp"
#include "copy.hpp"
#include "gpu.hpp"

namespace shmem {

// Strides count elements, from one to the next. The extent, for checks: up to the last element
// moved.
inline size_t extent(size_t n, ptrdiff_t stride, size_t block = 1) {
  return n ? (n - 1) * size_t(stride) + block : 0;
}

// For SHMEM_CHECK: the private side is there where there is something to move, and strides are at
// least a block long.
[[gnu::cold, gnu::noinline]] void check_strided(const char *fn, const char *arg, const void *other,
                                                ptrdiff_t dst, ptrdiff_t sst, size_t least,
                                                size_t n);

template <class T>
inline void copy_strided(T *d, const T *s, ptrdiff_t dst, ptrdiff_t sst, size_t n) {
  if (self.far && (gpu::is_far(d) || gpu::is_far(s))) [[unlikely]]
    return gpu::copy_2d(d, size_t(dst) * sizeof(T), s, size_t(sst) * sizeof(T), sizeof(T), n);
  for (size_t i = 0; i < n; i++) copy_one(d + ptrdiff_t(i) * dst, s + ptrdiff_t(i) * sst);
}

template <class T>
inline void copy_blocks(T *d, const T *s, ptrdiff_t dst, ptrdiff_t sst, size_t bsize,
                        size_t nblocks) {
  if (self.far && (gpu::is_far(d) || gpu::is_far(s))) [[unlikely]]
    return gpu::copy_2d(d, size_t(dst) * sizeof(T), s, size_t(sst) * sizeof(T), bsize * sizeof(T),
                        nblocks);
  if (bsize)
    for (size_t i = 0; i < nblocks; i++)
      copy(d + ptrdiff_t(i) * dst, s + ptrdiff_t(i) * sst, bsize * sizeof(T));
}

namespace api {

// One side is in a peer. later: it only has to be done at the next quiet.
template <class T>
[[gnu::always_inline]] inline void move(T *d, const T *s, size_t n, auto way, bool later) {
  if (way.careful() && later && (gpu::is_far(d) || gpu::is_far(s)))
    gpu::start_copy(d, s, n * sizeof(T));
  else if (n == 1 && !way.careful())
    copy_one(d, s);
  else
    copy(d, s, n * sizeof(T));
}

template <class T> inline void move(net::Remote<T> d, const T *s, size_t n, auto, bool later) {
  net::put({d.p, d.pe}, s, {n * sizeof(T)}, later);
}
template <class T> inline void move(T *d, net::Remote<const T> s, size_t n, auto, bool later) {
  net::get(d, {s.p, s.pe}, {n * sizeof(T)}, later);
}

template <class C, class T>
inline void put(const char *fn, C c, T *dest, const T *source, size_t nelems, int pe) {
  access(fn, "dest", c, dest, nelems, pe, source,
         [=](auto d, auto way) { move(d, source, nelems, way, false); });
}
template <class C, class T>
inline void get(const char *fn, C c, T *dest, const T *source, size_t nelems, int pe) {
  access(fn, "source", c, source, nelems, pe, dest,
         [=](auto s, auto way) { move(dest, s, nelems, way, false); });
}
template <class C, class T>
inline void put_nbi(const char *fn, C c, T *dest, const T *source, size_t nelems, int pe) {
  access(fn, "dest", c, dest, nelems, pe, source,
         [=](auto d, auto way) { move(d, source, nelems, way, true); });
}
template <class C, class T>
inline void get_nbi(const char *fn, C c, T *dest, const T *source, size_t nelems, int pe) {
  access(fn, "source", c, source, nelems, pe, dest,
         [=](auto s, auto way) { move(dest, s, nelems, way, true); });
}

// One element goes in one store, so that a waiter on it never sees half of it.
template <class C, class T> inline void p(const char *fn, C c, T *dest, T value, int pe) {
  access_word(fn, "dest", c, dest, pe, [=](auto d, auto way) mutable {
    if constexpr (!std::is_same_v<decltype(d), T *>) {
      if constexpr (sizeof(T) <= 8)
        net::Atomic<T>(d).store(value);
      else
        net::put({d.p, d.pe}, &value, {sizeof value}, false);
    } else {
      if (way.careful() && gpu::is_far(d)) return gpu::copy(d, &value, sizeof(T));
      if constexpr (sizeof(T) <= 8)
        __atomic_store(d, &value, __ATOMIC_RELAXED);
      else
        *d = value;
    }
  });
}

template <class C, class T> inline T g(const char *fn, C c, const T *source, int pe) {
  return access_read(fn, "source", c, source, pe, [](auto s, auto way) {
    T value;
    if constexpr (!std::is_same_v<decltype(s), const T *>) {
      net::get(&value, {s.p, s.pe}, {sizeof value}, false);
    } else {
      if (way.careful() && gpu::is_far(s)) {
        gpu::copy(&value, s, sizeof(T));
        return value;
      }
      if constexpr (sizeof(T) <= 8)
        __atomic_load(const_cast<T *>(s), &value, __ATOMIC_RELAXED);
      else
        value = *s;
    }
    return value;
  });
}

template <class C, class T>
inline void iput(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                 size_t nelems, int pe) {
  if (self.check) check_strided(fn, "source", source, dst, sst, 1, nelems);
  access(fn, "dest", c, dest, extent(nelems, dst), pe, no_other, [=](auto d, auto) {
    if constexpr (std::is_same_v<decltype(d), T *>)
      copy_strided(d, source, dst, sst, nelems);
    else
      net::put({d.p, d.pe}, source, {sizeof(T), nelems, dst * sizeof(T), sst * sizeof(T)}, false);
  });
}
template <class C, class T>
inline void iget(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                 size_t nelems, int pe) {
  if (self.check) check_strided(fn, "dest", dest, dst, sst, 1, nelems);
  access(fn, "source", c, source, extent(nelems, sst), pe, no_other, [=](auto s, auto) {
    if constexpr (std::is_same_v<decltype(s), const T *>)
      copy_strided(dest, s, dst, sst, nelems);
    else
      net::get(dest, {s.p, s.pe}, {sizeof(T), nelems, sst * sizeof(T), dst * sizeof(T)}, false);
  });
}

template <class C, class T>
inline void ibput(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                  size_t bsize, size_t nblocks, int pe) {
  if (self.check) check_strided(fn, "source", source, dst, sst, bsize, nblocks);
  access(fn, "dest", c, dest, bsize ? extent(nblocks, dst, bsize) : 0, pe, no_other,
         [=](auto d, auto) {
           if constexpr (std::is_same_v<decltype(d), T *>)
             copy_blocks(d, source, dst, sst, bsize, nblocks);
           else
             net::put({d.p, d.pe}, source,
                      {bsize * sizeof(T), nblocks, dst * sizeof(T), sst * sizeof(T)}, false);
         });
}
template <class C, class T>
inline void ibget(const char *fn, C c, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,
                  size_t bsize, size_t nblocks, int pe) {
  if (self.check) check_strided(fn, "dest", dest, dst, sst, bsize, nblocks);
  access(fn, "source", c, source, bsize ? extent(nblocks, sst, bsize) : 0, pe, no_other,
         [=](auto s, auto) {
           if constexpr (std::is_same_v<decltype(s), const T *>)
             copy_blocks(dest, s, dst, sst, bsize, nblocks);
           else
             net::get(dest, {s.p, s.pe},
                      {bsize * sizeof(T), nblocks, sst * sizeof(T), dst * sizeof(T)}, false);
         });
}

} // namespace api
} // namespace shmem

// SPDX-License-Identifier: MIT
// Copies by the threads of a scope, 16 bytes at a time where both sides allow it. Each thread of a
// put has eight such words in flight, so a workgroup of 1024 has 128 KiB on the way. With four a
// wave's put of 256 KiB took 29 us on 2 H100s, and 19 with eight (2026-11-26). Four are in flight
// of shorter words, in a put to several PEs, and in a get with strides or on NVIDIA.
#pragma once
#include "kinds.hpp"
#include "pattern.hpp"
#include "scope.hpp"
#include <type_traits>

namespace shmem::device {

template <class W> inline constexpr int in_flight = sizeof(W) == 16 ? 8 : 4;

// Moves n words of each lane, all of which are on the way at once. `at` is the lane's place in
// bytes if all lanes of its wave call with the same objects, else 0.
template <Remote remote, bool uniform, int n, class W>
SHMEM_D_ void move(W *d, const W *s, unsigned at, size_t d_step, size_t s_step) {
  const unsigned i = at / unsigned(sizeof(W));
  W v[n];
  if constexpr (remote == Remote::dest) {
    SHMEM_UNROLL_
    for (int k = 0; k < n; k++) v[k] = (s + k * s_step)[i];
    if constexpr (uniform) {
      const arch::Uniform<W> there(d);
      SHMEM_UNROLL_
      for (int k = 0; k < n; k++) there.store(at, unsigned(k * d_step), v[k]);
    } else {
      arch::arrive(v);
      SHMEM_UNROLL_
      for (int k = 0; k < n; k++) arch::store_remote(d + k * d_step, v[k]);
    }
  } else {
    if constexpr (uniform) {
      const arch::Uniform<W> there(const_cast<W *>(s));
      SHMEM_UNROLL_
      for (int k = 0; k < n; k++) v[k] = there.load(at, unsigned(k * s_step));
    } else {
      arch::load_remote<n>(v, s, s_step);
    }
    SHMEM_UNROLL_
    for (int k = 0; k < n; k++) (d + k * d_step)[i] = v[k];
  }
}

// Calls move(n) for n words of each lane as long as there are so many, then for half of that, and
// so on; each time the objects are those behind.
template <int n, class Move> SHMEM_D_ void halves(size_t &left, size_t size, Move move) {
  if (left >= n * size) {
    move(std::integral_constant<int, n>{});
    left -= n * size;
  }
  if constexpr (n > 1) halves<n / 2>(left, size, move);
}
// short_way: a word for each or less goes first. Lanes that take different ways cost a traced
// product of gfx90a 50 scalars in lanes of a vector register in place of 28 (clang 15).
template <int n, bool short_way, class Move>
SHMEM_D_ void in_rounds(unsigned rank, size_t words, size_t size, Move move) {
  size_t left = words;
  if (short_way ? left > size : left >= size) {
    for (; left >= n * size; left -= n * size) move(std::integral_constant<int, n>{});
    halves<n / 2>(left, size, move);
  }
  if (rank < left) move(std::integral_constant<int, 1>{});
}

// All lanes of a wave call with the same arguments, which compilers do not know. On NVIDIA pointers
// of each lane are faster: put_signal of a workgroup by 3% (2 H100s, 2026-11-26).
template <class Scope>
inline constexpr bool by_waves = std::is_same_v<Scope, Workgroup> || std::is_same_v<Scope, Wave>;
template <class Scope> inline constexpr bool uniform = arch::has_uniform ? by_waves<Scope> : false;

// Copies aligned words, of which each thread takes every size-th. Strides are in words.
template <Remote remote, class W, class Scope>
SHMEM_D_ void copy_words(W *d, const W *s, size_t words, Scope scope, size_t dst, size_t sst) {
  const unsigned rank = scope.rank();
  const size_t size = anew(scope, unsigned(scope.size()));
  d += rank * dst;
  s += rank * sst;
  in_rounds<remote == Remote::dest ? in_flight<W> : 4, by_waves<Scope>>(
      rank, words, size, [&](auto round) {
        constexpr int n = decltype(round)::value; // which nvcc does not convert
        move<remote, false, n>(d, s, 0, size * dst, size * sst);
        d += n * size * dst;
        s += n * size * sst;
      });
}

// The same without strides.
template <Remote remote, class W, class Scope>
SHMEM_D_ void copy_words(W *d, const W *s, size_t words, Scope scope) {
  if constexpr (uniform<Scope>) {
    const unsigned rank = scope.rank(), size = anew(scope, unsigned(scope.size()));
    in_rounds<in_flight<W>, true>(rank, words, size, [&](auto round) {
      constexpr int n = decltype(round)::value;
      move<remote, true, n>(d, s, rank * unsigned(sizeof(W)), size, size);
      d += n * size_t(size);
      s += n * size_t(size);
    });
  } else {
    copy_words<remote>(d, s, words, scope, 1, 1);
  }
}

// Copies by words. Both sides are aligned to unit, and lie at the same place within a word.
template <Remote remote, int word, int unit, class Scope>
SHMEM_D_ void copy_by(char *d, const char *s, size_t bytes, Scope scope) {
  using W = typename arch::WordOf<word>::type;
  using U = typename arch::WordOf<unit>::type;
  size_t head = (word - reinterpret_cast<uintptr_t>(d) % word) % word;
  if (head > bytes) head = bytes;
  const size_t words = (bytes - head) / word, tail = (bytes - head) % word;
  copy_words<remote>(reinterpret_cast<W *>(d + head), reinterpret_cast<const W *>(s + head), words,
                     scope);
  if constexpr (word != unit) {
    U *const du = reinterpret_cast<U *>(d);
    const U *const su = reinterpret_cast<const U *>(s);
    const size_t before = head / unit, done = (head + words * word) / unit, after = tail / unit;
    if constexpr (by_waves<Scope>) { // all at once, as a rule
      for (size_t i = scope.rank(); i < before + after; i += scope.size()) {
        const size_t at = i < before ? i : i - before + done;
        move<remote, false, 1>(du + at, su + at, 0, 0, 0);
      }
    } else {
      if (before) copy_words<remote>(du, su, before, scope, 1, 1);
      if (after) copy_words<remote>(du + done, su + done, after, scope, 1, 1);
    }
  }
}

// Copies bytes. unit, a power of two, divides both addresses and bytes.
template <Remote remote, int unit, class Scope>
SHMEM_D_ void copy(void *dest, const void *source, size_t bytes, Scope scope) {
  auto d = static_cast<char *>(dest);
  auto s = static_cast<const char *>(source);
  const uintptr_t apart = reinterpret_cast<uintptr_t>(d) ^ reinterpret_cast<uintptr_t>(s);
  if (apart % 16 == 0) return copy_by<remote, 16, unit>(d, s, bytes, scope);
  if constexpr (unit <= 8)
    if (apart % 8 == 0) return copy_by<remote, 8, unit>(d, s, bytes, scope);
  if constexpr (unit <= 4)
    if (apart % 4 == 0) return copy_by<remote, 4, unit>(d, s, bytes, scope);
  if constexpr (unit <= 2)
    if (apart % 2 == 0) return copy_by<remote, 2, unit>(d, s, bytes, scope);
  if constexpr (unit == 1) copy_by<remote, 1, 1>(d, s, bytes, scope);
}

// Copies words of source, which are read once, to the same place of several members' dests, dest(1)
// to dest(dests); null ones are left out.
template <class W, class Scope, class Dest>
SHMEM_D_ void spread_words(const char *source, size_t from, size_t to, int dests, Scope scope,
                           Dest dest) {
  const unsigned rank = scope.rank(), size = scope.size();
  const W *s = reinterpret_cast<const W *>(source + from);
  in_rounds<4, by_waves<Scope>>(rank, (to - from) / sizeof(W), size, [&](auto round) {
    constexpr int n = decltype(round)::value;
    W v[n];
    SHMEM_UNROLL_
    for (int j = 0; j < n; j++) v[j] = arch::load_global(s + j * size_t(size) + rank);
    arch::arrive(v);
    for (int k = 1; k <= dests; k++)
      if (char *d = dest(k)) {
        W *const to = reinterpret_cast<W *>(d + from);
        SHMEM_UNROLL_
        for (int j = 0; j < n; j++)
          if constexpr (uniform<Scope>)
            arch::Uniform<W>(to).store(rank * unsigned(sizeof(W)), j * size, v[j]);
          else
            arch::store_remote(to + rank + j * size_t(size), v[j]);
      }
    s += n * size_t(size);
    from += n * size_t(size) * sizeof(W);
  });
}
// The same for any alignment; like is one of the dests, which are all aligned like it.
template <class Scope, class Dest>
SHMEM_D_ void spread(const char *source, const char *like, pattern::Extent e, int dests,
                     Scope scope, Dest dest) {
  const uintptr_t apart = reinterpret_cast<uintptr_t>(source) ^ reinterpret_cast<uintptr_t>(like);
  const size_t word = apart % 16 == 0 ? 16 : apart % 4 == 0 ? 4 : 1;
  size_t head = (word - reinterpret_cast<uintptr_t>(like + e.from) % word) % word;
  if (head > e.to - e.from) head = e.to - e.from;
  const size_t begin = e.from + head, end = begin + (e.to - begin) / word * word;
  if (word == 16)
    spread_words<arch::WordOf<16>::type>(source, begin, end, dests, scope, dest);
  else if (word == 4)
    spread_words<uint32_t>(source, begin, end, dests, scope, dest);
  else
    spread_words<uint8_t>(source, begin, end, dests, scope, dest);
  for (size_t i = scope.rank(); i < head + (e.to - end); i += scope.size()) {
    const size_t at = i < head ? e.from + i : end + (i - head);
    uint8_t v[] = {arch::load_global(reinterpret_cast<const uint8_t *>(source + at))};
    arch::arrive(v);
    for (int k = 1; k <= dests; k++)
      if (char *d = dest(k)) arch::store_remote(reinterpret_cast<uint8_t *>(d + at), v[0]);
  }
}

// A divisor of every address of an object of T.
template <class T> inline constexpr int unit_of = alignof(T) < 16 ? alignof(T) : 16;

} // namespace shmem::device

// SPDX-License-Identifier: MIT
// Copies by the threads of a scope, 16 bytes at a time where both sides allow it. Each thread has
// four words in flight: a workgroup of 1024 has 64 KiB on the way, which is what a link of 40 GB/s
// carries in the 1.5 us until it answers.
#pragma once
#include "kinds.hpp"
#include "pattern.hpp"
#include "scope.hpp"

namespace shmem::device {

inline constexpr int in_flight = 4;

// Copies n aligned words, of which each thread takes every size-th. Strides are in words.
template <Remote remote, class W, class Scope>
SHMEM_D_ void copy_words(W *d, const W *s, size_t n, Scope scope, size_t dst = 1, size_t sst = 1) {
  const size_t size = scope.size();
  size_t i = scope.rank();
  W v[in_flight];
  for (; i + (in_flight - 1) * size < n; i += in_flight * size) {
    if constexpr (remote == Remote::source)
      arch::load_remote<in_flight>(v, s + i * sst, size * sst);
    else
      for (int k = 0; k < in_flight; k++) v[k] = s[(i + k * size) * sst];
    for (int k = 0; k < in_flight; k++)
      if constexpr (remote == Remote::dest)
        arch::store_remote(d + (i + k * size) * dst, v[k]);
      else
        d[(i + k * size) * dst] = v[k];
  }
  for (; i < n; i += size) {
    W one[1];
    if constexpr (remote == Remote::source)
      arch::load_remote<1>(one, s + i * sst, 1);
    else
      one[0] = s[i * sst];
    if constexpr (remote == Remote::dest)
      arch::store_remote(d + i * dst, one[0]);
    else
      d[i * dst] = one[0];
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
    if (head)
      copy_words<remote>(reinterpret_cast<U *>(d), reinterpret_cast<const U *>(s), head / unit,
                         scope);
    const size_t done = head + words * word;
    if (tail)
      copy_words<remote>(reinterpret_cast<U *>(d + done), reinterpret_cast<const U *>(s + done),
                         tail / unit, scope);
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

// Copies source, which is read once, to the same place of several members' dests, dest(1) to
// dest(dests); null ones are left out.
template <class W, class Scope, class Dest>
SHMEM_D_ void spread_words(const char *source, size_t from, size_t to, int dests, Scope scope,
                           Dest dest) {
  const size_t n = (to - from) / sizeof(W), size = scope.size();
  const W *s = reinterpret_cast<const W *>(source + from);
  size_t i = scope.rank();
  for (; i + 3 * size < n; i += 4 * size) {
    W v[4];
    SHMEM_UNROLL_
    for (int j = 0; j < 4; j++) v[j] = arch::load_global(s + i + j * size);
    for (int k = 1; k <= dests; k++)
      if (char *d = dest(k)) {
        SHMEM_UNROLL_
        for (int j = 0; j < 4; j++)
          arch::store_remote(reinterpret_cast<W *>(d + from) + i + j * size, v[j]);
      }
  }
  for (; i < n; i += size) {
    const W v = arch::load_global(s + i);
    for (int k = 1; k <= dests; k++)
      if (char *d = dest(k)) arch::store_remote(reinterpret_cast<W *>(d + from) + i, v);
  }
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
  if (head) spread_words<uint8_t>(source, e.from, begin, dests, scope, dest);
  if (end < e.to) spread_words<uint8_t>(source, end, e.to, dests, scope, dest);
}

// What divides every address of an object of T.
template <class T> inline constexpr int unit_of = alignof(T) < 16 ? alignof(T) : 16;

} // namespace shmem::device

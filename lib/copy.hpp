// SPDX-License-Identifier: MIT
// Copies whose dest somebody may wait on. Each byte is stored once, and the last word last: memcpy
// stores some bytes twice, by words that overlap, and a receiver that had seen the flag in them,
// and reset it for the next round, found it set again and the next one lost (ping-pong by a put of
// 1, 2 and 8 words, 4 PEs on 2 cores, 2026-11: 6 of 15 runs hung).
#pragma once
#include "state.hpp"
#include <cstring>

namespace shmem {

// Copies n bytes that do not overlap. 1, 2, 4 and 8 are one store, as one load had them; more are
// stored upwards or in any order, but for the last aligned word of up to 8 bytes, which comes after
// all others. Of 0 bytes, either side may be null.
[[gnu::noinline]] void copy_once(void *dest, const void *source, size_t n);

// One of 1, 2, 4 or 8 bytes.
inline void store_once(void *dest, const void *source, size_t n) {
  if (n == 8) memcpy(dest, source, 8);
  if (n == 4) memcpy(dest, source, 4);
  if (n == 2) memcpy(dest, source, 2);
  if (n == 1) memcpy(dest, source, 1);
}

// The same with stores that pass the caches, or by the GPU. For large copies, and all where device
// memory may be met.
[[gnu::noinline]] void copy_stream(void *dest, const void *source, size_t n);
// From this size on it pays: half the last-level cache, so that source and dest do not fit
// together.
size_t stream_threshold();

// One of the two sides is in a peer.
inline void copy(void *dest, const void *source, size_t n) {
  if (n < self.stream_bytes) [[likely]]
    copy_once(dest, source, n);
  else
    copy_stream(dest, source, n);
}

// Copies one element, in one store up to 16 bytes. The private side of a transfer may have any
// alignment.
template <class T> inline void copy_one(T *dest, const T *source) {
  memcpy(static_cast<void *>(dest), source, sizeof(T));
}

} // namespace shmem

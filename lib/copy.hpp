// SPDX-License-Identifier: MIT
// Copies to a dest that a thread may wait on. Each byte is stored once, and the last word last.
// memcpy stores some bytes twice, by words that overlap: a receiver saw a flag, reset it for the
// next round, found it set again, and lost the next one (ping-pong by a put of 1, 2 and 8 words, 4
// PEs on 2 cores, 2026-11: 6 of 15 runs hung).
#pragma once
#include "state.hpp"
#include <cstring>

namespace shmem {

// Copies n bytes that do not overlap. 1, 2, 4 and 8 bytes are one load and one store. More are
// stored upwards or in any order, but the last aligned word, of up to 8 bytes, comes after all
// others. For 0 bytes either side may be null.
[[gnu::noinline]] void copy_once(void *dest, const void *source, size_t n);

// An element of 1, 2, 4 or 8 bytes.
inline void store_once(void *dest, const void *source, size_t n) {
  if (n == 8) memcpy(dest, source, 8);
  if (n == 4) memcpy(dest, source, 4);
  if (n == 2) memcpy(dest, source, 2);
  if (n == 1) memcpy(dest, source, 1);
}

// The same with stores that bypass the caches, or by the GPU. For large copies, and for all copies
// if source or dest may be device memory.
[[gnu::noinline]] void copy_stream(void *dest, const void *source, size_t n);
// The size from which copy_stream pays: half the last-level cache, since source and dest no longer
// fit together.
size_t stream_threshold();

// One of the two sides is a peer's.
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

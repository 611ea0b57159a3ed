// SPDX-License-Identifier: MIT
#pragma once
#include "state.hpp"
#include <cstring>

namespace shmem {

// Copies with stores that pass the caches. For large copies, and all where device memory may be
// met.
[[gnu::noinline]] void copy_stream(void *dest, const void *source, size_t n);
// From this size on it pays: half the last-level cache, so that source and dest do not fit
// together.
size_t stream_threshold();

// Copies n bytes that do not overlap, one of the two sides in a peer. Of 0 bytes, either may be
// null: that is fine with every memcpy there is, and with C2y, so the sanitizer is told not to
// mind.
inline void copy(void *dest, const void *source, size_t n) {
  if (n < self.stream_bytes) [[likely]]
    memcpy(dest, source, n);
  else
    copy_stream(dest, source, n);
}

// Copies one element. The private side of a transfer may have any alignment.
template <class T> inline void copy_one(T *dest, const T *source) {
  memcpy(static_cast<void *>(dest), source, sizeof(T));
}

} // namespace shmem

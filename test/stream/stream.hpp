// SPDX-License-Identifier: MIT
// Shared by the tests of streams. They are host code, and run on every platform. Their tables of
// tests are not const: of a const one hipcc makes one of the device, which then lacks the host's
// functions (clang 15, 2026-11).
#ifndef TEST_STREAM_HPP
#define TEST_STREAM_HPP

#include "../hip.hpp"
#include "objects.hpp"
#include <hip/hip_runtime.h>
#include <shmemx.h>

extern hipStream_t stream, second;

inline void finish_all() {
  HIP(hipDeviceSynchronize());
  shmem_barrier_all();
}
inline char *device_alloc(size_t bytes, int fill, bool atomics = false) {
  void *p = object_alloc(bytes, atomics);
  CHECK(p, "no %zu bytes of device heap", bytes);
  HIP(hipMemset(p, fill, bytes));
  finish_all();
  return static_cast<char *>(p);
}
// The algorithm and grid of all collectives until the next call; on the host only.
inline void choose(const char *algorithm, unsigned blocks, unsigned threads) {
  char row[128];
  snprintf(row, sizeof row, "* * 512 %zu %s %u %u", SIZE_MAX, algorithm, blocks, threads);
  CHECK(shmemx_tune(row) == 0, "%s", row);
}
inline void to_device(void *to, const void *from, size_t bytes) {
  HIP(hipMemcpyAsync(to, from, bytes, hipMemcpyHostToDevice, stream)); // see ../stream.hpp
  HIP(hipStreamSynchronize(stream));
}
inline void from_device(void *to, const void *from, size_t bytes) {
  HIP(hipMemcpy(to, from, bytes, hipMemcpyDeviceToHost));
}
// A byte that says which PE wrote it, for what, and where.
inline unsigned char sample(int pe, int salt, size_t i) {
  return static_cast<unsigned char>(i * 131 + (i >> 8) * 17 + size_t(pe) * 29 + size_t(salt) * 7 +
                                    1);
}

#endif

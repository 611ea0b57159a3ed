// SPDX-License-Identifier: MIT
// Collectives of a team by the GPU's copy engines, which take no compute unit: what a product
// beside them would miss.
#pragma once
#include "../state.hpp"
#include <hip/hip_runtime_api.h>

namespace shmem::gpu {

bool has_engines(const Team &t); // between make_engines and drop_engines
void make_engines(const Team &t);
void drop_engines(const Team &t);
void drop_engines(); // of all teams

// A copy to a member; many of them are on their way at once. own: to this PE itself.
struct EngineCopy {
  char *dest;
  const char *source;
  bool own;
};
// Copies of `bytes` bytes each: after the work that the stream has now, before its next work.
void copy_by_engines(const char *fn, const Team &t, const EngineCopy *copies, int n, size_t bytes,
                     hipStream_t stream);

} // namespace shmem::gpu

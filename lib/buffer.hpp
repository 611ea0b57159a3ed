// SPDX-License-Identifier: MIT
// Memory of the program's own that it has made symmetric: shmemx_buffer_register. The heap's paths
// know nothing of it; what is not on the heap looks here, by a binary search. register.cpp makes it
// so.
#pragma once
#include "gpu.hpp"
#include <vector>

namespace shmem::buffer {

inline constexpr int most = 1024;

struct Range {
  uintptr_t from, to;
  bool meets(const Range &r) const { return from < r.to && r.from < to; }
};

struct Buffer {
  Region region;
  Team *team;                   // that has it
  std::vector<ptrdiff_t> delta; // to each PE of the node; device::outside of others than the team's
  std::vector<uintptr_t> row;   // of memory of the GPU: to each PE, as kernels have it
  std::vector<Range> mapped;    // the peers' pages, here
  uint64_t handle;              // 0: this place is free
  bool device;                  // it is memory of the GPU
  std::vector<uintptr_t> bases; // then, of each member: its allocation
  Range bytes() const { return {region.base, region.base + region.size}; }
  Range pages() const { return {region.base & ~(page - 1), round_up(bytes().to, page)}; }
};

extern Buffer buffers[most];             // register.cpp changes them, and then calls
std::vector<gpu::BufferThere> publish(); // those in device memory, ascending

// The buffer that p lies in, or null. Any thread asks, at any time.
const Region *find(const void *p);
const Region *find_device(const void *p); // of those in device memory
// The team whose PEs alone have what is in r; null: all have.
const Team *team_of(const Region &r);
// Whether PE pe has what is in r, which a PE outside of a buffer's team has not; and ends the
// program where a call names such a PE.
bool is_at(const Region &r, int pe);
void check_at(const char *fn, const char *arg, const void *p, const Region &r, int pe);
// Whether what PE pe has of p is tagged as device::coarse.
bool is_coarse(const void *p, int pe);
// The place in `buffers` of the one that p lies in, or -1; and where kernels would find the deltas.
int place_of(const void *p);
const ptrdiff_t *deltas(const Region *r);
// The name that p has on all PEs, in a buffer of this PE or of a peer as it is mapped here; 0 where
// it is in none.
uint64_t name(const void *p);
// Whether p lies in one in device memory, of this PE or of a peer as it is mapped here.
bool on_device(const void *p);
void drop_all(); // at finalize, when nobody uses any

} // namespace shmem::buffer

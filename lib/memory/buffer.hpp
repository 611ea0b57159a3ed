// SPDX-License-Identifier: MIT
// Memory of the program's own that it has made symmetric: shmemx_buffer_register. The heap's paths
// know nothing of it; an address that is not on the heap is looked up here, by a binary search.
// register.cpp registers.
#pragma once
#include "../state.hpp"
#include <vector>

// Why an atomic is refused, after the address; then the PE's number.
#define NO_ATOMIC                                                                                  \
  "PE %d has it in coarse-grained memory (hipMalloc's), which knows nothing of another gfx90a's "  \
  "atomics: use shmem_malloc, or hipExtMallocWithFlags with hipDeviceMallocFinegrained"

namespace shmem::buffer {

inline constexpr int most = 1024;

struct Interval {
  uintptr_t from, to;
  bool meets(const Interval &r) const { return from < r.to && r.from < to; }
};

struct Buffer {
  Region region;
  Team *team;                   // that has it
  std::vector<uintptr_t> delta; // to each PE of the node; device::outside of others than the team's
  std::vector<uintptr_t> row;   // of memory of the GPU: to each PE, as kernels have it
  std::vector<Interval> mapped; // the peers' pages, here
  uint64_t handle;              // 0: this index is free
  bool device;                  // it is memory of the GPU
  std::vector<uintptr_t> bases; // then, of each member: its allocation
  Interval bytes() const { return {region.base, region.base + region.size}; }
  Interval pages() const { return {region.base & ~(page - 1), round_up(bytes().to, page)}; }
};

// The one table, by index. register.cpp changes it, and then calls index_addresses, which gives the
// indices of those in device memory, ascending by address.
extern Buffer buffers[most];
std::vector<int> index_addresses();

// The buffer that p lies in, or null. Any thread asks, at any time.
const Region *find(const void *p);
const Region *find_device(const void *p); // of those in device memory
// Whether PE pe has what is in r, which a PE outside of a buffer's team has not; and ends the program
// where a call names such a PE.
bool is_at(const Region &r, int pe);
void check_at(const char *fn, const char *arg, const void *p, const Region &r, int pe);
// Whether what PE pe has of p is tagged as device::coarse; and ends the program where therefore no
// atomic can be done on it.
bool is_coarse(const void *p, int pe);
void check_atomic(const char *fn, const char *arg, const void *p, int pe);
// The index of the buffer that p lies in, or -1.
int index_of(const void *p);
// The name that p has on all PEs, in a buffer of this PE or of a peer as it is mapped here; 0 where
// it is in none.
uint64_t name(const void *p);
// Whether p lies in one in device memory, of this PE or of a peer as it is mapped here.
bool on_device(const void *p);
void drop_all(); // at finalize, when nobody uses any

} // namespace shmem::buffer

// SPDX-License-Identifier: MIT
// The program's own memory on this PE's GPU.
#pragma once
#include <cstddef>
#include <cstdint>

namespace shmem::gpu {

// An allocation as other PEs map it.
struct Exported {
  std::byte handle[64];
  uintptr_t base;
  bool coarse; // see device::coarse
};
// The GPU whose memory p is, while this PE has none; or -1.
int foreign_device(const void *p);
// Whether p is such memory; if it is, and cannot be a buffer, the program ends.
bool has_memory(const char *fn, const void *p, size_t bytes, Exported *exported);
// Whether a GPU reaches the pages of p in place: its own memory, or pinned host memory.
bool has_pages(const void *p);
// Gives the address here of PE pe's allocation, which is mapped until each open has had its close.
char *open_memory(const char *fn, int pe, const Exported &theirs);
void close_memory(int pe, uintptr_t base);

} // namespace shmem::gpu

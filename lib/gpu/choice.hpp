// SPDX-License-Identifier: MIT
// Which GPU a PE takes, and which ones the other PEs of the node have taken.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace shmem::gpu {

// What PEs tell each other of their GPUs.
struct Gpu {
  char bus[16];  // which partitions of a GPU share (CPX of MI300X, MIG): they differ in their UUID
  char uuid[16]; // zero where HIP tells none: then the bus address has to do
  int device;
  bool near; // the CPU and this GPU have one memory
  size_t free, total;
  bool operator==(const Gpu &other) const;
};
// Where each PE of the node has its heap, once exchange_gpus() was called; empty where there is no
// device heap.
extern std::vector<Gpu> gpus;

// Why choose would end this process, for which a device is named: there are fewer. Or empty.
std::string obstacle(int device);
// Before anything starts the GPU's runtime: whether the program has.
void look();
// Whether a GPU may still be opened; and why there is no device heap, for a line.
bool may_open();
const char *missing();
void give_up(bool yes = true); // nothing is tried again in this job
// Whether some PE asks for a GPU; kernels: the program has some. Collective, as the next two are.
bool asked(bool kernels);
// Chooses this PE's, which is `known` unless that is -1; false when some PE sees none.
bool choose(int known);
void exchange_gpus();
// Another PE's device by its number here, or -1: this PE may not see it.
int device_here(const Gpu &theirs);
// Whether PE `local` of this node has its memory on the GPU of this one.
bool shares_gpu(int local);
// MB/s one way from this PE's GPU to the one where PE pe has its device heap, or 0: all that leaves
// it goes through a switch.
double rate_to(int pe);

} // namespace shmem::gpu

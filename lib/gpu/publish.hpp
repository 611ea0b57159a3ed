// SPDX-License-Identifier: MIT
// What kernels know of the job: one device::State, which every module of device code gets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shmem {
struct Region;
}

namespace shmem::gpu {

// Called once the heap and the flags are mapped.
struct FlagMemory {
  char *own;             // arrived, epoch, claimed
  const uintptr_t *peer; // the others', as mapped here
};
void publish(const FlagMemory &flags);
void unpublish();
bool has_kernels();      // the program, beside those of the library
int device_of_modules(); // that the program has loaded and this PE's GPU waits for; or -1
size_t flag_bytes();
// Kernels may have a line to say from now on.
void let_report();
// Publishes the buffers in device memory to kernels: their indices, ascending by address. come: the
// new one, or -1.
void show_buffers(const std::vector<int> &ascending, int come);
// The deltas of a buffer in device memory. Kernels find them by an address; products get them with
// their call.
const uintptr_t *row_of(const Region &buffer);
size_t trial_at(); // in the flags: room to try out the mappings, up to their end

} // namespace shmem::gpu

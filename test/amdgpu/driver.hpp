// SPDX-License-Identifier: MIT
// What the parts of the driver know of each other. The rest of it is hsakmt.h, what ROCr calls.
#pragma once
#include <cstdint>
#include <string>

namespace amdgpu {

// The machine, read from the file that AMDGPU_NODES names, or else the one of the GPU that
// all is built for, beside this library.
// Node 0 is the host, the GPUs come after it.
struct Nodes {
  unsigned gpus = 1, major = 0, minor = 0, stepping = 0, device = 0, units = 1, engines = 1,
           clock_mhz = 0, xccs = 1, partitions = 1, lds_kib = 64;
  uint64_t memory_mib = 0;
  unsigned memory_width = 0, memory_mhz = 0, l1_kib = 0, l2_kib = 0, xgmi = 0, pcie = 0;
  std::string name, product;
};
const Nodes &nodes();

// The event of that id is set, as the packet processor's interrupt does; 0 is none.
void set_event(uint32_t id);

// Code may have gone with memory that was freed; the machine forgets what it decoded, at its next turn.
void code_changed();

} // namespace amdgpu

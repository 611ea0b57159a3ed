// SPDX-License-Identifier: MIT
// The interfaces between the parts of the driver. ROCr's calls are in hsakmt.h, up to 6.1, and in
// linux/kfd_ioctl.h.
#pragma once
#include <cstdint>
#include <string>

namespace amdgpu {

// The machine, read from the file that AMDGPU_NODES names, or else from the file of the GPU that
// all is built for, beside this library. Node 0 is the host, the GPUs come after it.
struct Nodes {
  unsigned gpus = 1, major = 0, minor = 0, stepping = 0, device = 0, units = 1, engines = 1,
           clock_mhz = 0, xccs = 1, partitions = 1, lds_kib = 64, sdma = 0;
  // The driver's refusals: open is 0 where this user may not open /dev/kfd, ipc where the kernel
  // has no calls for it, as mainline's, and pins is 1 where exported memory is not given back when
  // it is freed (ROCm 7.2).
  unsigned open = 1, ipc = 1, pins = 0;
  uint64_t memory_mib = 0;
  unsigned memory_width = 0, memory_mhz = 0, l1_kib = 0, l2_kib = 0, xgmi = 0, pcie = 0;
  std::string name, product;
};
const Nodes &nodes();
inline bool gfx90a() {
  static const bool is = nodes().name == "gfx90a";
  return is;
}
// Of a GPU's node: bus, device and function, which the partitions of a GPU share (the kernel counts
// these in the upper bits), and a number that no other has.
inline uint32_t location(unsigned node) {
  return (1 + (node - 1) / nodes().partitions) << 8 | (node - 1) % nodes().partitions << 28;
}
inline uint64_t unique(unsigned node) {
  return uint64_t(nodes().device) << 48 | node;
}

// The event of that id is set, as the packet processor's interrupt does; 0 is none.
void set_event(uint32_t id);

// A queue of AQL packets of that node: the ring, the index of the next packet to read, which is a
// part of the amd_queue_t, and the doorbell. Its id, from 1.
inline constexpr size_t packet_bytes = 64;
uint64_t create_queue(unsigned node, void *ring, uint64_t bytes, volatile uint64_t *read_index,
                      volatile uint64_t *doorbell);
// One of a copy engine's: the indices count bytes and go on past the ring's end.
uint64_t create_sdma(void *ring, uint64_t bytes, volatile uint64_t *read_index,
                     volatile uint64_t *doorbell);
// Does a packet that begins at word, of which so many words are there. How many it has; 0: it has
// to wait. Where there is a clock, it moves the engine's time on.
size_t run_sdma(const uint32_t *word, size_t words, int64_t *now = nullptr);
bool destroy_queue(uint64_t id); // false: there is none

// Code may have gone with memory that was freed; the machine forgets what it decoded, at its next
// turn.
void code_changed();

} // namespace amdgpu

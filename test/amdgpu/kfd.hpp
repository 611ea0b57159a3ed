// SPDX-License-Identifier: MIT
// The kernel's driver, as ROCr finds it from 6.3 on: a device, files that describe the machine, and
// libdrm_amdgpu.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace amdgpu {

// A part of a process's file, and which kind of memory it is: a driver keeps that with the memory,
// for each process that imports it.
struct Place {
  int pid = 0, fd = -1;
  int64_t at = 0;
  uint64_t bytes = 0;
  unsigned node = 0; // whose it is; 0 for the host's
  bool coarse = false;
};
int open_place(const Place &place);  // a descriptor of that file, or -1
bool place_in(int fd, Place &place); // what such a descriptor says

int open_device();                                  // of /dev/kfd or a render node, or -1
int device_call(unsigned long request, void *args); // ioctl: 0 or errno

// The text of a file below topology_folder; that of a folder is the names in it, a line each.
inline constexpr char topology_folder[] = "/sys/devices/virtual/kfd/kfd/topology";
std::optional<std::string> topology(std::string path);

} // namespace amdgpu

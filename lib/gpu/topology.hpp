// SPDX-License-Identifier: MIT
// What the kernel driver knows of AMD's GPUs and of the links that join them.
#pragma once

namespace shmem::gpu {

inline constexpr const char *topology = "/sys/class/kfd/kfd/topology";

// MB/s one way between the GPUs of two PCI buses ("0000:c1:00.0"), or 0 if the driver does not
// tell.
double link_rate(const char *folder, const char *from, const char *to);

} // namespace shmem::gpu

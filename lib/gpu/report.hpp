// SPDX-License-Identifier: MIT
#pragma once
#include "../../device/state.hpp"

namespace shmem::gpu {

// Starts to listen to kernels; gives where they write, by the device's address of it.
device::Report *open_reports();
void close_reports();

} // namespace shmem::gpu

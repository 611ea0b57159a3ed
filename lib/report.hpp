// SPDX-License-Identifier: MIT
// The last words of kernels: a thread of the library reads them, prints them and ends the job.
#pragma once
#include "../device/state.hpp"

namespace shmem::report {

// Starts to listen; gives where kernels write, by the device's address of it.
device::Report *open();
void close();

} // namespace shmem::report

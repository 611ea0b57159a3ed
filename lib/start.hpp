// SPDX-License-Identifier: MIT
// Starting without a launcher: by a unique id, by the program's own functions, by variables.
#pragma once
#include <optional>

namespace shmem {

// Joins the job that SHMEM_BOOTSTRAP names, unless shmemx_init_attr has joined one. Before
// bootstrap::join, with the environment read.
void choose_way();

extern std::optional<int> device_of_attributes; // the GPU of shmemx_init_attr_t

} // namespace shmem

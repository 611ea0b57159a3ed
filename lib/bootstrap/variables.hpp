// SPDX-License-Identifier: MIT
#pragma once

namespace shmem::bootstrap {

// Joins the job that SHMEM_BOOTSTRAP describes, unless shmemx_init_attr has joined one. To be
// called before join, with the environment read.
void choose_means();

} // namespace shmem::bootstrap

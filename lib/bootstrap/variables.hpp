// SPDX-License-Identifier: MIT
#pragma once

namespace shmem::bootstrap {

// Variables of launchers that tell a process its rank and offer no PMIx, and what to do there.
struct OtherLauncher {
  const char *rank, *size, *advice;
};
inline constexpr OtherLauncher other_launchers[] = {
    {"RANK", "WORLD_SIZE", "SHMEM_BOOTSTRAP=torchrun takes them"},
    // mpirun of MPICH and Intel MPI, srun --mpi=pmi2
    {"PMI_RANK", "PMI_SIZE", "oshrun and srun --mpi=pmix start a job by PMIx"},
};

// Joins the job that SHMEM_BOOTSTRAP describes, unless shmemx_init_attr has joined one. To be
// called before join, with the environment read.
void choose_means();

} // namespace shmem::bootstrap

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

// Keeps hwloc from listing GPUs, for which it would open each of them. PMIx 5.0.1 lists them in
// PMIx_Init: 1.4 s of a start with 4 H100s; with an OpenCL of the CPU, pocl, PMIx_Finalize then did
// not come back in 11 of 16 runs. Open MPI's mpirun lists them as well (OpenCL's plug-in of hwloc,
// Ubuntu 24.04, 2026-11-28).
inline constexpr struct {
  const char *name, *value;
} hwloc_without_gpus = {"HWLOC_COMPONENTS", "-opencl,-cuda,-nvml,-rsmi,-levelzero,-gl"};

// Joins the job that SHMEM_BOOTSTRAP describes, unless shmemx_init_attr has joined one. To be
// called before join, with the environment read.
void choose_means();

} // namespace shmem::bootstrap

// SPDX-License-Identifier: MIT
// Programs for NVSHMEM and rocSHMEM whose PEs are the processes of an MPI communicator.
// usage: communicator nvshmem|rocshmem|thread world|halves|null
//   world   all processes, as the launcher has them
//   halves  two communicators, of the even and of the odd ranks, each in the other order
//   null    MPI_COMM_NULL, which stands for all
#include <cstdio>
#include <cstring>
#include <mpi.h>
#include <nvshmemx.h>
#include <rocshmem/rocshmem.hpp>

namespace {

int start(const char *library, MPI_Comm comm) {
  if (!strcmp(library, "nvshmem")) {
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    attr.mpi_comm = &comm;
    return nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr);
  }
  if (!strcmp(library, "thread")) {
    int provided = -1;
    const int error =
        rocshmem::rocshmem_init_thread(rocshmem::ROCSHMEM_THREAD_MULTIPLE, &provided, comm);
    return error || provided != rocshmem::ROCSHMEM_THREAD_MULTIPLE;
  }
  rocshmem::rocshmem_init(comm);
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const bool halves = !strcmp(argv[2], "halves");
  MPI_Comm comm = !strcmp(argv[2], "null") ? MPI_COMM_NULL : MPI_COMM_WORLD;
  if (halves) MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
  int want = rank, n = size;
  if (halves) MPI_Comm_rank(comm, &want), MPI_Comm_size(comm, &n);

  if (start(argv[1], comm)) return 1;
  const int me = shmem_my_pe();
  bool wrong = me != want || shmem_n_pes() != n;
  auto *ranks = static_cast<int *>(shmem_calloc(size_t(n), sizeof(int)));
  for (int pe = 0; pe < n; pe++) shmem_int_p(ranks + me, rank, pe);
  shmem_barrier_all();
  for (int pe = 0; pe < n; pe++) wrong |= ranks[pe] != (halves ? rank % 2 + 2 * (n - 1 - pe) : pe);
  if (wrong) fprintf(stderr, "rank %d of %d: PE %d of %d\n", rank, size, me, shmem_n_pes());
  shmem_finalize();
  MPI_Finalize();
  return wrong;
}

// SPDX-License-Identifier: MIT
// MPI and OpenSHMEM in one program. usage: hybrid FIRST LAST HOW
//   FIRST  mpi | shmem: the library that is initialized first
//   LAST   mpi | shmem: the library that is finalized last
//   HOW    traffic | shmem_global_exit | mpi_abort: run and check, or end the job with status 5
#include <mpi.h>
#include <pthread.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { laps = 50, large = 1 << 17, calls = 300 };

static int rank, size, errors;
static int *pe_of, *rank_of;  // the map, both ways
static long from_left[large]; // static data is symmetric
static uint64_t arrived, heard;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "rank %d of %d, line %d: %s\n", rank, size, __LINE__, #condition);           \
      errors++;                                                                                    \
    }                                                                                              \
  } while (0)

static int right(void) {
  return (rank + 1) % size;
}
static int left(void) {
  return (rank + size - 1) % size;
}

static void exchange_map(void) {
  const int me = shmem_my_pe();
  pe_of = malloc(size * sizeof *pe_of);
  rank_of = shmem_malloc(size * sizeof *rank_of);
  int *mine = shmem_malloc(sizeof *mine);
  *mine = rank;
  MPI_Allgather(&me, 1, MPI_INT, pe_of, 1, MPI_INT, MPI_COMM_WORLD);
  CHECK(shmem_int_fcollect(SHMEM_TEAM_WORLD, rank_of, mine, 1) == 0);
  for (int r = 0; r < size; r++) CHECK(pe_of[r] >= 0 && pe_of[r] < size && rank_of[pe_of[r]] == r);
  shmem_free(mine);
}

// A token goes round, by a message and by a put in turn: a PE that waits in one library is woken by
// a PE that has just left the other. Small and large, since large messages need both sides in MPI.
static void alternate(size_t n) {
  long *token = shmem_calloc(large, sizeof *token);
  const uint64_t before = arrived;
  uint64_t puts = 0;
  shmem_barrier_all();
  for (long lap = 0; lap < laps; lap++) {
    const long stamp = lap * size + rank, sent = rank == 0 ? lap - 1 : lap;
    if (stamp > 0) {
      if ((sent + left()) % 2) {
        shmem_signal_wait_until(&arrived, SHMEM_CMP_EQ, before + ++puts);
        memcpy(token, from_left, n * sizeof *token);
      } else {
        MPI_Recv(token, (int)n, MPI_LONG, left(), 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      }
      CHECK(token[0] == stamp - 1 && token[n - 1] == stamp - 1);
    }
    if (stamp == laps * size - 1) break;
    for (size_t i = 0; i < n; i++) token[i] = stamp;
    if ((lap + rank) % 2)
      shmem_long_put_signal(from_left, token, n, &arrived, 1, SHMEM_SIGNAL_ADD, pe_of[right()]);
    else
      MPI_Send(token, (int)n, MPI_LONG, right(), 7, MPI_COMM_WORLD);
  }
  shmem_barrier_all();
  shmem_free(token);
}

// Messages between symmetric objects are on their way while puts and a barrier go on beside them.
static void overlap(void) {
  long *send = shmem_malloc(large * sizeof *send), *receive = shmem_malloc(large * sizeof *send);
  for (long lap = 0; lap < 5; lap++) {
    MPI_Request requests[2];
    for (long i = 0; i < large; i++) send[i] = lap + rank + i;
    MPI_Irecv(receive, large, MPI_LONG, left(), 8, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(send, large, MPI_LONG, right(), 8, MPI_COMM_WORLD, &requests[1]);
    shmem_long_put(from_left, send, large, pe_of[right()]); // reading what is being sent is allowed
    shmem_barrier_all();
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(memcmp(receive, from_left, large * sizeof *receive) == 0);
    CHECK(receive[large - 1] == lap + left() + large - 1);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  shmem_free(receive);
  shmem_free(send);
}

// The same sums, over all PEs and over every second one.
static void compare_collectives(void) {
  long *value = shmem_malloc(2 * sizeof *value), sum;
  shmem_team_t team, other;
  MPI_Comm comm;
  const int me = shmem_my_pe(), half = (size + 1) / 2;
  shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, half, NULL, 0, &team);
  if (size > 1) shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, size / 2, NULL, 0, &other);
  if (me % 2) team = other;
  MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &comm);
  for (long i = 0; i < calls; i++) {
    value[0] = (rank + 1) * i;
    shmem_long_sum_reduce(i % 2 ? team : SHMEM_TEAM_WORLD, &value[1], &value[0], 1);
    MPI_Allreduce(&value[0], &sum, 1, MPI_LONG, MPI_SUM, i % 2 ? comm : MPI_COMM_WORLD);
    CHECK(value[1] == sum);
  }
  MPI_Comm_free(&comm);
  shmem_team_destroy(team);
  shmem_free(value);
}

// Two threads of a PE, one in each library, neither waiting for the other.
static void *talk_mpi(void *comm) {
  for (long i = 0; i < calls; i++) {
    long got = -1;
    MPI_Sendrecv(&i, 1, MPI_LONG, right(), 9, &got, 1, MPI_LONG, left(), 9, *(MPI_Comm *)comm,
                 MPI_STATUS_IGNORE);
    CHECK(got == i);
  }
  return NULL;
}
static void talk_shmem(void) {
  for (uint64_t i = 1; i <= calls; i++) {
    shmem_uint64_atomic_add(&heard, 1, pe_of[right()]);
    shmem_uint64_wait_until(&heard, SHMEM_CMP_GE, i);
  }
}
static void talk_at_once(void) {
  MPI_Comm comm;
  pthread_t thread;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  heard = 0;
  shmem_barrier_all();
  CHECK(pthread_create(&thread, NULL, talk_mpi, &comm) == 0);
  talk_shmem();
  pthread_join(thread, NULL);
  shmem_barrier_all();
  CHECK(heard == calls);
  MPI_Comm_free(&comm);
}

static void init_mpi(int *argc, char ***argv) {
  int level;
  MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(level == MPI_THREAD_MULTIPLE);
}
static void init_shmem(void) {
  int level;
  CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &level) == 0 && level == SHMEM_THREAD_MULTIPLE);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  const char *first = argv[1], *last = argv[2], *how = argv[3];
  if (*first == 'm') init_mpi(&argc, &argv);
  init_shmem();
  if (*first == 's') init_mpi(&argc, &argv);
  CHECK(size == shmem_n_pes());
  exchange_map();

  if (strcmp(how, "traffic") != 0) {
    if (rank == size - 1) {
      if (*how == 's') shmem_global_exit(5);
      MPI_Abort(MPI_COMM_WORLD, 5);
    }
    if (rank % 2) MPI_Barrier(MPI_COMM_WORLD); // the others wait in one library or the other
    shmem_barrier_all();
    return 0; // not reached
  }

  if (size > 1) {
    alternate(1);
    alternate(large);
  }
  overlap();
  compare_collectives();
  talk_at_once();

  // Down and up again in the middle of an MPI program.
  shmem_free(rank_of);
  shmem_finalize();
  MPI_Barrier(MPI_COMM_WORLD);
  init_shmem();
  CHECK(shmem_my_pe() == pe_of[rank]);
  talk_at_once();

  int all = 0;
  MPI_Allreduce(&errors, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (*last == 's') MPI_Finalize();
  shmem_finalize();
  if (*last == 'm') { // MPI goes on without the other
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
  }
  free(pe_of);
  return all != 0;
}

// SPDX-License-Identifier: MIT
// Jobs that a process starts by itself. The parent makes the id and waits; it prints how its
// children end.
//   test_start CASE N                    the PEs are forks of the parent
//   test_start CASE N exec               the PEs are programs of their own,
//   test_start CASE N RANK ID MEMORY     which is how each is started
//   test_start killed N CALL             forks, of which one is killed at a system call
//   test_start id                        only makes an id, prints it, and waits for the end of its
//                                        input
#include <errno.h>
#include <pthread.h>
#include <shmem.h>
#include <shmemx.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *which;
static int n;
static shmemx_uniqueid_t id;
static long counter;

static int is(const char *name) {
  return !strcmp(which, name);
}

static void need(int right, const char *what) {
  if (right) return;
  fprintf(stderr, "not true: %s (%s)\n", what, shmemx_error_string());
  exit(9);
}
#define NEED(x) need(x, #x)

static shmemx_init_attr_t attr_of(int rank) {
  shmemx_init_attr_t attr = SHMEMX_INIT_ATTR_INITIALIZER;
  attr.rank = rank, attr.n = n, attr.uniqueid = &id;
  return attr;
}

static void use_all(int rank) {
  NEED(shmem_my_pe() == rank && shmem_n_pes() == n);
  long *sum = shmem_calloc(1, sizeof *sum);
  for (int pe = 0; pe < n; pe++)
    shmem_long_atomic_add(sum, rank, pe), shmem_long_atomic_inc(&counter, pe);
  shmem_barrier_all();
  NEED(*sum == (long)n * (n - 1) / 2 && counter == n);
  static int mine, all;
  mine = rank;
  shmem_int_max_reduce(SHMEM_TEAM_WORLD, &all, &mine, 1);
  NEED(all == n - 1);
  shmem_free(sum);
}

// The functions of a program that has its own network.
static struct Shared {
  pthread_barrier_t barrier;
  shmemx_uniqueid_t next;
  char bytes[64][8192];
  int leaves[64]; // by rank, from the call of shmem_finalize on
} * shared;
static int my_rank, context;
static int all_wait(void *c) {
  NEED(c == &context);
  pthread_barrier_wait(&shared->barrier);
  return 0;
}
static int give_all(void *c, const void *mine, void *all, size_t bytes) {
  NEED(bytes <= sizeof shared->bytes[0]);
  memcpy(shared->bytes[my_rank], mine, bytes);
  all_wait(c);
  for (int i = 0; i < n; i++) memcpy((char *)all + (size_t)i * bytes, shared->bytes[i], bytes);
  all_wait(c);
  return 0;
}
static int fails(void *c, const void *mine, void *all, size_t bytes) {
  (void)c, (void)mine, (void)all, (void)bytes;
  return 5;
}

static void expect(int code, const shmemx_init_attr_t *attr, const char *line) {
  const int got = shmemx_init_attr(0, attr);
  if (got == code && !strcmp(shmemx_error_string(), line)) return;
  fprintf(stderr, "%d, \"%s\": want %d, \"%s\"\n", got, shmemx_error_string(), code, line);
  exit(9);
}

// Arguments that are wrong by themselves; the process goes on after each, and starts at last.
static void bad_arguments(void) {
  NEED(!*shmemx_error_string());
  NEED(shmemx_get_uniqueid(NULL) == SHMEMX_ERROR_ARGUMENT);
  NEED(!strcmp(shmemx_error_string(), "shmemx_get_uniqueid: uniqueid is NULL"));
  expect(SHMEMX_ERROR_ARGUMENT, NULL, "shmemx_init_attr: attr is NULL");
  shmemx_init_attr_t attr = attr_of(0);
  NEED(shmemx_init_attr(2, &attr) == SHMEMX_ERROR_ARGUMENT);
  attr.size = 8;
  NEED(shmemx_init_attr(0, &attr) == SHMEMX_ERROR_ARGUMENT);
  attr = attr_of(0), attr.thread_level = 77;
  expect(SHMEMX_ERROR_ARGUMENT, &attr, "shmemx_init_attr: thread_level = 77: not a thread level");
  attr = attr_of(0), attr.device = -7;
  expect(SHMEMX_ERROR_ARGUMENT, &attr,
         "shmemx_init_attr: device = -7: expected the number of a GPU, SHMEMX_DEVICE_ANY or "
         "SHMEMX_DEVICE_CURRENT");
  const char *means = "shmemx_init_attr: expected either uniqueid, or both allgather and barrier";
  attr = attr_of(0), attr.uniqueid = NULL;
  expect(SHMEMX_ERROR_ARGUMENT, &attr, means);
  attr.allgather = give_all;
  expect(SHMEMX_ERROR_ARGUMENT, &attr, means);
  attr = attr_of(0), attr.barrier = all_wait;
  expect(SHMEMX_ERROR_ARGUMENT, &attr, means);
  attr = attr_of(0), attr.uniqueid = NULL, attr.allgather = fails, attr.barrier = all_wait;
  expect(SHMEMX_ERROR_START, &attr,
         "shmemx_init_attr: rank = 0 of n = 1: allgather, the program's function, gives 5 for 8 "
         "bytes");
  shmemx_uniqueid_t zeros = {{0}};
  attr = attr_of(0), attr.uniqueid = &zeros;
  expect(SHMEMX_ERROR_ARGUMENT, &attr,
         "shmemx_init_attr: uniqueid is not from shmemx_get_uniqueid of this version");
  attr = attr_of(0), attr.n = 0;
  NEED(shmemx_init_attr(0, &attr) == SHMEMX_ERROR_START);
  NEED(shmemx_get_uniqueid(&id) == 0); // that one is used up by its failure
  attr = attr_of(0);
  NEED(shmemx_init_attr(0, &attr) == 0);
  use_all(0);
  attr = attr_of(1), attr.n = 2;
  expect(SHMEMX_ERROR_STATE, &attr,
         "shmemx_init_attr: rank = 1 of n = 2: this process is PE 0 of 1");
  attr = attr_of(0);
  NEED(shmemx_init_attr(0, &attr) == 0); // a second one, as shmem_init's
  shmem_init();
  shmem_finalize(), shmem_finalize(), shmem_finalize();
}

// Runs after the library's handler, which is registered later.
static void slow_handler(void) {
  if (is("slow_exit")) sleep(3);
  for (; is("stuck_exit");) pause();
}

static void run(int rank) {
  my_rank = rank;
  if (is("bad_arguments")) return bad_arguments();
  shmemx_init_attr_t attr = attr_of(rank);
  if (is("functions")) {
    attr.uniqueid = NULL, attr.allgather = give_all, attr.barrier = all_wait;
    attr.context = &context;
  }
  if (is("threads")) attr.thread_level = SHMEM_THREAD_MULTIPLE;
  if (is("late") && rank == 0) sleep(2);
  if (is("differs") && rank == n - 1) attr.n = n + 1;
  if (is("missing") && rank == n - 1) return;
  if (is("early_death") && rank == n - 1) raise(SIGKILL);
  // What one rank cannot do: a file, an address space or a GPU that it may not have.
  struct rlimit limit;
  const int kind = is("no_file") ? RLIMIT_FSIZE : RLIMIT_AS, at = is("no_file") ? 0 : n - 1;
  NEED(getrlimit(kind, &limit) == 0);
  const rlim_t before = limit.rlim_cur;
  if ((is("no_file") || is("no_room")) && rank == at)
    limit.rlim_cur = is("no_file") ? 1 << 20 : 768 << 20, setrlimit(kind, &limit);
  if (is("no_device") && rank == n - 1) attr.device = 12;
  const int exits = is("exit") || is("slow_exit") || is("stuck_exit");
  if (exits && rank == n - 1) atexit(slow_handler);
  if (shmemx_init_attr(0, &attr)) {
    dprintf(1, "%s\n", shmemx_error_string());
    if (strncmp(which, "no_", 3)) exit(3);
    // The process goes on, and is a PE of the next job.
    limit.rlim_cur = before, setrlimit(kind, &limit);
    if (rank == 0) NEED(shmemx_get_uniqueid(&shared->next) == 0);
    pthread_barrier_wait(&shared->barrier);
    attr = attr_of(rank), attr.uniqueid = &shared->next;
    NEED(shmemx_init_attr(0, &attr) == 0);
  }
  use_all(rank);
  if (is("threads")) {
    int level;
    shmem_query_thread(&level);
    NEED(level == SHMEM_THREAD_MULTIPLE);
  }
  if (is("death") && rank == n - 1) raise(SIGKILL);
  if (is("global_exit") && rank == n - 1) shmem_global_exit(7);
  if (exits && rank == n - 1) exit(4);
  if (is("death") || is("global_exit") || exits || is("driver_death")) {
    shmem_barrier_all();
    for (;;) pause();
  }
  shmem_barrier_all();
  shared->leaves[rank] = 1;
  shmem_finalize();
  if (is("then_init")) shmem_init();
}

// Each child's end, in the order of ranks, and how long all took after the first. A child without a
// number has its status already.
static int report(const pid_t *pids, int *statuses) {
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (int rank = 0; rank < n; rank++)
    if (pids[rank]) waitpid(pids[rank], &statuses[rank], 0);
  for (int rank = 0; rank < n; rank++) {
    const int status = statuses[rank];
    if (WIFSIGNALED(status))
      dprintf(1, "%d: signal %d\n", rank, WTERMSIG(status));
    else if (WEXITSTATUS(status))
      dprintf(1, "%d: %d\n", rank, WEXITSTATUS(status));
  }
  clock_gettime(CLOCK_MONOTONIC, &to);
  dprintf(1, "%.1f s\n",
          (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9);
  return 0;
}

// The id in hexadecimal digits, and back.
static void to_text(char *text) {
  for (size_t i = 0; i < sizeof id; i++) sprintf(text + 2 * i, "%02hhx", ((unsigned char *)&id)[i]);
}
static void from_text(const char *text) {
  for (size_t i = 0; i < sizeof id; i++) sscanf(text + 2 * i, "%2hhx", (unsigned char *)&id + i);
}
static int only_id(void) {
  char text[2 * sizeof id + 1];
  NEED(shmemx_get_uniqueid(&id) == 0);
  to_text(text);
  printf("%s\n", text);
  fflush(stdout);
  while (getchar() != EOF) continue;
  return 0;
}
static void run_as_program(char **argv, int rank, int memory) {
  char text[2 * sizeof id + 1], rank_text[12], memory_text[12];
  to_text(text);
  sprintf(rank_text, "%d", rank), sprintf(memory_text, "%d", memory);
  execl(argv[0], argv[0], which, argv[2], rank_text, text, memory_text, (char *)NULL);
  _exit(127);
}

// Kills a PE at its system call of this number, counted from the beginning of run, and says how
// many it made, and whether it had begun to leave. The status of its end: a PE that makes fewer
// calls comes to its own.
static int kill_at(pid_t pid, int rank, int call) {
  int status, stops = 0, signal = 0;
  waitpid(pid, &status, 0); // its own SIGSTOP
  for (;;) {
    if (stops == 2 * call) kill(pid, SIGKILL);
    ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)signal);
    waitpid(pid, &status, 0);
    if (!WIFSTOPPED(status)) break;
    signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    stops += !signal; // one before a call, and one after it
  }
  dprintf(1, "%d calls%s\n", stops / 2, shared->leaves[rank] ? ", leaves" : "");
  return status;
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "id")) return only_id();
  if (argc < 3) return 2;
  which = argv[1], n = atoi(argv[2]);
  if (is("no_room")) setenv("SHMEM_SYMMETRIC_SIZE", "1g", 1);
  const int memory = argc == 6 ? atoi(argv[5]) : memfd_create("test_start", 0);
  NEED(argc == 6 || ftruncate(memory, sizeof *shared) == 0);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  NEED(shared != MAP_FAILED);
  if (argc == 6) {
    from_text(argv[4]);
    run(atoi(argv[3]));
    return 0;
  }
  pthread_barrierattr_t of_processes;
  pthread_barrierattr_init(&of_processes);
  pthread_barrierattr_setpshared(&of_processes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &of_processes, (unsigned)n);
  NEED(shmemx_get_uniqueid(&id) == 0);
  static pid_t pids[64];
  static int statuses[64];
  NEED(n <= 64);
  const int call = is("killed") ? atoi(argv[3]) : 0, killed = is("killed") ? call % n : -1;
  for (int i = 0; i < n; i++) {
    const int rank = is("backwards") ? n - 1 - i : i;
    if ((pids[rank] = fork())) continue;
    if (argc == 4 && !is("killed")) run_as_program(argv, rank, memory);
    if (rank == killed && !ptrace(PTRACE_TRACEME, 0, NULL, NULL)) raise(SIGSTOP);
    run(rank);
    exit(0);
  }
  if (is("killed")) statuses[killed] = kill_at(pids[killed], killed, call), pids[killed] = 0;
  if (is("driver_death")) {
    sleep(1);
    raise(SIGKILL);
  }
  return report(pids, statuses);
}

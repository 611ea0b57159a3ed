// SPDX-License-Identifier: MIT
// Pages move, at init and when a buffer is registered and given back, while all kinds of code store
// into them: threads, handlers of signals, and system calls that copy. Nothing is lost and no call
// fails. With "refused" the kernel grants no ptrace, as in some containers: then calls that any
// handler interrupts may end with EINTR.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <shmem.h>
#include <shmemx.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WRITERS = 8, WORDS = 3 * 4096 / sizeof(long), BUFFER = 1 << 20, ROUNDS = 10 };
typedef _Atomic(long) cell;

static cell cells[WORDS], ticks, turn; // in static data
static char text[4096], table[16 << 20];
static cell *buffer; // that is registered
static cell *count;  // of the same stores, in memory that stays
static atomic_int stop, begun;
static int refused, failures;

#define EXPECT(cond, ...)                                                                          \
  do {                                                                                             \
    if (!(cond)) printf("FAILED %s: ", #cond), printf(__VA_ARGS__), puts(""), failures++;          \
  } while (0)

static void add(cell *to, long n) { // by its only writer
  atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + n,
                        memory_order_relaxed);
}
static void *scribble(void *place) {
  const size_t mine = (size_t)place;
  atomic_fetch_add(&begun, 1);
  for (size_t i = mine; !atomic_load_explicit(&stop, memory_order_relaxed); i += WRITERS) {
    add(&cells[i % WORDS], (long)i);
    cell *const b = &buffer[i % WORDS];
    add(b, (long)i);
    add(&count[i % WORDS], (long)i);
  }
  return NULL;
}
// Two threads that take turns by a word of static data: neither may miss the other.
static void *take_turns(void *place) {
  const long mine = (long)place;
  while (!atomic_load(&stop)) {
    long expected = mine;
    if (atomic_compare_exchange_strong(&turn, &expected, 1 - mine)) add(&count[WORDS + mine], 1);
  }
  return NULL;
}

static void tick(int signal) {
  (void)signal;
  atomic_fetch_add(&ticks, 1);
  atomic_fetch_add(&count[WORDS + 2], 1);
}

// System calls that copy into and out of pages that move.
static int ends[2];
static void *copy_in(void *unused) {
  (void)unused;
  for (long i = 0;; i++) {
    char *const at = i % 2 ? text : (char *)buffer + BUFFER - sizeof text;
    const ssize_t n = recv(ends[0], at, sizeof text, 0);
    if (n == 0) return NULL;
    EXPECT(n == sizeof text, "recv: %zd %s", n, strerror(errno));
    EXPECT(at[0] == at[sizeof text - 1] && at[0] == (char)i, "round %ld: %d %d", i, at[0],
           at[sizeof text - 1]);
  }
}
static void *copy_out(void *unused) {
  (void)unused;
  for (long i = 0; !atomic_load(&stop); i++) {
    memset(table, (char)i, sizeof text);
    const ssize_t n = write(ends[1], table, sizeof text);
    EXPECT(n == sizeof text, "write: %zd %s", n, strerror(errno));
  }
  close(ends[1]);
  return NULL;
}

// Calls that wait, which another's stopping must not end.
enum { SLEEP, POLL, EPOLL, SEMAPHORE, SIGNAL, SEMOP, SOCKET, WAITS };
static const char *const waits[] = {
    "nanosleep",    "poll",       "epoll_wait",           "sem_timedwait",
    "sigtimedwait", "semtimedop", "recv with SO_RCVTIMEO"};
static void *wait_a_while(void *place) {
  const long which = (long)place;
  const struct timespec span = {0, 300 * 1000 * 1000};
  int pair[2];
  const int epoll = epoll_create1(0), set = semget(IPC_PRIVATE, 1, 0600);
  const struct timeval limit = {0, 300 * 1000};
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) perror("socketpair");
  setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sigset_t usr;
  sigemptyset(&usr);
  sigaddset(&usr, SIGUSR2);
  while (!atomic_load(&stop)) {
    errno = 0;
    struct pollfd fd = {pair[0], POLLIN, 0};
    struct epoll_event event;
    struct sembuf down = {0, -1, 0};
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    char c;
    switch (which) {
    case SLEEP:
      nanosleep(&span, NULL);
      break;
    case POLL:
      poll(&fd, 1, 300);
      break;
    case EPOLL:
      epoll_wait(epoll, &event, 1, 300);
      break;
    case SEMAPHORE:
      sem_timedwait(&semaphore, &until);
      break;
    case SIGNAL:
      sigtimedwait(&usr, NULL, &span);
      break;
    case SEMOP:
      if (set >= 0)
        semtimedop(set, &down, 1, &span);
      else
        nanosleep(&span, NULL);
      break;
    case SOCKET:
      recv(pair[0], &c, 1, 0);
      break;
    }
    EXPECT(errno != EINTR || refused, "%s", waits[which]);
  }
  if (set >= 0) semctl(set, 0, IPC_RMID);
  return NULL;
}

static void refuse_ptrace(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "%s", strerror(errno));
}

int main(int argc, char **argv) {
  refused = argc > 1 && !strcmp(argv[1], "refused");
  if (refused) refuse_ptrace();
  for (size_t i = 0; i < sizeof table; i += 4096) table[i] = 1;
  count = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (count == MAP_FAILED || buffer == MAP_FAILED ||
      socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
    return perror("setup"), 1;

  // Threads that handle no signal, the first of which blocks all that a thread can.
  sigset_t all, none;
  sigfillset(&all);
  pthread_t threads[WRITERS + WAITS + 4];
  int n = 0;
  pthread_sigmask(SIG_SETMASK, &all, &none);
  for (long i = 0; i < WRITERS; i++) {
    if (i == 1 || refused) {
      sigdelset(&all, SIGURG);
      pthread_sigmask(SIG_SETMASK, &all, NULL);
    }
    pthread_create(&threads[n++], NULL, scribble, (void *)i);
  }
  pthread_create(&threads[n++], NULL, take_turns, (void *)0);
  pthread_create(&threads[n++], NULL, take_turns, (void *)1);
  pthread_create(&threads[n++], NULL, copy_in, NULL);
  pthread_create(&threads[n++], NULL, copy_out, NULL);
  for (long i = 0; i < WAITS; i++) pthread_create(&threads[n++], NULL, wait_a_while, (void *)i);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
  while (atomic_load(&begun) < WRITERS) usleep(1000);

  struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
  const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  sigaction(SIGALRM, &action, NULL);
  sigaction(SIGPROF, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  setitimer(ITIMER_PROF, &often, NULL);

  shmem_init();
  for (int i = 0; i < ROUNDS; i++) {
    shmemx_buffer_t handle;
    shmemx_buffer_register(buffer, BUFFER, &handle);
    usleep(5000);
    shmemx_buffer_unregister(handle);
    usleep(5000);
  }
  const long turns = atomic_load(&count[WORDS]) + atomic_load(&count[WORDS + 1]);
  for (int i = 0; i < 5000 && atomic_load(&count[WORDS]) + atomic_load(&count[WORDS + 1]) == turns;
       i++)
    usleep(1000);
  EXPECT(atomic_load(&count[WORDS]) + atomic_load(&count[WORDS + 1]) > turns,
         "the two that take turns stand after %ld", turns);
  setitimer(ITIMER_REAL, &never, NULL);
  setitimer(ITIMER_PROF, &never, NULL);
  atomic_store(&stop, 1);
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
  for (size_t i = 0; i < WORDS; i++)
    EXPECT(atomic_load(&cells[i]) == atomic_load(&count[i]) &&
               atomic_load(&buffer[i]) == atomic_load(&count[i]),
           "word %zu: %ld in static data, %ld in the buffer, %ld written", i,
           atomic_load(&cells[i]), atomic_load(&buffer[i]), atomic_load(&count[i]));
  EXPECT(atomic_load(&ticks) == atomic_load(&count[WORDS + 2]) && atomic_load(&ticks) > 0,
         "%ld ticks, %ld counted", atomic_load(&count[WORDS + 2]), atomic_load(&ticks));
  shmem_barrier_all();
  if (shmem_my_pe() == 0) printf("%ld turns, %ld ticks\n", turns, atomic_load(&ticks));
  shmem_finalize();
  return failures != 0;
}

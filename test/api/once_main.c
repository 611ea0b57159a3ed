// SPDX-License-Identifier: MIT
// A copy's stores, as a receiver sees them that takes each byte away as soon as it is there: each
// byte once, 1, 2, 4 and 8 bytes at once, and the last aligned word after all others. A child
// calls, and is stopped after every instruction.
#include "harness.h"
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 70000 };
static unsigned char *dest, *source; // on the heap, which a child shares
static unsigned char seen[ROOM];
static uint64_t *sig;

#define CALL(name, ...)                                                                            \
  static void name(void *d, const void *s, size_t n) {                                             \
    (void)n;                                                                                       \
    __VA_ARGS__;                                                                                   \
  }
CALL(putmem, shmem_putmem(d, s, n, 0))
CALL(putmem_nbi, shmem_putmem_nbi(d, s, n, 0))
CALL(ctx_put8, shmem_ctx_put8(SHMEM_CTX_DEFAULT, d, s, n, 0))
CALL(putmem_signal, shmem_putmem_signal(d, s, n, sig, 1, SHMEM_SIGNAL_SET, 0))
CALL(getmem, shmem_getmem(d, s, n, 0))
CALL(broadcast, shmem_broadcastmem(SHMEM_TEAM_WORLD, d, s, n, 0))
CALL(fcollect, shmem_fcollectmem(SHMEM_TEAM_WORLD, d, s, n))
CALL(short_p, shmem_short_p(d, *(const short *)s, 0))
CALL(int_p, shmem_int_p(d, *(const int *)s, 0))
CALL(double_p, shmem_double_p(d, *(const double *)s, 0))
CALL(char_put, shmem_char_put(d, s, 1, 0))
CALL(short_put, shmem_short_put(d, s, 1, 0))
CALL(float_put, shmem_float_put(d, s, 1, 0))
CALL(put64, shmem_put64(d, s, 1, 0))
CALL(long_get, shmem_long_get(d, s, 1, 0))
CALL(int_get_nbi, shmem_int_get_nbi(d, s, 1, 0))
CALL(long_iput, shmem_long_iput(d, s, 1, 1, 1, 0))
CALL(int_iget, shmem_int_iget(d, s, 1, 1, 1, 0))
#define ANY(name)                                                                                  \
  { #name, 0, name }
#define ONE(name, bytes)                                                                           \
  { #name, bytes, name }
static const struct call {
  const char *name;
  size_t bytes; // of what it moves, or 0: any number
  void (*act)(void *d, const void *s, size_t n);
} calls[] = {ANY(putmem),       ANY(putmem_nbi),  ANY(ctx_put8),    ANY(putmem_signal),
             ANY(getmem),       ANY(broadcast),   ANY(fcollect),    ONE(short_p, 2),
             ONE(int_p, 4),     ONE(double_p, 8), ONE(char_put, 1), ONE(short_put, 2),
             ONE(float_put, 4), ONE(put64, 8),    ONE(long_get, 8), ONE(int_get_nbi, 4),
             ONE(long_iput, 8), ONE(int_iget, 4)};

// Takes away the bytes that have come to d, up to n; returns how many.
static size_t take(const char *name, unsigned char *d, size_t n) {
  size_t came = 0;
  for (size_t i = 0; i < n; i++) {
    if (!d[i]) continue;
    CHECK(!seen[i], "%s of %zu bytes: byte %zu is stored twice", name, n, i);
    seen[i] = 1;
    d[i] = 0;
    came++;
  }
  return came;
}

static void once(const struct call *call, size_t n, size_t skew) {
  unsigned char *d = dest + skew;
  memset(seen, 0, n);
  memset(d, 0, n);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    call->act(d, source, n);
    _exit(0);
  }
  size_t last = 8, total = 0, steps = 0;
  while (last > n || ((uintptr_t)d + n) % last) last /= 2;
  int status = 0;
  bool ended = false;
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    const size_t at_end = d[n - 1] ? n - last : n;
    // Of much, not all is looked at each time.
    if (n <= 4096 || at_end < n || ++steps % 1024 == 0) {
      const size_t came = take(call->name, d, n);
      total += came;
      CHECK(!came || came == n || n > 8 || (n & (n - 1)), "%s of %zu bytes at %p comes in parts",
            call->name, n, (void *)d);
      CHECK(at_end == n || total == n, "%s of %zu bytes at %p: %zu come after the last word",
            call->name, n, (void *)d, n - total);
    }
    if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) < 0) break;
  }
  ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  CHECK(ended, "%s of %zu bytes: the child's status is 0x%x", call->name, n, status);
  total += take(call->name, d, n);
  CHECK(total == n, "%s of %zu bytes: %zu have come", call->name, n, total);
}

static bool can_trace(void) {
  const pid_t child = fork();
  if (child == 0) _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0);
  int status;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void each_byte_once(void) {
  static const size_t sizes[] = {1,  2,  3,  4,   5,   6,   7,   8,   9,   12,  16,   17,   24,
                                 31, 64, 65, 100, 128, 129, 200, 264, 272, 520, 1000, 4096, 17000};
  if (!can_trace()) {
    print_message("not allowed to trace a process here: nothing is tested\n");
    return;
  }
  for (size_t k = 0; k < COUNT(calls); k++)
    for (size_t i = 0; i < COUNT(sizes); i++)
      for (size_t skew = 0; skew < 16; skew++) {
        const size_t n = sizes[i], unit = calls[k].bytes;
        // Every alignment for one routine, and one of each kind for the rest.
        if (unit && (n != unit || skew % unit)) continue;
        if (k > 0 && !unit && (n > 64 || skew > 2)) continue;
        if (n > 64 && skew != 0 && skew != 4 && skew != 13) continue;
        if (n > 4096 && skew > 4) continue;
        once(&calls[k], n, skew);
      }
}

int main(void) {
  shmem_init();
  dest = shmem_malloc(ROOM);
  source = shmem_malloc(ROOM);
  sig = shmem_calloc(1, sizeof *sig);
  for (size_t i = 0; i < ROOM; i++) source[i] = (unsigned char)(i % 255 + 1);
  static const struct pe_test tests[] = {{"each byte once", each_byte_once}};
  const struct pe_list list[] = {PE_LIST("", tests)};
  const int failed = pe_run_tests("once", list, COUNT(list));
  shmem_finalize();
  return failed != 0;
}

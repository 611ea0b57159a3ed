// SPDX-License-Identifier: MIT
// While pages are exchanged nothing else may store into them: no thread, no handler of a signal,
// and no system call that copies for a thread. A tracer stops all of that at once and without a
// trace in the program: a process of its own that shares this one's memory, as LeakSanitizer has.
// A thread that it has stopped is at the border of the kernel, whatever signals the thread blocks,
// so no copy of the kernel's is under way; no handler runs, and a system call that was interrupted
// is begun again. Where the kernel refuses it (gdb or strace is there already, Yama at 2, a
// filter), SIGURG stops the threads: calls such as poll or nanosleep end with EINTR then, as they
// do by any handler.
#include "stop.hpp"
#include "../log.hpp"
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/ptrace.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

// The tracer has the mover's thread-local storage, and a handler may come anywhere, so no
// sanitizer may keep account of what happens here.
#define SHMEM_PLAIN __attribute__((no_sanitize("address"), no_sanitize("thread")))

// The name of libc's clone that ThreadSanitizer does not take for a fork.
// NOLINTNEXTLINE(bugprone-reserved-identifier): libc's own name
extern "C" int __clone(int (*)(void *), void *, int, void *, ...);

namespace shmem {

namespace {

// A thread that sleeps in a driver or waits for a vfork does not stop before that is over.
constexpr long most_ns = 2'000'000'000;
constexpr long patience_ns = 100'000'000;
constexpr size_t stack_bytes = 64 << 10;
constexpr int most_threads = 1 << 15;

struct OtherThread {
  int id, signal;    // what the tracer has caught on its way to the thread
  bool stopped, out; // out: it has ended, or nothing can stop it
};

// Lies, with the tracer's stack, in memory that nobody registers.
struct Stopping {
  int process, mover, n;
  std::atomic<int> go;
  int refused; // errno of ptrace
  int error;   // of the work
  int late;    // a thread that did not stop
  bool finished;
  Alone work;
  std::atomic<int> parked;
  std::atomic<int> who[most_threads]; // has parked
  OtherThread threads[most_threads];
};

SHMEM_PLAIN long now() {
  timespec t;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}
SHMEM_PLAIN void nap(long begun) {
  const timespec t{0, now() - begun < 2'000'000 ? 20'000 : 500'000};
  syscall(SYS_nanosleep, &t, nullptr);
}

SHMEM_PLAIN char *put(char *to, const char *text) {
  while (*text) *to++ = *text++;
  *to = '\0';
  return to;
}
SHMEM_PLAIN char *put(char *to, int number) {
  char digits[12];
  int n = 0;
  do digits[n++] = char('0' + number % 10);
  while (number /= 10);
  while (n) *to++ = digits[--n];
  *to = '\0';
  return to;
}

SHMEM_PLAIN long read_file(const Stopping &w, int thread, const char *name, char *text, long room) {
  char path[64];
  put(put(put(put(put(path, "/proc/"), w.process), "/task/"), thread), name);
  const int fd = int(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return 0;
  const long n = syscall(SYS_read, fd, text, room - 1);
  syscall(SYS_close, fd);
  text[n < 0 ? 0 : n] = '\0';
  return n < 0 ? 0 : n;
}

SHMEM_PLAIN bool begins(const char *text, const char *with) {
  while (*with)
    if (*text++ != *with++) return false;
  return true;
}
// What follows this word at the beginning of a line.
SHMEM_PLAIN const char *after(const char *text, const char *word) {
  for (; *text; text++)
    if (begins(text, word)) {
      while (*word) text++, word++;
      while (*text == ' ' || *text == '\t') text++;
      return text;
    }
  return text;
}

// Of a thread: what /proc tells.
struct Condition {
  char state;        // '\0': it is gone
  uint64_t blocked;  // signals
  uint64_t switches; // has slept or was put aside so often
};
SHMEM_PLAIN uint64_t number(const char *text, unsigned base) {
  uint64_t n = 0;
  for (;; text++) {
    const char c = *text;
    const unsigned digit = c >= '0' && c <= '9'   ? unsigned(c - '0')
                           : c >= 'a' && c <= 'f' ? unsigned(c - 'a' + 10)
                                                  : base;
    if (digit >= base) return n;
    n = n * base + digit;
  }
}
SHMEM_PLAIN Condition condition(const Stopping &w, int thread) {
  char text[4096];
  if (!read_file(w, thread, "/status", text, sizeof text)) return {};
  return {*after(text, "State:"), number(after(text, "SigBlk:"), 16),
          number(after(text, "\nvoluntary_ctxt_switches:"), 10) +
              number(after(text, "nonvoluntary_ctxt_switches:"), 10)};
}
SHMEM_PLAIN bool gone(char state) {
  return state == '\0' || state == 'Z' || state == 'X';
}
// The kernel's own threads for io_uring take neither a tracer nor a signal.
SHMEM_PLAIN bool of_kernel(const Stopping &w, int thread) {
  char name[32];
  return read_file(w, thread, "/comm", name, sizeof name) && begins(name, "iou-");
}

// Calls f for each other thread that is not in the table; how many there were, or -1.
template <class F> SHMEM_PLAIN int each_new(Stopping &w, F f) {
  char path[32];
  put(put(put(path, "/proc/"), w.process), "/task");
  const int fd = int(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd < 0) return -1;
  alignas(8) char entries[8192];
  int found = 0;
  for (long n; (n = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0;)
    for (long at = 0; at < n;) {
      const auto *e = reinterpret_cast<const dirent64 *>(entries + at);
      at += e->d_reclen;
      const int id = int(number(e->d_name, 10));
      if (id == 0 || id == w.mover) continue;
      bool known = false;
      for (int i = 0; i < w.n && !known; i++) known = w.threads[i].id == id;
      if (known || w.n == most_threads) continue;
      w.threads[w.n++] = {id, 0, false, false};
      found++;
      f(w.threads[w.n - 1]);
    }
  syscall(SYS_close, fd);
  return found;
}

SHMEM_PLAIN long trace(long request, int thread, uintptr_t at, uintptr_t data) {
  return syscall(SYS_ptrace, request, thread, at, data);
}

// epoll_wait, semop, sigtimedwait and sockets with a time limit return EINTR also where no handler
// has run. Told as ERESTARTNOHAND, the kernel begins the call again unless it runs a handler now.
SHMEM_PLAIN void begin_again([[maybe_unused]] int thread) {
#ifdef __x86_64__
  constexpr long restart_no_handler = 514;
  long call = -1, result = 0;
  trace(PTRACE_PEEKUSR, thread, offsetof(user_regs_struct, orig_rax), uintptr_t(&call));
  trace(PTRACE_PEEKUSR, thread, offsetof(user_regs_struct, rax), uintptr_t(&result));
  if (call >= 0 && call != SYS_close && result == -EINTR)
    trace(PTRACE_POKEUSR, thread, offsetof(user_regs_struct, rax), uintptr_t(-restart_no_handler));
#endif
}

SHMEM_PLAIN void wait_for_stops(Stopping &w, int from) {
  const long begun = now();
  for (;;) {
    bool missing = false;
    for (int i = from; i < w.n; i++) {
      OtherThread &t = w.threads[i];
      if (t.stopped || t.out) continue;
      int status = 0;
      const long got = syscall(SYS_wait4, t.id, &status, __WALL | WNOHANG, nullptr);
      if (got == 0) {
        missing = true;
      } else if (got < 0 || !WIFSTOPPED(status)) {
        t.out = true;
      } else {
        t.stopped = true;
        const bool event = status >> 16 == PTRACE_EVENT_STOP;
        if (!event) t.signal = WSTOPSIG(status);
        if (event && WSTOPSIG(status) == SIGTRAP) begin_again(t.id);
      }
    }
    if (!missing) return;
    if (now() - begun > most_ns) break;
    nap(begun);
  }
  for (int i = from; i < w.n; i++)
    if (!w.threads[i].out && !w.threads[i].stopped) w.late = w.threads[i].id;
}

SHMEM_PLAIN int tracer(void *p) {
  Stopping &w = *static_cast<Stopping *>(p);
  while (!w.go.load(std::memory_order_acquire)) syscall(SYS_sched_yield);
  // Until all are stopped one of them may start another.
  for (int from = 0; !w.refused; from = w.n) {
    const int found = each_new(w, [&](OtherThread &t) {
      if (w.refused) return;
      if (trace(PTRACE_SEIZE, t.id, 0, 0) == 0 && trace(PTRACE_INTERRUPT, t.id, 0, 0) == 0) return;
      const int error = errno;
      const bool skip = error == ESRCH || gone(condition(w, t.id).state) || of_kernel(w, t.id);
      t.out = true;
      if (!skip) w.refused = error;
    });
    if (found < 0) w.refused = errno;
    if (found <= 0) break;
    wait_for_stops(w, from);
  }
  if (!w.refused) {
    int error = w.work.prepare(w.work.with);
    if (!error) error = w.work.exchange(w.work.with);
    w.error = error;
  }
  for (int i = 0; i < w.n; i++)
    if (const OtherThread &t = w.threads[i]; t.stopped)
      trace(PTRACE_DETACH, t.id, 0, uintptr_t(t.signal));
  w.finished = true;
  return 0;
}

// Whether the work was done.
SHMEM_PLAIN bool by_tracer(Stopping &w, char *stack) {
  const int child =
      __clone(tracer, stack + stack_bytes, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED, &w);
  if (child < 0) return false;
  // Yama lets a process be traced by its ancestors only, and by the one that it names, which is
  // forgotten when that one ends.
  const int fd = int(
      syscall(SYS_openat, AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC));
  char scope = '0';
  if (fd >= 0) {
    syscall(SYS_read, fd, &scope, 1);
    syscall(SYS_close, fd);
  }
  if (scope == '1') syscall(SYS_prctl, PR_SET_PTRACER, child, 0, 0, 0);
  w.go.store(1, std::memory_order_release);
  int status = 0;
  while (syscall(SYS_wait4, child, &status, __WALL, nullptr) < 0 && errno == EINTR) {
  }
  if (!w.finished) w.error = ECHILD; // somebody has killed it
  return !w.refused;
}

// A handler of SIGURG parks its thread. As with Go, because a debugger lets this one pass, no
// library has a use for it, and a program takes one too many for nothing.
constexpr int parking_signal = SIGURG;
std::atomic<Stopping *> parking;
std::atomic<unsigned> moves; // a futex
struct KernelAction {        // what rt_sigaction takes
  void (*handler)(int, siginfo_t *, void *);
  unsigned long flags;
  void (*restorer)();
  uint64_t mask;
};
KernelAction before;

SHMEM_PLAIN void park(int signal, siginfo_t *info, void *context) {
  const unsigned at = moves.load();
  Stopping *w = parking.load();
  if (w && info->si_code == SI_TKILL && info->si_pid == w->process) {
    const int error = errno;
    w->who[w->parked.fetch_add(1)].store(int(syscall(SYS_gettid)));
    while (moves.load() == at) syscall(SYS_futex, &moves, FUTEX_WAIT_PRIVATE, at, nullptr);
    errno = error;
    return;
  }
  const auto handler = uintptr_t(before.handler);
  if (handler != uintptr_t(SIG_DFL) && handler != uintptr_t(SIG_IGN))
    before.handler(signal, info, context);
}

// What blocks the signal can only be watched: as long as it sleeps it stores nothing, and that it
// has slept all the time its number of switches says.
SHMEM_PLAIN uint64_t watched(Stopping &w, const bool awake_too) {
  uint64_t sum = 0;
  for (int i = 0; i < w.n; i++) {
    OtherThread &t = w.threads[i];
    if (t.stopped || t.out) continue;
    const Condition c = condition(w, t.id);
    if (gone(c.state) || of_kernel(w, t.id)) {
      t.out = true;
      continue;
    }
    if (c.state != 'S' && !awake_too) return 0;
    sum += c.switches + 1;
  }
  return sum + 1;
}

SHMEM_PLAIN void by_signals(Stopping &w) {
  // The kernel's own call, because ThreadSanitizer's keeps a handler back until the thread calls
  // something; libc's comes first, for its restorer.
  constexpr unsigned long has_restorer = 0x0400'0000;
  syscall(SYS_rt_sigaction, parking_signal, nullptr, &before, sizeof(uint64_t));
  if (!before.restorer) {
    struct sigaction nothing {};
    nothing.sa_handler = [](int) {};
    sigaction(parking_signal, &nothing, nullptr);
    KernelAction libc{};
    syscall(SYS_rt_sigaction, parking_signal, nullptr, &libc, sizeof(uint64_t));
    before.restorer = libc.restorer;
    before.flags |= libc.flags & has_restorer;
  }
  KernelAction mine{park, before.flags | SA_SIGINFO | SA_ONSTACK | SA_RESTART, before.restorer,
                    ~uint64_t(0)};
  mine.flags &= ~(static_cast<unsigned long>(SA_RESETHAND) | SA_NODEFER);
  w.n = 0, w.refused = 0, w.late = 0;
  w.parked.store(0);
  parking.store(&w);
  syscall(SYS_rt_sigaction, parking_signal, &mine, nullptr, sizeof(uint64_t));
  const auto call = [&w](OtherThread &t) {
    const Condition c = condition(w, t.id);
    t.out = gone(c.state);
    t.signal = !t.out && !(c.blocked >> (parking_signal - 1) & 1);
    if (t.signal) syscall(SYS_tgkill, w.process, t.id, parking_signal);
    return c.state == 'R';
  };
  for (int from = 0;; from = w.n) {
    if (each_new(w, call) <= 0) break;
    const long begun = now();
    for (;;) {
      bool missing = false;
      for (int i = from; i < w.n; i++) {
        OtherThread &t = w.threads[i];
        if (t.stopped || t.out) continue;
        // It may be about to leave the handler of the move before, where all signals are blocked.
        if (!t.signal) {
          missing |= (call(t) || t.signal) && now() - begun < patience_ns;
          continue;
        }
        for (int k = 0, n = w.parked.load(); k < n && !t.stopped; k++)
          t.stopped = w.who[k].load() == t.id;
        if (!t.stopped && gone(condition(w, t.id).state)) t.out = true;
        missing |= !t.out && !t.stopped;
      }
      if (!missing || now() - begun > most_ns) break;
      nap(begun);
    }
  }
  const long begun = now();
  for (;;) {
    const bool enough = now() - begun > most_ns;
    const uint64_t slept = watched(w, enough);
    w.error = w.work.prepare(w.work.with);
    if (w.error || enough || (slept && watched(w, false) == slept)) break;
    nap(begun);
  }
  for (int i = 0; i < w.n; i++)
    if (!w.threads[i].out && !w.threads[i].stopped && condition(w, w.threads[i].id).state != 'S')
      w.late = w.threads[i].id;
  if (!w.error) w.error = w.work.exchange(w.work.with);
  parking.store(nullptr);
  moves.fetch_add(1);
  syscall(SYS_futex, &moves, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr);
  syscall(SYS_rt_sigaction, parking_signal, &before, nullptr, sizeof(uint64_t));
}

} // namespace

int while_alone(const Alone &work) {
  // All signals, those of libc, too, which nobody may ask libc for.
  const uint64_t all = ~uint64_t(0);
  uint64_t masked = 0;
  void *p = mmap(nullptr, sizeof(Stopping) + stack_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (p == MAP_FAILED) return errno;
  char *const stack = static_cast<char *>(p);
  Stopping &w = *reinterpret_cast<Stopping *>(stack + stack_bytes); // zeros
  w.process = getpid();
  w.mover = int(syscall(SYS_gettid));
  w.work = work;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &masked, sizeof masked);
  if (each_new(w, [](OtherThread &) {}) == 0) {
    w.error = work.prepare(work.with);
    if (!w.error) w.error = work.exchange(work.with);
  } else {
    w.n = 0;
    if (!by_tracer(w, stack)) by_signals(w);
  }
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &masked, nullptr, sizeof masked);
  if (w.late)
    debug("thread %d did not stop while pages were moved: what it has stored then may be lost",
          w.late);
  const int error = w.error;
  // A handler that is late may look there yet.
  if (!w.late) munmap(p, sizeof(Stopping) + stack_bytes);
  return error;
}

} // namespace shmem

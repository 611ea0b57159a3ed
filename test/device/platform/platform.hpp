// SPDX-License-Identifier: MIT
// Shared by the tests of the cpu platform.
#pragma once
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hip/hip_runtime.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
extern "C" {
#include <cmocka.h> // last: it defines fail()
}

// TSan takes 10 us for each switch between threads of a kernel.
#ifdef __SANITIZE_THREAD__
inline constexpr bool with_tsan = true;
#else
inline constexpr bool with_tsan = false;
#endif
inline constexpr bool slow = with_tsan;

// A call that must succeed, or fail in just this way.
#define OK(call) expect(call, hipSuccess, #call, __FILE__, __LINE__)
#define FAILS(call, error) expect(call, error, #call, __FILE__, __LINE__)
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) mistake(#condition, __FILE__, __LINE__);                                     \
  } while (0)

[[noreturn]] inline void mistake(const char *what, const char *file, int line) {
  print_error("%s:%d: not so: %s\n", file, line, what);
  _fail(file, line);
  abort();
}
inline void expect(hipError_t got, hipError_t want, const char *call, const char *file, int line) {
  if (got == want) return;
  print_error("%s:%d: %s: %s, want %s\n", file, line, call, hipGetErrorName(got),
              hipGetErrorName(want));
  _fail(file, line);
}

// Runs f in a child and returns its exit status; a child that a signal ended counts as 128 and
// more.
template <class F> int in_child(F f) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
#ifndef __SANITIZE_ADDRESS__
    signal(SIGSEGV, SIG_DFL); // CMocka's handler would go on with the next test
#endif
    _exit(f());
  }
  int status;
  while (waitpid(pid, &status, 0) < 0) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
// The exit status of this program, run again with that argument.
inline int run_again(const char *self, const char *argument) {
  return in_child([&] {
    execl(self, self, argument, nullptr);
    return 1;
  });
}
// In a child: a step that fails ends it with the number of the line.
#define STEP(condition)                                                                            \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      print_error("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                          \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)

// SPDX-License-Identifier: MIT
// Errors: their names, the last one of each thread, those that were asked for.
#include "internal.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace hip_cpu {

namespace {

struct Error {
  hipError_t error;
  const char *name, *text;
};
constexpr Error errors[] = {
#define HIP_ERROR(name, number, text) {name, #name, text},
#include <hip/errors.def>
#undef HIP_ERROR
};

const Error &describe(hipError_t error) {
  for (const Error &e : errors)
    if (e.error == error) return e;
  return errors[std::size(errors) - 1];
}

thread_local hipError_t last_error;

struct Failures {
  std::mutex mutex;
  std::atomic<bool> any{false};
  std::vector<impl::Failure> list;

  void add(const char *call, int nth, hipError_t error) {
    list.push_back({call, nth, error});
    any = true;
  }
  // name:nth:error,...; a mistake in it must not pass for a test that found no error
  void read(const char *text) {
    while (*text) {
      char call[64], name[64];
      int nth, length = 0;
      bool known = false;
      if (sscanf(text, "%63[^:]:%d:%63[^,]%n", call, &nth, name, &length) == 3)
        for (const Error &e : errors)
          if (strcmp(e.name, name) == 0) {
            add(call, nth, e.error);
            known = true;
          }
      if (!known) {
        fprintf(stderr, "SHMEM_CPU_FAIL=...%s: not call:n:error with an error of hip/errors.def\n",
                text);
        abort();
      }
      text += length;
      text += *text == ',';
    }
  }
  Failures() {
    if (const char *text = getenv("SHMEM_CPU_FAIL")) read(text);
  }
};
Failures &failures() {
  static Failures &all = *new Failures;
  return all;
}

} // namespace

void fail_call(const char *call, int nth, hipError_t error) {
  Failures &f = failures();
  std::lock_guard guard(f.mutex);
  if (call) return f.add(call, nth, error);
  f.list.clear();
  f.any = false;
}

namespace impl {

hipError_t done(hipError_t error) {
  if (error != hipSuccess && error != hipErrorNotReady) last_error = error;
  return error;
}

hipError_t enter(const char *call) {
  Failures &f = failures();
  if (f.any.load(std::memory_order_relaxed)) {
    std::lock_guard guard(f.mutex);
    hipError_t error = hipSuccess;
    for (Failure &failure : f.list)
      if (failure.call == call && --failure.calls_left == 0) error = failure.error;
    if (error) return error;
  }
  return runtime().devices == 0 ? hipErrorNoDevice : hipSuccess;
}

} // namespace impl

inline namespace names {

hipError_t hipGetLastError() {
  return std::exchange(last_error, hipSuccess);
}
hipError_t hipPeekAtLastError() {
  return last_error;
}
const char *hipGetErrorName(hipError_t error) {
  return describe(error).name;
}
const char *hipGetErrorString(hipError_t error) {
  return describe(error).text;
}

} // namespace names
} // namespace hip_cpu

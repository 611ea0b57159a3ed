// SPDX-License-Identifier: MIT
// HIP waits for signals by polling, which takes the cores from the machine that it waits for: with this
// loaded first (LD_PRELOAD) it sleeps on the signal's event, as programs have it that ask for
// hipDeviceScheduleBlockingSync. How to wait is a hint of the interface; nothing else is changed.
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <hsa/hsa.h>

extern "C" hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal,
                                                        hsa_signal_condition_t condition,
                                                        hsa_signal_value_t value, uint64_t timeout,
                                                        hsa_wait_state_t) {
  static const auto real = reinterpret_cast<decltype(&hsa_signal_wait_scacquire)>(
      dlsym(RTLD_NEXT, "hsa_signal_wait_scacquire"));
  if (!real) {
    fprintf(stderr, "amdgpu: no ROCr behind the preloaded library\n");
    abort();
  }
  return real(signal, condition, value, timeout, HSA_WAIT_STATE_BLOCKED);
}

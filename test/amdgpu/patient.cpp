// SPDX-License-Identifier: MIT
// HIP waits for signals by polling, which takes the cores from the machine that it waits for: with
// this loaded first (LD_PRELOAD) it sleeps between two looks. ROCr's own blocking wait will not do:
// it polls for 200 us first, and for ever where a signal has no event, as those of HIP 6.4's copies
// to the host (2026-11-22).
#include <algorithm>
#include <ctime>
#include <hsa/hsa.h>

extern "C" hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal,
                                                        hsa_signal_condition_t condition,
                                                        hsa_signal_value_t value, uint64_t timeout,
                                                        hsa_wait_state_t) {
  // Ticks are taken for nanoseconds: of AMD's clock they are 10, which would only be longer.
  timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (long pause = 5000;; pause = std::min(2 * pause, 200000L)) {
    const hsa_signal_value_t seen = hsa_signal_load_scacquire(signal);
    if (condition == HSA_SIGNAL_CONDITION_EQ   ? seen == value
        : condition == HSA_SIGNAL_CONDITION_NE ? seen != value
        : condition == HSA_SIGNAL_CONDITION_LT ? seen < value
                                               : seen >= value)
      return seen;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t ns = uint64_t(now.tv_sec - begin.tv_sec) * 1000000000 + uint64_t(now.tv_nsec) -
                        uint64_t(begin.tv_nsec);
    if (ns >= timeout) return seen;
    const timespec step = {0, pause};
    nanosleep(&step, nullptr);
  }
}

// SPDX-License-Identifier: MIT
// The loop in which every wait of the device polls.
#pragma once
#include "deferred.hpp"

namespace shmem::device {

// Counts polls against SHMEM_WAIT_LIMIT. The clock is read every 256th time.
struct Patience {
  uint64_t end = 0;
  uint32_t polls = 0;
  SHMEM_D_ bool over() {
    if (++polls % 256) return false;
    const uint64_t limit = arch::load_anew(state.wait_limit), now = arch::clock();
    if (!end) end = now + limit;
    return limit && now >= end;
  }
};
// Polls until done(); late() reports and does not return.
template <class Done, class Late> SHMEM_D_ void poll_until(Done done, Late late) {
  Patience patience;
  while (!done()) {
    if (patience.over()) late();
    deferred::look();
    arch::pause();
  }
}

} // namespace shmem::device

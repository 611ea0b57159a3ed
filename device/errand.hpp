// SPDX-License-Identifier: MIT
// What the host asks of kernels that wait, see Errand.
#pragma once
#include "address.hpp"
#include "kinds.hpp"

namespace shmem::device::errand {

// One exchange for all operations, because this is in every wait: a loop of it is atomic with what
// the other ones do.
template <class W> SHMEM_D_ W apply(W *p, W keep, W flip, W plus, W cond, W care) {
  for (W seen = arch::load(p);;) {
    const W next = (seen ^ cond) & care ? seen : ((seen & keep) ^ flip) + plus;
    const W found = arch::compare_exchange(p, seen, next);
    if (found == seen) return seen;
    seen = found;
  }
}

// Does the errand after `taken`, unless somebody else does.
SHMEM_D_ void take(uint64_t taken) {
  if (arch::compare_exchange<Order::relaxed, Range::device>(
          &arch::load_anew(state.ring.tickets)->taken, taken, taken + 1) != taken)
    return;
  arch::polled(); // what the host stored in the errand before it said that it is there
  Errand *const e = arch::load_anew(state.ring.served)->errands + taken % errand_places;
  const uintptr_t p = arch::load(&e->p);
  const uint64_t keep = arch::load(&e->keep), flip = arch::load(&e->flip),
                 plus = arch::load(&e->plus), cond = arch::load(&e->cond);
  const int32_t care = arch::load(&e->care);
  const uint64_t seen =
      arch::load(&e->bytes) == 4
          ? apply(reinterpret_cast<uint32_t *>(p), uint32_t(keep), uint32_t(flip), uint32_t(plus),
                  uint32_t(cond), uint32_t(care))
          : apply(reinterpret_cast<uint64_t *>(p), keep, flip, plus, cond, uint64_t(int64_t(care)));
  arch::store(&e->seen, seen);
  arch::store<Order::release>(&e->done, taken + 1); // after `seen`
}

// In every loop that waits. Of the host's count a copy is polled, because a read of host memory
// takes a microsecond, and all waiting threads come here.
SHMEM_D_ void look() {
  if constexpr (ring_built) {
    Tickets *const t = state.ring.tickets;
    if (!t) return;
    const uint64_t taken = arch::load<Order::relaxed, Range::device>(&t->taken);
    if (__builtin_expect(int64_t(arch::poll(&t->bell) - taken) > 0, 0)) take(taken);
  }
}

// All that there are, by one kernel for them.
SHMEM_D_ void work() {
  const Ring &r = state.ring;
  for (;;) {
    const uint64_t taken = arch::load<Order::relaxed, Range::device>(&r.tickets->taken);
    if (int64_t(arch::poll(&r.served->given) - taken) <= 0) return;
    take(taken);
  }
}

} // namespace shmem::device::errand

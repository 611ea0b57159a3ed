// SPDX-License-Identifier: MIT
// Deferred atomics, which kernels that wait do for the host, see DeferredAtomic.
#pragma once
#include "address.hpp"
#include "kinds.hpp"

namespace shmem::device::deferred {

// One exchange for all atomics, because this code is in every wait. A loop around the exchange is
// atomic with any other operation on the word.
template <class W> SHMEM_D_ W apply(W *p, W keep, W flip, W plus, W compare, W care) {
  for (W seen = arch::load(p);;) {
    const W next = (seen ^ compare) & care ? seen : ((seen & keep) ^ flip) + plus;
    const W found = arch::compare_exchange(p, seen, next);
    if (found == seen) return seen;
    seen = found;
  }
}

// Does the atomic after `taken`, unless another thread takes it first.
SHMEM_D_ void take(uint64_t taken) {
  if (arch::compare_exchange<Order::relaxed, Range::device>(
          &arch::load_anew(state.ring.tickets)->taken, taken, taken + 1) != taken)
    return;
  arch::polled(); // what the host stored in the atomic before it counted it
  DeferredAtomic *const a = arch::load_anew(state.ring.served)->deferred + taken % deferred_slots;
  const uintptr_t p = arch::load(&a->p);
  const uint64_t keep = arch::load(&a->keep), flip = arch::load(&a->flip),
                 plus = arch::load(&a->plus), compare = arch::load(&a->compare);
  const int32_t care = arch::load(&a->care);
  const uint64_t seen = arch::load(&a->width) == 4
                            ? apply(reinterpret_cast<uint32_t *>(p), uint32_t(keep), uint32_t(flip),
                                    uint32_t(plus), uint32_t(compare), uint32_t(care))
                            : apply(reinterpret_cast<uint64_t *>(p), keep, flip, plus, compare,
                                    uint64_t(int64_t(care)));
  arch::store(&a->seen, seen);
  arch::store<Order::release>(&a->done, taken + 1); // after `seen`
}

// Called in every loop that waits. All waiting threads come here, so they poll a copy of the host's
// count: a read of host memory takes a microsecond.
SHMEM_D_ void look() {
  if constexpr (ring_built) {
    Tickets *const t = arch::load_anew(state.ring.tickets);
    if (!t) return;
    const uint64_t taken = arch::load<Order::relaxed, Range::device>(&t->taken);
    if (__builtin_expect(int64_t(arch::poll(&t->offered) - taken) > 0, 0)) take(taken);
  }
}

// Does all deferred atomics, in a kernel that was launched for them.
SHMEM_D_ void work() {
  const Ring &r = state.ring;
  for (;;) {
    const uint64_t taken = arch::load<Order::relaxed, Range::device>(&r.tickets->taken);
    if (int64_t(arch::poll(&r.served->given) - taken) <= 0) return;
    take(taken);
  }
}

} // namespace shmem::device::deferred

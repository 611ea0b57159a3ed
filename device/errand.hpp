// SPDX-License-Identifier: MIT
// What the host asks of kernels that wait, see Errand.
#pragma once
#include "address.hpp"
#include "kinds.hpp"

namespace shmem::device::errand {

// One exchange for all operations, because this is in every wait: a loop of it is atomic with what
// the other ones do.
template <class W> SHMEM_D_ W apply(unsigned op, W *p, W value, W cond) {
  for (W seen = arch::load(p);;) {
    const W next = op == unsigned(Amo::fetch)          ? seen
                   : op == unsigned(Amo::compare_swap) ? (seen == cond ? value : seen)
                   : op == unsigned(Amo::add)          ? seen + value
                   : op == unsigned(Amo::and_)         ? seen & value
                   : op == unsigned(Amo::or_)          ? seen | value
                   : op == unsigned(Amo::xor_)         ? seen ^ value
                                                       : value;
    const W found = arch::compare_exchange(p, seen, next);
    if (found == seen) return seen;
    seen = found;
  }
}

// Does the errand after `taken`, unless somebody else does.
SHMEM_D_ void take(uint64_t taken) {
  const Ring &r = state.ring;
  if (arch::compare_exchange<Order::relaxed, Range::device>(&r.tickets->taken, taken, taken + 1) !=
      taken)
    return;
  arch::polled(); // what the host stored in the errand before it said that it is there
  Errand *const e = r.served->errands + taken % errand_places;
  const uintptr_t p = arch::load(&e->p);
  const uint64_t value = arch::load(&e->value), cond = arch::load(&e->cond);
  const unsigned op = arch::load(&e->op);
  const uint64_t seen =
      arch::load(&e->bytes) == 4
          ? apply(op, reinterpret_cast<uint32_t *>(p), uint32_t(value), uint32_t(cond))
          : apply(op, reinterpret_cast<uint64_t *>(p), value, cond);
  arch::store(&e->seen, seen);
  arch::store<Order::release>(&e->done, taken + 1); // after `seen`
}

// In every loop that waits. Of the host's count a copy is polled, because a read of host memory
// takes a microsecond, and all waiting threads come here.
SHMEM_D_ void look() {
  if constexpr (ring_built) {
    const Ring &r = state.ring;
    if (!r.requests) return;
    const uint64_t taken = arch::load<Order::relaxed, Range::device>(&r.tickets->taken);
    if (__builtin_expect(int64_t(arch::poll(&r.tickets->bell) - taken) > 0, 0)) take(taken);
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

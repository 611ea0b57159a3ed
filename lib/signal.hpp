// SPDX-License-Identifier: MIT
// Put with signal, and signals.
#pragma once
#include "amo.hpp"
#include "rma.hpp"
#include "wait.hpp"

namespace shmem::api {

[[noreturn, gnu::cold]] void bad_signal(const char *fn, int sig_op);

// The data's stores, if there are any, come before the signal's store, and wake_at's load of
// sleepers after it.
template <class C>
inline void deliver(const char *fn, C c, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe) {
  const auto send = [=](auto sig) {
    if (sig_op == SHMEM_SIGNAL_SET)
      sig.set(signal, std::memory_order_seq_cst);
    else if (sig_op == SHMEM_SIGNAL_ADD)
      sig.template update<Amo::add>(signal);
    else
      bad_signal(fn, sig_op);
    sig.wake();
  };
  access_word(fn, "sig_addr", c, sig_addr, pe, send, sig_op == SHMEM_SIGNAL_ADD);
}

template <class C, class T>
inline void put_signal(const char *fn, C c, T *dest, const T *source, size_t nelems,
                       uint64_t *sig_addr, uint64_t signal, int sig_op, int pe) {
  access(fn, "dest", c, dest, nelems, pe, source, [=](auto d) { d.put_first(source, nelems); });
  deliver(fn, c, sig_addr, signal, sig_op, pe);
}
template <class C, class T>
inline void put_signal_nbi(const char *fn, C c, T *dest, const T *source, size_t nelems,
                           uint64_t *sig_addr, uint64_t signal, int sig_op, int pe) {
  put_signal(fn, c, dest, source, nelems, sig_addr, signal, sig_op, pe);
}

template <class C>
inline void signal_add(const char *fn, C c, uint64_t *sig_addr, uint64_t signal, int pe) {
  deliver(fn, c, sig_addr, signal, SHMEM_SIGNAL_ADD, pe);
}
template <class C>
inline void signal_set(const char *fn, C c, uint64_t *sig_addr, uint64_t signal, int pe) {
  deliver(fn, c, sig_addr, signal, SHMEM_SIGNAL_SET, pe);
}
inline uint64_t signal_fetch(const char *fn, const uint64_t *sig_addr) {
  if (self.careful) [[unlikely]]
    if (prepare(fn, "sig_addr", sig_addr, 1)) return *Copied<uint64_t>(sig_addr, 1).get();
  const uint64_t value = look(const_cast<uint64_t *>(sig_addr));
  if (self.oversubscribed) polled(sig_addr, &value, sizeof value);
  return value;
}
inline uint64_t signal_wait_until(const char *fn, uint64_t *sig_addr, int cmp, uint64_t cmp_value) {
  return wait_for(fn, "sig_addr", sig_addr, cmp, cmp_value);
}

} // namespace shmem::api

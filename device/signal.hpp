// SPDX-License-Identifier: MIT
// Put with signal, and signals.
#pragma once
#include "rma.hpp"
#include "wait.hpp"

namespace shmem::device {

SHMEM_D_ void deliver(uint64_t *sig, uint64_t signal, int sig_op) {
  if (sig_op == SHMEM_SIGNAL_ADD)
    arch::fetch_add(sig, signal);
  else
    arch::store(sig, signal);
}

SHMEM_D_ void ring_signal(const char *fn, uint64_t *sig, uint64_t signal, int sig_op, int pe) {
  ring::update(fn, sig_op == SHMEM_SIGNAL_ADD ? Amo::add : Amo::set, sig, pe, signal);
}

// Every thread waits for its stores, the scope meets, and one thread releases them all and stores
// the signal.
template <class C, class T, class Scope>
SHMEM_D_ void put_signal(const char *fn, C c, T *dest, const T *source, size_t n,
                         uint64_t *sig_addr, uint64_t signal, int sig_op, int pe, Scope scope) {
  const int there = world_pe(c, pe);
  reach(
      fn, "sig_addr", sig_addr, 1, there,
      !arch::keeps_peers           ? Use::later
      : sig_op == SHMEM_SIGNAL_ADD ? Use::atomic
      : scope.rank() == 0          ? Use::stores
                                   : Use::later,
      [&](uint64_t *sig) {
        T *d = at(fn, "dest", dest, n, there);
        scope.sync();
        copy<Remote::dest, unit_of<T>>(d, source, n * sizeof(T), scope);
        device::settle(scope);
        if (scope.rank() == 0) {
          // Orders copy's data before deliver's signal. Also orders this PE's stores to its own
          // memory before a peer's stores there after the signal: gfx942's L2 would keep the old
          // lines and write them back over those (examples/put_signal.hip on the strict machine,
          // 2026-11-22).
          arch::fence_release();
          deliver(sig, signal, sig_op);
        }
      },
      [&] {
        at(fn, "dest", dest, n, there);
        device::settle(scope);
        const uint64_t until = ring::put(fn, dest, source, n, there, scope);
        device::settle(scope);
        if (scope.rank() == 0) {
          ring::fence(fn);
          ring_signal(fn, sig_addr, signal, sig_op, there);
          if (until) ring::await(fn, until);
        }
      });
}
template <class C, class T, class Scope>
SHMEM_D_ void put_signal_nbi(const char *fn, C c, T *dest, const T *source, size_t n,
                             uint64_t *sig_addr, uint64_t signal, int sig_op, int pe, Scope scope) {
  put_signal(fn, c, dest, source, n, sig_addr, signal, sig_op, pe, scope);
}

// These order nothing: a fence is the caller's.
template <class C>
SHMEM_D_ void send_signal(const char *fn, C c, uint64_t *sig_addr, uint64_t signal, int sig_op,
                          int pe) {
  const int there = world_pe(c, pe);
  reach(
      fn, "sig_addr", sig_addr, 1, there, sig_op == SHMEM_SIGNAL_ADD ? Use::atomic : Use::stores,
      [&](uint64_t *sig) { deliver(sig, signal, sig_op); },
      [&] { ring_signal(fn, sig_addr, signal, sig_op, there); });
}
template <class C>
SHMEM_D_ void signal_add(const char *fn, C c, uint64_t *sig_addr, uint64_t signal, int pe, Thread) {
  send_signal(fn, c, sig_addr, signal, SHMEM_SIGNAL_ADD, pe);
}
template <class C>
SHMEM_D_ void signal_set(const char *fn, C c, uint64_t *sig_addr, uint64_t signal, int pe, Thread) {
  send_signal(fn, c, sig_addr, signal, SHMEM_SIGNAL_SET, pe);
}
SHMEM_D_ uint64_t signal_fetch(const char *fn, const uint64_t *sig_addr, Thread) {
  check_own(fn, "sig_addr", sig_addr, sizeof *sig_addr, alignof(uint64_t));
  deferred::look();
  const uint64_t seen = arch::poll(sig_addr);
  arch::polled();
  return seen;
}
SHMEM_D_ uint64_t signal_wait_until(const char *fn, uint64_t *sig_addr, int cmp, uint64_t value,
                                    Thread) {
  return wait_for(fn, "sig_addr", sig_addr, cmp, value);
}

} // namespace shmem::device

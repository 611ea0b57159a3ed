// SPDX-License-Identifier: MIT
// PEs that are not mapped: a kernel posts requests to a progress thread on the host, see Request.
// The host reaches the heap and buffers, so a copy from or to those is one request. Other data,
// such as a thread's own array, travels in the requests and replies themselves.
//
// Lanes that call together take tickets in a row. A ring has more slots than a wave has lanes, so
// no lane waits for the slot, or the reply, of a lane that waits in step with it.
#pragma once
#include "kinds.hpp"
#include "poll.hpp"
#include "scope.hpp"

namespace shmem::device::ring {

// Waits until all requests before the ticket `until` are done. One of the waiting threads at a time
// reads host memory, and tells the others: when 128 workgroups of an H100 all did, a kernel that
// stored 105 words at another PE took 160 us in place of 20 (2026-11-24).
SHMEM_D_ void await(const char *fn, uint64_t until) {
  Tickets *const t = arch::load_anew(state.ring.tickets);
  const auto there = [&] {
    return int64_t(arch::load<Order::relaxed, Range::device>(&t->seen) - until) >= 0;
  };
  if (there()) return;
  const uint64_t *const served = &arch::load_anew(state.ring.served)->done;
  poll_until(
      [&] {
        if (there()) return true;
        // A lane that waits in step with the reader looks again, and does not wait for it here.
        if (arch::compare_exchange<Order::relaxed, Range::device>(&t->reading, 0u, 1u))
          return false;
        const uint64_t done = arch::poll(served);
        // A thread that acquires this loads what the host stored before `done`.
        arch::store<Order::release, Range::device>(&t->seen, done);
        arch::store<Order::relaxed, Range::device>(&t->reading, 0u);
        return int64_t(done - until) >= 0;
      },
      [&] {
        fail(Report::wait_limit, fn, "pe", served, sizeof *served, alignof(uint64_t), state.me,
             SHMEM_CMP_GE, until, arch::load(served));
      });
  arch::progress();
}
// The same for gets: later loads see the data.
SHMEM_D_ void await_data(const char *fn, uint64_t until) {
  await(fn, until);
  arch::fence_acquire();
}

// Posts a request and returns the ticket behind its own. head: of the operation; fill(operation)
// stores the words of its union that the kind has.
template <class F>
SHMEM_D_ uint64_t post(const char *fn, int pe, uint64_t head, uint64_t offset, uint16_t reply,
                       F fill) {
  const uint64_t ticket = arch::take(&arch::load_anew(state.ring.tickets)->posted);
  if (ticket >= ring_size) await(fn, ticket + 1 - ring_size);
  Request *const request = arch::load_anew(state.ring.requests) + ticket % ring_size;
  fill(request->op);
  arch::store(&request->op.offset, offset);
  arch::store(reinterpret_cast<uint64_t *>(&request->op), head);
  // After the words above, and after what this thread or its scope stored in the heap.
  arch::store<Order::release>(reinterpret_cast<uint64_t *>(request),
                              uint32_t(ticket / ring_size + 1) | uint64_t(uint16_t(pe)) << 32 |
                                  uint64_t(reply) << 48);
  return ticket + 1;
}

// Posts a request and waits for its reply: take(the data).
template <class Fill, class Take>
SHMEM_D_ void ask(const char *fn, int pe, uint64_t head, uint64_t offset, Fill fill, Take take) {
  const Ring &r = state.ring;
  const uint64_t number = arch::take(&r.tickets->asked);
  const unsigned slot = unsigned(number % ring_size), lap = unsigned(number / ring_size);
  uint32_t *read = r.tickets->read + slot;
  poll_until([&] { return arch::load<Order::relaxed, Range::device>(read) == lap; },
             [&] {
               fail(Report::wait_limit, fn, "pe", read, sizeof *read, alignof(uint32_t), state.me,
                    SHMEM_CMP_EQ, lap, arch::load(read));
             });
  arch::progress();
  const uint16_t name = uint16_t(number) | reply_bit;
  post(fn, pe, head, offset, name, fill);
  const Reply &reply = r.replies[slot];
  poll_until([&] { return arch::poll(&reply.number) == name; },
             [&] {
               fail(Report::wait_limit, fn, "pe", &reply, sizeof reply.number, alignof(uint32_t),
                    state.me, SHMEM_CMP_EQ, name, arch::load(&reply.number));
             });
  arch::polled(); // the reply's data
  take(reply.words);
  arch::store<Order::release, Range::device>(read, lap + 1); // after the data was loaded
}

// Whether p is on the heap or in a buffer, which the host reaches as well.
SHMEM_D_ bool is_symmetric(const void *p) {
  return on_heap(p) || row_of(p) != heap_row;
}
SHMEM_D_ uint64_t address(const void *p) {
  return reinterpret_cast<uintptr_t>(p);
}

// Posts a transfer between this PE's memory and that of pe, by one thread.
SHMEM_D_ uint64_t transfer(const char *fn, Operation::Kind kind, const void *object,
                           const void *local, int pe, const Blocks &b) {
  return post(fn, pe, Operation::head(kind), address(object), 0, [&](Operation &o) {
    arch::store(&o.transfer.bytes, b.bytes), arch::store(&o.transfer.count, b.count);
    arch::store(&o.transfer.remote_stride, b.remote_stride);
    arch::store(&o.transfer.local_stride, b.local_stride);
    arch::store(&o.transfer.local, address(local));
  });
}

// The most data in a request, and in a reply.
inline constexpr size_t put_bytes = sizeof Operation::words, get_bytes = sizeof Reply::words;

// Calls f(unit): the largest number up to 8 that is known to divide bytes and p, which is aligned
// as T.
template <class T, class F> SHMEM_D_ void by_unit(const void *p, size_t bytes, F f) {
  constexpr int unit = alignof(T) < 8 ? int(alignof(T)) : 8;
  if constexpr (unit < 8)
    if ((reinterpret_cast<uintptr_t>(p) | bytes) % 8) return f(std::integral_constant<int, unit>{});
  f(std::integral_constant<int, 8>{});
}
// One piece. unit divides the address in this thread's memory, and bytes.
template <int unit>
SHMEM_D_ void put_piece(const char *fn, uint64_t object, const char *source, size_t bytes, int pe) {
  using U = typename arch::WordOf<unit>::type;
  post(fn, pe, Operation::head(Operation::put_words, bytes), object, 0, [&](Operation &o) {
    SHMEM_NO_UNROLL_
    for (size_t i = 0; i < bytes; i += 8) {
      uint64_t w = 0;
      for (size_t k = 0; k < 8 && i + k < bytes; k += unit) {
        U u;
        __builtin_memcpy(&u, __builtin_assume_aligned(source + i + k, unit), unit);
        w |= uint64_t(u) << 8 * k;
      }
      arch::store(o.words + i / 8, w);
    }
  });
}
template <int unit>
SHMEM_D_ void get_piece(const char *fn, char *dest, uint64_t object, size_t bytes, int pe) {
  using U = typename arch::WordOf<unit>::type;
  ask(
      fn, pe, Operation::head(Operation::get_words, bytes), object, [](Operation &) {},
      [&](const uint64_t *from) {
        SHMEM_NO_UNROLL_
        for (size_t i = 0; i < bytes; i += 8) {
          const uint64_t w = arch::load(from + i / 8);
          for (size_t k = 0; k < 8 && i + k < bytes; k += unit) {
            const U u = U(w >> 8 * k);
            __builtin_memcpy(__builtin_assume_aligned(dest + i + k, unit), &u, unit);
          }
        }
      });
}

// Posts a put, by the threads of a scope, which have met since source was stored, each after its
// wait_stores. Returns the ticket to await before source may change, or 0.
template <class T, class Scope>
SHMEM_RARE_ uint64_t put(const char *fn, const T *dest, const T *source, size_t n, int pe,
                         Scope scope) {
  const size_t bytes = n * sizeof(T);
  if (bytes > put_bytes && is_symmetric(source))
    return scope.rank() ? 0 : transfer(fn, Operation::put, dest, source, pe, one_block(bytes));
  const char *s = reinterpret_cast<const char *>(source);
  by_unit<T>(source, bytes, [&](auto unit) {
    for (size_t i = scope.rank() * put_bytes; i < bytes; i += scope.size() * put_bytes)
      put_piece<decltype(unit)::value>(fn, address(dest) + i, s + i,
                                       bytes - i < put_bytes ? bytes - i : put_bytes, pe);
  });
  return 0;
}
// The same for a get: returns the ticket to await before dest has the data, or 0.
template <class T, class Scope>
SHMEM_RARE_ uint64_t get(const char *fn, T *dest, const T *source, size_t n, int pe, Scope scope) {
  const size_t bytes = n * sizeof(T);
  if (bytes > get_bytes && is_symmetric(dest))
    return scope.rank() || !bytes
               ? 0
               : transfer(fn, Operation::get, source, dest, pe, one_block(bytes));
  char *d = reinterpret_cast<char *>(dest);
  by_unit<T>(dest, bytes, [&](auto unit) {
    for (size_t i = scope.rank() * get_bytes; i < bytes; i += scope.size() * get_bytes)
      get_piece<decltype(unit)::value>(fn, d + i, address(source) + i,
                                       bytes - i < get_bytes ? bytes - i : get_bytes, pe);
  });
  return 0;
}

// Atomics on `width` bytes at `object`: one that returns nothing, and one that returns the old
// value.
SHMEM_RARE_ void update(const char *fn, Amo amo, size_t width, uint64_t object, int pe,
                        uint64_t value) {
  post(fn, pe, Operation::head(Operation::atomic, width, Operation::by_address, amo), object, 0,
       [&](Operation &o) { arch::store(&o.operands.value, value); });
}
SHMEM_RARE_ uint64_t fetch(const char *fn, Amo amo, size_t width, uint64_t object, int pe,
                           uint64_t value, uint64_t compare) {
  uint64_t seen;
  ask(
      fn, pe, Operation::head(Operation::atomic, width, Operation::by_address, amo), object,
      [&](Operation &o) {
        if (amo != Amo::fetch) arch::store(&o.operands.value, value);
        if (amo == Amo::compare_swap) arch::store(&o.operands.compare, compare);
      },
      [&](const uint64_t *from) { seen = arch::load(from); });
  return seen;
}
template <class T> SHMEM_D_ void update(const char *fn, Amo amo, const T *object, int pe, T value) {
  update(fn, amo, sizeof(T), address(object), pe, arch::to_bits(value));
}
template <class T>
SHMEM_D_ T fetch(const char *fn, Amo amo, const T *object, int pe, T value, T compare = T{}) {
  return arch::from_bits<T>(arch::Bits<T>(fetch(fn, amo, sizeof(T), address(object), pe,
                                                arch::to_bits(value), arch::to_bits(compare))));
}

// Stores n words, each of them whole, among the flags of pe: where p is among this PE's. A flag
// that stands for earlier operations needs a fence before it.
template <size_t n>
SHMEM_D_ void set_flags(const char *fn, const uint64_t *p, const uint64_t (&words)[n], int pe) {
  post(fn, pe, Operation::head(Operation::set_flags, sizeof words, Operation::flags),
       address(p) - address(arch::load_anew(state.arrived)), 0, [&](Operation &o) {
         SHMEM_UNROLL_
         for (size_t i = 0; i < n; i++) arch::store(o.words + i, words[i]);
       });
}

// Requests that this thread posts later start after all earlier ones are done: its own, and those
// of threads of this GPU that it has met.
SHMEM_D_ void fence(const char *fn) {
  const Tickets *const t = state.ring.tickets;
  if (!t) return;
  if (arch::load<Order::relaxed, Range::device>(&t->posted) !=
      arch::load<Order::relaxed, Range::device>(&t->seen))
    post(fn, state.me, Operation::head(Operation::fence), 0, 0, [](Operation &) {});
}
SHMEM_D_ void quiet(const char *fn) {
  if (const Tickets *const t = state.ring.tickets)
    await_data(fn, arch::load<Order::relaxed, Range::device>(&t->posted));
}

} // namespace shmem::device::ring

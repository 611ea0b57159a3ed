// SPDX-License-Identifier: MIT
// PEs that are not mapped: what a kernel asks the library's thread on the host to do, see Ring.
// What the object is copied from or to is the own heap, which the host reaches as well; anything
// else, a thread's own array, say, goes through the requests and replies themselves.
//
// Lanes that call together take tickets in a row. So nobody waits for a place, or a reply, of a
// lane that waits in step with it, as long as there are more of them than a wave has lanes.
#pragma once
#include "kinds.hpp"
#include "poll.hpp"
#include "scope.hpp"

namespace shmem::device::ring {

// Until the requests before the ticket `until` are done. Of the waiting threads one at a time reads
// host memory, and tells the others: while 128 workgroups of an H100 all did, a kernel that stored
// 105 words at the other end took 160 us in place of 20 (2026-11-24).
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
        // In a wave that goes in step nobody waits for the one that reads.
        if (arch::compare_exchange<Order::relaxed, Range::device>(&t->reading, 0u, 1u))
          return false;
        const uint64_t done = arch::poll(served);
        // What the host stored before `done`, before what is loaded by who sees this instead.
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
// The same of what gets: it is loaded after.
SHMEM_D_ void await_data(const char *fn, uint64_t until) {
  await(fn, until);
  arch::fence_acquire();
}

// Gives the ticket behind that of the request, whose words fill(their place) stores.
template <class F>
SHMEM_D_ uint64_t post(const char *fn, int pe, uint64_t at, unsigned what, size_t bytes,
                       uint32_t reply, F fill) {
  const uint64_t ticket = arch::take(&arch::load_anew(state.ring.tickets)->posted);
  if (ticket >= ring_size) await(fn, ticket + 1 - ring_size);
  uint64_t *to =
      reinterpret_cast<uint64_t *>(arch::load_anew(state.ring.requests) + ticket % ring_size);
  fill(to + 3);
  arch::store(to + 2, at);
  arch::store(to + 1, what | bytes << 8 | uint64_t(reply) << 32);
  // The words above, and what this thread or its scope stored in the heap, before the request is
  // there.
  arch::store<Order::release>(to, uint32_t(ticket / ring_size + 1) | uint64_t(unsigned(pe)) << 32);
  return ticket + 1;
}

// Posts what wants words, and stores them by take(their place).
template <class Fill, class Take>
SHMEM_D_ void ask(const char *fn, int pe, uint64_t at, unsigned what, size_t bytes, Fill fill,
                  Take take) {
  const Ring &r = state.ring;
  const uint64_t number = arch::take(&r.tickets->asked);
  const unsigned place = unsigned(number % ring_size), lap = unsigned(number / ring_size);
  uint32_t *read = r.tickets->read + place;
  poll_until([&] { return arch::load<Order::relaxed, Range::device>(read) == lap; },
             [&] {
               fail(Report::wait_limit, fn, "pe", read, sizeof *read, alignof(uint32_t), state.me,
                    SHMEM_CMP_EQ, lap, arch::load(read));
             });
  arch::progress();
  const uint32_t name = uint32_t(number) | 1u << 31; // and never 0
  post(fn, pe, at, what, bytes, name, fill);
  const Reply &reply = r.replies[place];
  poll_until([&] { return arch::poll(&reply.number) == name; },
             [&] {
               fail(Report::wait_limit, fn, "pe", &reply, sizeof reply.number, alignof(uint32_t),
                    state.me, SHMEM_CMP_EQ, name, arch::load(&reply.number));
             });
  arch::polled(); // the reply's words
  take(reply.word);
  arch::store<Order::release, Range::device>(read, lap + 1); // after the words were loaded
}

// On the heap or in a buffer, which the host reaches as well.
SHMEM_D_ bool is_symmetric(const void *p) {
  return on_heap(p) || row_of(p) != heap_row;
}
SHMEM_D_ uint64_t offset(const void *p) {
  return reinterpret_cast<uintptr_t>(p) - arch::load_anew(state.base);
}

// n blocks between this heap and that of pe. Of one thread.
SHMEM_D_ uint64_t move(const char *fn, Request::What what, const void *at, const void *local,
                       int pe, size_t bytes, size_t n = 1, size_t dst = 0, size_t sst = 0) {
  return post(fn, pe, offset(at), what, 0, 0, [&](uint64_t *w) {
    arch::store(w, offset(local)), arch::store(w + 1, uint64_t(bytes));
    arch::store(w + 2, uint64_t(n)), arch::store(w + 3, uint64_t(dst));
    arch::store(w + 4, uint64_t(sst));
  });
}

// Up to so many bytes of a piece go in a request, or come in a reply.
inline constexpr size_t put_bytes = 40, get_bytes = 56;

// f(the largest number up to 8 that is sure to divide p, of T's alignment, and bytes).
template <class T, class F> SHMEM_D_ void by_unit(const void *p, size_t bytes, F f) {
  constexpr int unit = alignof(T) < 8 ? int(alignof(T)) : 8;
  if constexpr (unit < 8)
    if ((reinterpret_cast<uintptr_t>(p) | bytes) % 8) return f(std::integral_constant<int, unit>{});
  f(std::integral_constant<int, 8>{});
}
// One piece. unit divides the private address and bytes.
template <int unit>
SHMEM_D_ void put_piece(const char *fn, uint64_t at, const char *source, size_t bytes, int pe) {
  using U = typename arch::WordOf<unit>::type;
  post(fn, pe, at, Request::put_words, bytes, 0, [&](uint64_t *to) {
    SHMEM_NO_UNROLL_
    for (size_t i = 0; i < bytes; i += 8) {
      uint64_t w = 0;
      for (size_t k = 0; k < 8 && i + k < bytes; k += unit) {
        U u;
        __builtin_memcpy(&u, __builtin_assume_aligned(source + i + k, unit), unit);
        w |= uint64_t(u) << 8 * k;
      }
      arch::store(to + i / 8, w);
    }
  });
}
template <int unit>
SHMEM_D_ void get_piece(const char *fn, char *dest, uint64_t at, size_t bytes, int pe) {
  using U = typename arch::WordOf<unit>::type;
  ask(
      fn, pe, at, Request::get_words, bytes, [](uint64_t *) {},
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

// By the threads of a scope, which have met since source was stored, each after its wait_stores.
// Gives the ticket to await before source may change, or 0.
template <class T, class Scope>
SHMEM_RARE_ uint64_t put(const char *fn, const T *dest, const T *source, size_t n, int pe,
                         Scope scope) {
  const size_t bytes = n * sizeof(T);
  if (bytes > put_bytes && is_symmetric(source))
    return scope.rank() ? 0 : move(fn, Request::put, dest, source, pe, bytes);
  const char *s = reinterpret_cast<const char *>(source);
  by_unit<T>(source, bytes, [&](auto unit) {
    for (size_t i = scope.rank() * put_bytes; i < bytes; i += scope.size() * put_bytes)
      put_piece<decltype(unit)::value>(fn, offset(dest) + i, s + i,
                                       bytes - i < put_bytes ? bytes - i : put_bytes, pe);
  });
  return 0;
}
// The same: the ticket to await before dest is there.
template <class T, class Scope>
SHMEM_RARE_ uint64_t get(const char *fn, T *dest, const T *source, size_t n, int pe, Scope scope) {
  const size_t bytes = n * sizeof(T);
  if (bytes > get_bytes && is_symmetric(dest))
    return scope.rank() || !bytes ? 0 : move(fn, Request::get, source, dest, pe, bytes);
  char *d = reinterpret_cast<char *>(dest);
  by_unit<T>(dest, bytes, [&](auto unit) {
    for (size_t i = scope.rank() * get_bytes; i < bytes; i += scope.size() * get_bytes)
      get_piece<decltype(unit)::value>(fn, d + i, offset(source) + i,
                                       bytes - i < get_bytes ? bytes - i : get_bytes, pe);
  });
  return 0;
}

template <class T> SHMEM_RARE_ void amo(const char *fn, Amo op, const T *dest, int pe, T value) {
  post(fn, pe, offset(dest), unsigned(op), sizeof(T), 0,
       [&](uint64_t *w) { arch::store(w, uint64_t(arch::to_bits(value))); });
}
template <class T>
SHMEM_RARE_ T fetch_amo(const char *fn, Amo op, const T *dest, int pe, T value, T cond = T{}) {
  arch::Bits<T> seen;
  ask(
      fn, pe, offset(dest), unsigned(op), sizeof(T),
      [&](uint64_t *w) {
        arch::store(w, uint64_t(arch::to_bits(value)));
        arch::store(w + 1, uint64_t(arch::to_bits(cond)));
      },
      [&](const uint64_t *from) { seen = arch::Bits<T>(arch::load(from)); });
  return arch::from_bits<T>(seen);
}

// What lies at p in this PE's flags, at the same place of another's: n words, each stored whole. A
// fence comes before the flag of something.
SHMEM_D_ uint64_t in_flags(const void *p) {
  return reinterpret_cast<uintptr_t>(p) -
         reinterpret_cast<uintptr_t>(arch::load_anew(state.arrived));
}
SHMEM_D_ void flag(const char *fn, const uint64_t *p, uint64_t value, int pe) {
  post(fn, pe, in_flags(p), Request::flags, 8, 0, [&](uint64_t *w) { arch::store(w, value); });
}
SHMEM_D_ void flags(const char *fn, const uint64_t *p, const uint64_t (&words)[4], int pe) {
  post(fn, pe, in_flags(p), Request::flags, 32, 0, [&](uint64_t *w) {
    arch::store(w, words[0]), arch::store(w + 1, words[1]);
    arch::store(w + 2, words[2]), arch::store(w + 3, words[3]);
  });
}

// What was posted before, by whatever thread of this GPU that this one has met, is done before what
// is posted after.
SHMEM_D_ void fence(const char *fn) {
  const Tickets *const t = state.ring.tickets;
  if (!t) return;
  if (arch::load<Order::relaxed, Range::device>(&t->posted) !=
      arch::load<Order::relaxed, Range::device>(&t->seen))
    post(fn, state.me, 0, Request::fence, 0, 0, [](uint64_t *) {});
}
SHMEM_D_ void quiet(const char *fn) {
  if (const Tickets *const t = state.ring.tickets)
    await_data(fn, arch::load<Order::relaxed, Range::device>(&t->posted));
}

} // namespace shmem::device::ring

// SPDX-License-Identifier: MIT
// How the members of a team meet and pass short messages in a collective: workgroup i of each
// member on channel i, see Channels. Messages lie in lines of 8 bytes, 4 of data and 4 of the
// epoch, so data and flag arrive as one and no fence is needed. There are two sets of lines, for
// even and for odd epochs: no member writes those of epoch e before the reader has entered e - 1,
// when the reader is done with e - 2.
#pragma once
#include "element.hpp"
#include "pattern.hpp"
#include "wait.hpp"

namespace shmem::device {

struct Channel {
  const char *fn;
  Team t;
  uintptr_t head, lines; // here
  unsigned room;
  uint64_t epoch;                // of the running collective, or of its running round
  unsigned dest_row, source_row; // see row_of
  SHMEM_D_ int pe(int member) const { return pe_of(t, member); }
  SHMEM_D_ int peer(int k) const { return pattern::peer(t.me, k, t.n); }
  SHMEM_D_ int peer_after(int member) const { return member + 1 < t.n ? member + 1 : 0; }
  SHMEM_D_ uint64_t *entered(int member) const {
    return reinterpret_cast<uint64_t *>(head + cache_line) + member;
  }
  SHMEM_D_ uint64_t *done(int member) const { return entered(arch::load_anew(state.n) + member); }
};

template <class Scope> SHMEM_D_ Channel anew(Scope scope, Channel c) {
  c.head = anew(scope, c.head), c.t.me = anew(scope, c.t.me), c.t.n = anew(scope, c.t.n);
  c.t.start = anew(scope, c.t.start), c.t.stride = anew(scope, c.t.stride);
  return c;
}

// The object of a PE that is mapped.
template <class T> SHMEM_D_ T *at_peer(unsigned row, T *p, int pe) {
  const uintptr_t delta = delta_in(row, unsigned(pe)) & ~tags;
  return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(p) + delta);
}
template <class T> SHMEM_D_ T *dest_at(const Channel &c, T *p, int pe) {
  return at_peer(c.dest_row, p, pe);
}
template <class T> SHMEM_D_ T *source_at(const Channel &c, T *p, int pe) {
  return at_peer(c.source_row, p, pe);
}

// The same, or null if that PE is not mapped.
template <class T> SHMEM_D_ T *mapped_dest(const Channel &c, T *p, int pe) {
  return is_remote(pe) ? nullptr : dest_at(c, p, pe);
}
// Stores blocks in a PE's dest: by store(that dest) if the PE is mapped, else one thread asks the
// host for a put.
template <class Scope, class Store>
SHMEM_D_ void store_at(const Channel &c, int pe, char *dest, const char *source, const Blocks &b,
                       Scope scope, Store store) {
  if (char *const there = mapped_dest(c, dest, pe); there || !ring_built) return store(there);
  if (scope.rank() == 0 && b.bytes && b.count)
    ring::transfer(c.fn, Operation::put, dest, source, pe, b);
}

template <class Scope>
SHMEM_D_ Channel open(const char *fn, unsigned id, const Team &t, unsigned index, const void *dest,
                      const void *source, Scope scope) {
  const Channels &w = state.channels;
  if (id >= unsigned(w.teams))
    fail(Report::many_teams, fn, "team", nullptr, 0, 0, state.me, 0, 0, id);
  Channel c;
  c.fn = fn, c.t = t;
  c.dest_row = row_of(dest), c.source_row = row_of(source);
  c.room = arch::load_anew(w.room);
  const uintptr_t at = w.at + id * w.team_bytes;
  c.head = at + index * w.head_bytes;
  c.lines = anew(scope, at + unsigned(w.count) * w.head_bytes +
                            size_t(index) * 4 * unsigned(state.n) * c.room);
  scope.sync(); // the epoch that another thread stored at the end of the last collective
  c.epoch =
      t.base + arch::load<Order::relaxed, Range::device>(reinterpret_cast<uint64_t *>(c.head));
  return c;
}
// base: the team's, which only this function needs.
template <class Scope> SHMEM_D_ void close(const Channel &c, uint64_t base, Scope scope) {
  scope.sync(); // all have read the epoch
  if (scope.rank() == 0)
    arch::store<Order::relaxed, Range::device>(reinterpret_cast<uint64_t *>(c.head),
                                               c.epoch - base);
}

// Stores this PE's flag at each peer, after the scope's earlier stores, if there are any.
enum class Stored { nothing, by_stream, by_scope };
template <Stored stored, class Scope>
SHMEM_D_ void tell(const Channel &c, Scope scope, uint64_t *mine) {
  if (stored == Stored::by_scope) arch::wait_stores();
  scope.sync();
  if (int(scope.rank()) >= c.t.n) return;
  if (stored == Stored::by_scope) arch::fence_release();
  if (stored == Stored::by_stream) arch::fence_stream();
  if (stored != Stored::nothing && may_be_remote(c.t)) ring::fence(c.fn);
  set_flags(c.fn, c.t, mine, c.epoch, scope);
}
// Waits until all members have come: then their sources are ready, and their dests may be written.
template <Stored stored, class Scope> SHMEM_D_ void enter(Channel &c, Scope scope) {
  c.epoch++;
  tell<stored>(c, scope, c.entered(c.t.me));
  wait_flags(c.fn, c.t, c.epoch, scope, [&](int i) { return c.entered(i); });
  arch::polled(); // what the peers stored before they came
  scope.sync();
}
// Tells the others that this member is done with their sources and dests.
template <Stored stored, class Scope> SHMEM_D_ void tell_done(const Channel &c, Scope scope) {
  tell<stored>(c, scope, c.done(c.t.me));
}
// Waits until all members are done with this one's.
template <class Scope> SHMEM_D_ void wait_done(const Channel &c, Scope scope) {
  wait_flags(c.fn, c.t, c.epoch, scope, [&](int i) { return c.done(i); });
  // The others' flags say nothing of this one's puts, whose source may change from here on.
  if (may_be_remote(c.t)) ring::quiet(c.fn);
  arch::polled(); // what they stored in dest
}
template <Stored stored, class Scope> SHMEM_D_ void leave(const Channel &entered, Scope scope) {
  const Channel c = anew(scope, entered);
  tell_done<stored>(c, scope);
  wait_done(c, scope);
}

// Begins a round of lines, in which each member may send room bytes to each.
template <Stored stored = Stored::nothing, class Scope>
SHMEM_D_ void begin_round(Channel &c, Scope scope) {
  c = anew(scope, c);
  c.epoch++;
  tell<stored>(c, scope, c.entered(c.t.me)); // its barrier ends the round before
  wait_flags(c.fn, c.t, c.epoch - 1, scope, [&](int i) { return c.entered(i); });
  arch::progress();
  scope.sync();
}
// From here on rounds are of one pack, by the lines of the head, which each channel has.
SHMEM_D_ void use_head(Channel &c) {
  c.lines = c.head + Channels::head_lines(unsigned(state.n));
  c.room = pack_bytes;
}
SHMEM_D_ Pack pack_of(uint64_t word) {
  const uint64_t words[2] = {word, 0};
  Pack v;
  __builtin_memcpy(&v, words, sizeof v);
  return v;
}
SHMEM_D_ uint64_t word_of(Pack v) {
  uint64_t words[2];
  __builtin_memcpy(words, &v, sizeof v);
  return words[0];
}
SHMEM_D_ uint64_t *lines_of(const Channel &c, int member) { // that member's messages
  const size_t slot = (c.epoch & 1) * unsigned(state.n) + unsigned(member);
  return reinterpret_cast<uint64_t *>(c.lines + slot * 2 * c.room);
}
// Each word has 4 bytes of a pack, and the epoch.
struct Line {
  uint64_t words[4];
};
SHMEM_D_ Line line_of(const Channel &c, Pack v) {
  uint32_t w[4];
  __builtin_memcpy(w, &v, 16);
  const uint64_t flag = c.epoch << 32;
  return {{w[0] | flag, w[1] | flag, w[2] | flag, w[3] | flag}};
}
SHMEM_D_ void send_mapped(const Channel &c, int member, size_t p, Pack v) {
  const Line line = line_of(c, v);
  uint64_t *to = flag_at(c.t, lines_of(c, c.t.me), member) + 4 * p;
  arch::store_lines(to, line.words[0], line.words[1]);
  arch::store_lines(to + 2, line.words[2], line.words[3]);
}
SHMEM_D_ void send(const Channel &c, int member, size_t p, Pack v) {
  if (!is_remote(c.pe(member))) return send_mapped(c, member, p, v);
  ring::set_flags(c.fn, lines_of(c, c.t.me) + 4 * p, line_of(c, v).words, c.pe(member));
}
// Receives the same pack of n members, from `first` on; their loads are in flight at once.
template <int n> SHMEM_D_ void receive(const Channel &c, int first, size_t p, Pack (&v)[n]) {
  const uint64_t *from = lines_of(c, first) + 4 * p;
  const size_t step = c.room / 4; // words, from member to member
  const int last = c.t.n - 1 - first;
  const uint32_t flag = uint32_t(c.epoch);
  uint64_t w[n][4];
  // This is not poll_until, because what the lambda refers to cost 17 to 25 spilt SGPRs (clang 19,
  // gfx942, 2026-11).
  Patience patience;
  for (;;) {
    uint32_t other = 0;
    SHMEM_UNROLL_
    for (int i = 0; i < n; i++) {
      const uint64_t *one = from + unsigned(i < last ? i : last) * step;
      arch::load_lines(w[i][0], w[i][1], one);
      arch::load_lines(w[i][2], w[i][3], one + 2);
    }
    SHMEM_UNROLL_
    for (int i = 0; i < n; i++) SHMEM_UNROLL_
    for (int k = 0; k < 4; k++) other |= uint32_t(w[i][k] >> 32) ^ flag;
    if (!other) break;
    if (patience.over())
      fail(Report::wait_limit, c.fn, "team", from, 8, 8, c.pe(first), SHMEM_CMP_EQ, flag,
           w[0][0] >> 32);
    deferred::look();
    arch::pause();
  }
  arch::progress();
  SHMEM_UNROLL_
  for (int i = 0; i < n; i++) {
    const uint32_t words[4] = {uint32_t(w[i][0]), uint32_t(w[i][1]), uint32_t(w[i][2]),
                               uint32_t(w[i][3])};
    __builtin_memcpy(&v[i], words, 16);
  }
}
// Calls f(i, pack p of member i) in the order of the members.
template <class F> SHMEM_D_ void receive_all(const Channel &c, size_t p, F &&f) {
  for (int first = 0; first < c.t.n; first += 4) {
    Pack v[4];
    receive(c, first, p, v);
    SHMEM_UNROLL_
    for (int i = 0; i < 4; i++)
      if (first + i < c.t.n) f(first + i, v[i]);
  }
}

// The part of a collective that one call of a scope, or one workgroup of a grid, does: its slice of
// how many, and the algorithm.
struct Slice {
  CollectiveAlgorithm algorithm;
  unsigned index, count;
  Stored stored; // the writer of source; nothing: the members meet in other kernels
};
using pattern::Extent, pattern::part;

template <class Scope> SHMEM_D_ void come(Channel &c, const Slice &s, Scope scope) {
  if (s.stored == Stored::by_stream)
    enter<Stored::by_stream>(c, scope);
  else if (s.stored == Stored::by_scope)
    enter<Stored::by_scope>(c, scope);
}
template <Stored stored, class Scope>
SHMEM_D_ void go(const Channel &c, const Slice &s, Scope scope) {
  if (s.stored != Stored::nothing) leave<stored>(c, scope);
}

// What a member sends: member i gets the bytes at source + i * block; if block is 0, all get the
// same. The last `without` peers, of which the very last is the member itself, get none.
struct Sent {
  const char *source;
  size_t block;
  int without;
  SHMEM_D_ const Sent &operator()() const { return *this; } // where pass() takes a function
};
// One round for each piece of room bytes, which is at `at`. data() gives the Sent. It is called for
// each pack, so that a reduction makes its own anew and keeps none of it in registers. take(p, at,
// left) takes pack p of the data that has come; `left` bytes are left there.
template <class Scope, class Data, class Take>
SHMEM_D_ void pass(Channel &c, Scope scope, Extent e, Data data, Take take) {
  for (size_t at = e.from; at < e.to; at += c.room) {
    const unsigned bytes = e.to - at < c.room ? unsigned(e.to - at) : c.room,
                   packs = (bytes + 15) / 16;
    begin_round(c, scope);
    for (unsigned p = scope.rank(); p < packs; p += scope.size()) {
      const Channel to = anew(scope, c);
      const Sent sent = data();
      const char *const from = sent.source + at + 16 * p;
      const int n = to.t.n - sent.without;
      const size_t block = sent.block;
      const uint32_t left = in_pack(bytes - 16 * p);
      // Loads come before stores: on CDNA a wait for a load is one for each store before it.
      if (block && !may_be_remote(to.t) &&
          (reinterpret_cast<uintptr_t>(from) | block | left) % 4 == 0) {
        for (int k = 1; k <= n; k += 4) {
          Pack v[4];
          SHMEM_UNROLL_
          for (int j = 0; j < 4; j++)
            v[j] = load_words(from + size_t(to.peer(k + j < n ? k + j : n)) * block, left);
          arch::arrive(v);
          SHMEM_UNROLL_
          for (int j = 0; j < 4; j++)
            if (k + j <= n) send_mapped(to, to.peer(k + j), p, v[j]);
        }
      } else if (n > 0) {
        Pack v[1];
        const auto load = [&](int k) {
          v[0] = load_pack(from + size_t(to.peer(k)) * block, left);
          arch::arrive(v); // here, and not before each store
        };
        load(1);
        SHMEM_NO_UNROLL_
        for (int k = 1; k <= n; k++) {
          send(to, to.peer(k), p, v[0]);
          if (block && k < n) load(k + 1);
        }
      }
    }
    for (unsigned p = scope.rank(); p < packs; p += scope.size()) take(p, at, bytes - 16 * p);
  }
}

} // namespace shmem::device

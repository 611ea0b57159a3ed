// SPDX-License-Identifier: MIT
// Collectives, for the scopes of kernels and for the grids that the library launches: each
// workgroup of a grid does its slice on a channel of its own. Short messages go by lines. Long ones
// go from the sources to the dests themselves, for all peers at once, between two meetings.
//
// Sums are taken in the order of the members, by one member for all or by each in the same way, so
// the bits are the same on all PEs, in all runs, and with all grids.
#pragma once
#include "channel.hpp"
#include "copy.hpp"

namespace shmem::device {

// By lines: what member i sends goes to block i of dest; a block has `bytes` bytes.
template <class Scope>
SHMEM_D_ void pass_blocks(Channel &c, Scope scope, char *dest, size_t bytes, Extent e,
                          const Sent &sent) {
  pass(c, scope, e, sent, [&](size_t p, size_t at, size_t left) {
    receive_all(
        c, p, [&](int i, Pack v) { store_pack(dest + size_t(i) * bytes + at + 16 * p, left, v); });
  });
}

// Some threads of a scope, numbered anew.
struct Threads {
  unsigned number, count;
  SHMEM_D_ unsigned rank() const { return number; }
  SHMEM_D_ unsigned size() const { return count; }
};

// The member before the one to which a slice stores first. Slices begin with different members: a
// compute unit has stores for one link on the way before it has any for the next, and if all units
// began with the same link, the others would wait. Computed for 4 MI300X (2026-11-30): fcollect of
// 10 MB takes 62 us, and took 92.
SHMEM_D_ int before_first(const Channel &c, const Slice &s) {
  return c.peer(int(s.index) % c.t.n);
}
// Stores the bytes of e, which slice s has, of this member's source into dest at all members.
template <class Scope>
SHMEM_D_ void give_all(const Channel &c, const Slice &s, char *dest, const char *source, Extent e,
                       Scope scope) {
  const int before = before_first(c, s);
  spread(source, dest, e, c.t.n, scope,
         [&](int k) { return mapped_dest(c, dest, c.pe(pattern::peer(before, k, c.t.n))); });
  for (int i = int(scope.rank()); may_be_remote(c.t) && i < c.t.n; i += int(scope.size()))
    store_at(c, c.pe(i), dest + e.from, source + e.from, one_block(e.to - e.from), Threads{0, 1},
             [](char *) {}); // stored above
}

template <class Scope>
SHMEM_D_ void broadcast(Channel &c, const Slice &s, char *dest, const char *source, size_t bytes,
                        int root, Scope scope) {
  const bool sends = c.t.me == root;
  if (s.algorithm == CollectiveAlgorithm::lines) {
    const Sent sent{source, 0, sends ? dest == source : c.t.n};
    pass(c, scope, part(bytes, cache_line, s.index, s.count), sent,
         [&](size_t p, size_t at, size_t left) {
           if (sends && dest == source) return;
           Pack v[1];
           receive(c, root, p, v);
           store_pack(dest + at + 16 * p, left, v[0]);
         });
    return;
  }
  come(c, s, scope);
  if (may_be_remote(c.t)) {
    const Extent e = part(bytes, cache_line, s.index, s.count);
    if (sends) give_all(c, s, dest, source, e, scope);
  } else if (sends || c.t.n == 1) {
    const Extent e = part(bytes, cache_line, s.index, s.count);
    if (dest != source) spread(source, dest, e, 1, scope, [&](int) { return dest; });
  } else {
    // Each of the other members fetches a part and hands it on, so that the root's link carries
    // everything once.
    const int turn = c.t.me < root ? c.t.me : c.t.me - 1;
    const Extent mine = part(bytes, cache_line, turn, c.t.n - 1);
    const Extent e = part(mine, cache_line, s.index, s.count);
    spread(source_at(c, source, c.pe(root)), dest, e, c.t.n, scope, [&](int k) {
      const int i = c.peer(k);
      return i == root ? nullptr : dest_at(c, dest, c.pe(i));
    });
  }
  go<Stored::by_scope>(c, s, scope);
}

template <class Scope>
SHMEM_D_ void fcollect(Channel &c, const Slice &s, char *dest, const char *source, size_t bytes,
                       Scope scope) {
  const Extent e = part(bytes, cache_line, s.index, s.count);
  if (s.algorithm == CollectiveAlgorithm::lines)
    return pass_blocks(c, scope, dest, bytes, e, {source, 0, 0});
  come(c, s, scope);
  give_all(c, s, dest + size_t(c.t.me) * bytes, source, e, scope);
  go<Stored::by_scope>(c, s, scope);
}

// Begins the first round of a collective whose members then store into each other's dest.
template <class Scope> SHMEM_D_ void begin_rounds(Channel &c, const Slice &s, Scope scope) {
  use_head(c);
  if (s.stored == Stored::by_stream)
    begin_round<Stored::by_stream>(c, scope);
  else
    begin_round<Stored::by_scope>(c, scope);
}

// Members tell each other by lines how many bytes they have.
template <class Scope>
SHMEM_D_ void collect(Channel &c, const Slice &s, char *dest, const char *source, size_t bytes,
                      Scope scope) {
  begin_rounds(c, s, scope);
  for (int k = int(scope.rank()); k < c.t.n; k += int(scope.size()))
    send(c, c.peer(k), 0, pack_of(bytes));
  size_t before = 0;
  receive_all(c, 0, [&](int i, Pack v) {
    if (i < c.t.me) before += word_of(v);
  });
  give_all(c, s, dest + before, source, part(bytes, cache_line, s.index, s.count), scope);
  leave<Stored::by_scope>(c, scope);
}

template <class Scope>
SHMEM_D_ void alltoall(Channel &c, const Slice &s, char *dest, const char *source, size_t bytes,
                       Scope scope) {
  if (s.algorithm == CollectiveAlgorithm::lines)
    return pass_blocks(c, scope, dest, bytes, part(bytes, cache_line, s.index, s.count),
                       {source, bytes, 0});
  come(c, s, scope);
  const Extent e = part(bytes, cache_line, s.index, s.count);
  const auto give = [&](int i, auto threads) {
    const char *const from = source + size_t(i) * bytes + e.from;
    store_at(c, c.pe(i), dest + size_t(c.t.me) * bytes + e.from, from, one_block(e.to - e.from),
             threads, [&](char *to) { copy<Remote::dest, 1>(to, from, e.to - e.from, threads); });
  };
  // Short blocks go out side by side. One after the other, a thread waits for the stores of a block
  // before it has the load of the next (CDNA). Computed for 8 MI250X (2026-11-28), us side by side
  // and one after the other: 4 KiB 16.9 and 22.7, 256 KiB 20.8 and 23.5, 2 MiB 28.6 and 24.3.
  const unsigned each = scope.size() / unsigned(c.t.n);
  if (!may_be_remote(c.t) && each && bytes <= size_t(512) * each &&
      e.to - e.from <= size_t(128) * each) {
    const unsigned k = scope.rank() / each;
    if (k < unsigned(c.t.n)) give(c.peer(int(k)), Threads{scope.rank() - k * each, each});
    return go<Stored::by_scope>(c, s, scope);
  }
  int i = before_first(c, s); // a division in the loop would keep its numbers through it
  for (int k = 0; k < c.t.n; k++) {
    i = c.peer_after(i);
    give(i, scope);
  }
  go<Stored::by_scope>(c, s, scope);
}

// Copies rows by words, side by side in rows that are long enough for that. Each thread has words
// of several rows in flight.
template <class W, class Scope>
SHMEM_D_ void copy_rows(char *d, const char *s, const Block2d &b, Scope scope) {
  const size_t words = b.bytes / sizeof(W);
  const unsigned size = scope.size(), rank = scope.rank();
  unsigned log = 0;
  while (2u << log <= size && size_t(1) << log < words) log++;
  const unsigned across = 1u << log;
  const Threads column{rank >> log, size >> log}; // those with the same place in different rows
  if (column.number >= column.count) return;
  for (size_t w = rank & (across - 1); w < words; w += across)
    copy_words<Remote::dest>(reinterpret_cast<W *>(d) + w, reinterpret_cast<const W *>(s) + w,
                             b.rows, column, size_t(b.dest_row) / sizeof(W),
                             size_t(b.source_row) / sizeof(W));
}
// The numbers of b are new here: before a loop over the members compilers would compute what each
// kind of word makes of them, and keep all that in scalar registers.
template <class Scope> SHMEM_D_ void copy_rows(char *d, const char *s, Block2d b, Scope scope) {
  b.bytes = anew(scope, b.bytes), b.rows = anew(scope, b.rows);
  b.dest_row = anew(scope, b.dest_row), b.source_row = anew(scope, b.source_row);
  const uintptr_t all = reinterpret_cast<uintptr_t>(d) | reinterpret_cast<uintptr_t>(s) | b.bytes |
                        uintptr_t(b.dest_row) | uintptr_t(b.source_row);
  if (all % 16 == 0)
    copy_rows<Pack>(d, s, b, scope);
  else if (all % 8 == 0)
    copy_rows<uint64_t>(d, s, b, scope);
  else if (all % 4 == 0)
    copy_rows<uint32_t>(d, s, b, scope);
  else if (all % 2 == 0)
    copy_rows<uint16_t>(d, s, b, scope);
  else
    copy_rows<uint8_t>(d, s, b, scope);
}
// A slice is a part of each block's rows, or of each row where there are fewer rows than slices.
template <class Scope>
SHMEM_D_ void alltoall2d(Channel &c, const Slice &s, char *dest, const char *source, Block2d b,
                         Scope scope) {
  come(c, s, scope);
  if (b.rows >= s.count) {
    const Extent e = part(b.rows, 1, s.index, s.count);
    dest += ptrdiff_t(e.from) * b.dest_row, source += ptrdiff_t(e.from) * b.source_row;
    b.rows = e.to - e.from;
  } else {
    const Extent e = part(b.bytes, cache_line, s.index, s.count);
    dest += e.from, source += e.from;
    b.bytes = e.to - e.from;
  }
  dest += c.t.me * b.dest_block;
  int i = before_first(c, s); // a division in the loop would keep its numbers through it
  for (int k = 0; k < c.t.n; k++) {
    i = c.peer_after(i);
    const char *const from = source + i * anew(scope, b.source_block);
    store_at(c, anew(scope, c).pe(i), dest, from,
             {b.bytes, b.rows, uint64_t(b.dest_row), uint64_t(b.source_row)}, scope,
             [&](char *to) { copy_rows(to, from, b, scope); });
  }
  leave<Stored::by_scope>(c, scope);
}

// The answer to a member whose block has no place in dest.
inline constexpr uint64_t no_place = ~uint64_t(0);

// In a first round of lines each member tells each other the size of its block for it. In a second
// one it hears the place of its block in dest, and then stores the block there. place(i, count,
// mine): the place of member i's block, or no_place; all threads call it in the order of the
// members, and `mine` is true for one of them.
template <class Scope, class Place>
SHMEM_D_ void alltoallv(Channel &c, const Slice &s, char *dest, const char *source, const Uneven &u,
                        Scope scope, Place place) {
  begin_rounds(c, s, scope);
  for (int k = int(scope.rank()); k < c.t.n; k += int(scope.size())) {
    const int i = c.peer(k);
    send(c, i, 0, pack_of(arch::load_global(u.counts + i)));
  }
  // The first round's lines are still there in the second one: the next round after it begins when
  // all have left this collective.
  begin_round(c, scope);
  Channel told = c;
  told.epoch--;
  int mine = int(scope.rank());
  receive_all(told, 0, [&](int i, Pack v) {
    const uint64_t at = place(i, word_of(v), i == mine);
    if (i != mine) return;
    send(c, i, 0, pack_of(at));
    mine += int(scope.size());
  });
  int i = before_first(c, s); // a division in the loop would keep its numbers through it
  for (int k = 0; k < c.t.n; k++) {
    i = c.peer_after(i);
    Pack v[1];
    receive(c, i, 0, v);
    const uint64_t at = anew(scope, word_of(v[0]));
    if (at == no_place) continue;
    const Extent e = part(anew(scope, uint64_t(arch::load_global(u.counts + i))) * u.unit,
                          cache_line, s.index, s.count);
    const char *from =
        source + anew(scope, uint64_t(arch::load_global(u.offsets + i))) * u.unit + e.from;
    store_at(c, c.pe(i), dest + at * u.unit + e.from, from, one_block(e.to - e.from), scope,
             [&](char *to) { copy<Remote::dest, 1>(to, from, e.to - e.from, scope); });
  }
  leave<Stored::by_scope>(c, scope);
}
// Blocks lie one behind the other, in the order of the members. A block that would end behind the
// capacity is not stored.
template <class Scope>
SHMEM_D_ void alltoallv(Channel &c, const Slice &s, char *dest, const char *source, const Uneven &u,
                        Scope scope) {
  uint64_t end = 0;
  const bool tells = s.index == 0;
  alltoallv(c, s, dest, source, u, scope, [&](int i, uint64_t count, bool mine) {
    const uint64_t at = end;
    end = at + count < at ? no_place : at + count;
    if (tells && mine) {
      arch::store_global(u.recv_counts + i, size_t(count));
      arch::store_global(u.recv_offsets + i, size_t(at));
      if (i == c.t.n - 1) arch::store_global(u.recv_offsets + c.t.n, size_t(end));
    }
    return end <= u.capacity ? at : no_place;
  });
}

// Elements as `words` words of W: one of their size, or two words of 8 bytes for 16.
template <class W, class Scope>
SHMEM_D_ void alltoalls_words(const Channel &c, const Slice &s, char *dest, const char *source,
                              ptrdiff_t dst, ptrdiff_t sst, size_t n, int words, Scope scope) {
  const Extent e = part(n, 1, s.index, s.count);
  int i = before_first(c, s); // a division in the loop would keep its numbers through it
  for (int k = 0; k < c.t.n; k++) {
    i = c.peer_after(i);
    const W *const from =
        reinterpret_cast<const W *>(source) + (size_t(i) * n + e.from) * size_t(sst * words);
    W *const to = reinterpret_cast<W *>(dest) + (size_t(c.t.me) * n + e.from) * size_t(dst * words);
    const size_t unit = sizeof(W) * unsigned(words);
    store_at(c, c.pe(i), reinterpret_cast<char *>(to), reinterpret_cast<const char *>(from),
             {unit, e.to - e.from, size_t(dst) * unit, size_t(sst) * unit}, scope,
             [&](char *there) {
               for (int w = 0; w < words; w++)
                 copy_words<Remote::dest>(reinterpret_cast<W *>(there) + w, from + w, e.to - e.from,
                                          scope, size_t(dst * words), size_t(sst * words));
             });
  }
}
template <class Scope>
SHMEM_D_ void alltoalls(Channel &c, const Slice &s, char *dest, const char *source, ptrdiff_t dst,
                        ptrdiff_t sst, size_t n, size_t unit, Scope scope) {
  come(c, s, scope);
  if (unit >= 8)
    alltoalls_words<uint64_t>(c, s, dest, source, dst, sst, n, int(unit / 8), scope);
  else if (unit == 4)
    alltoalls_words<uint32_t>(c, s, dest, source, dst, sst, n, 1, scope);
  else if (unit == 2)
    alltoalls_words<uint16_t>(c, s, dest, source, dst, sst, n, 1, scope);
  else
    alltoalls_words<uint8_t>(c, s, dest, source, dst, sst, n, 1, scope);
  go<Stored::by_scope>(c, s, scope);
}

} // namespace shmem::device

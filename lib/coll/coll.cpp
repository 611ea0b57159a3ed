// SPDX-License-Identifier: MIT
#include "coll.hpp"
#include "../../device/pattern.hpp"
#include "../log.hpp"
#include <algorithm>
#include <iterator>
#include <utility>

namespace shmem::coll {

namespace {

using bytes_t = unsigned char;

// Member i's object that is at p here.
bytes_t *of(const char *fn, const char *arg, const Team &t, int i, const void *p, size_t bytes) {
  return at(fn, arg, static_cast<bytes_t *>(const_cast<void *>(p)), bytes, t.pe(i));
}

// How the data of a broadcast goes: on the line of its flag; beside that; by
// the root's stores to all; by everybody's loads, and a barrier so that the root may go on.
enum How { in_flag, beside, push, pull };
How how_to_cast(const Team &t, size_t bytes) {
  if (bytes <= sizeof Outbox::Flag::few) return in_flag;
  const size_t all = bytes * size_t(t.n - 1);
  if (self.oversubscribed)
    return all <= push_shared ? push : bytes <= sizeof Outbox::Data::bytes ? beside : pull;
  return (t.n == 2 ? bytes <= push_two : bytes <= push_each && all <= push_all) ? push : pull;
}

// A root is about to write where broadcast number cast was, or an earlier one.
[[gnu::noinline]] void wait_done(Team &t, uint64_t cast) {
  uint64_t least = t.casts;
  for (int k = 1; k < t.n; k++) {
    auto &done = outbox(t, pattern::peer(t.me, k, t.n)).done;
    wait_while({&done, true}, [&] { return done.load(std::memory_order_acquire) < cast; });
    least = std::min(least, done.load(std::memory_order_acquire));
  }
  t.done = least;
}
void tell_done(Team &t, uint64_t cast) {
  auto &done = outbox(t, t.me).done;
  done.store(cast, std::memory_order_seq_cst); // after the last look; ring's load must not pass it
  ring({&done, true});
}

} // namespace

void check(const char *fn, const void *dest, size_t dest_bytes, const void *source,
           size_t source_bytes, size_t align, bool in_place) {
  check_symmetric(fn, "dest", dest, dest_bytes, align);
  check_symmetric(fn, "source", source, source_bytes, align);
  auto d = uintptr_t(dest), s = uintptr_t(source);
  if (in_place && d == s) return;
  if (dest_bytes && source_bytes && d < s + source_bytes && s < d + dest_bytes)
    fatal("%s: dest = %p: overlaps source = %p", fn, dest, source);
}

void check_root(const char *fn, const Team &t, int root) {
  if (unsigned(root) >= unsigned(t.n))
    fatal("%s: PE_root = %d: the team has PEs 0 to %d", fn, root, t.n - 1);
}

void broadcast(const char *fn, Team &t, void *dest, const void *source, size_t bytes, int root,
               bool root_too) {
  check_root(fn, t, root);
  if (self.check) {
    check(fn, dest, bytes, source, bytes, 1, true);
    // What everyone takes, though the specification has no broadcast in place.
    static Note note;
    if (dest == source && bytes && t.me == root)
      note("%s: dest = %p: is source too, which other libraries need not take", fn, dest);
  }
  if constexpr (net::built)
    if (t.nodes) return broadcast_nodes(fn, t, dest, source, bytes, root, root_too);
  const uint64_t cast = ++t.casts;
  Outbox &box = outbox(t, root);
  auto &flag = box.flags[cast % std::size(box.flags)];
  const How how = how_to_cast(t, bytes);
  uint64_t before = cast < std::size(box.flags) ? 0 : cast - std::size(box.flags);
  void *shown = how == in_flag ? flag.few : nullptr;
  if (how == beside) {
    const size_t place = t.datas++ % std::size(box.data);
    before = std::max(before, std::exchange(t.data[place], cast));
    shown = box.data[place].bytes;
  }
  if (t.me == root) {
    if (before > t.done) wait_done(t, before);
    if (shown) copy(shown, source, bytes);
    for (int k = 1; k < t.n && how == push; k++)
      copy(of(fn, "dest", t, pattern::peer(t.me, k, t.n), dest, bytes), source, bytes);
    flag.cast.store(cast, std::memory_order_seq_cst); // publishes; ring's load must not pass it
    ring({&flag, true});
    if (root_too && dest != source) copy(dest, source, bytes);
  } else {
    wait_while({&flag, true}, [&] { return flag.cast.load(std::memory_order_acquire) != cast; });
    if (shown) copy(dest, shown, bytes);
    if (how == pull) copy(dest, of(fn, "source", t, root, source, bytes), bytes);
  }
  if (how == pull) sync(t); // the root's source may change once all have read it
  // Twice for each time that a place comes round, so that nobody waits for what is not told.
  if (cast % (std::size(box.flags) / 2) == 0 ||
      (how == beside && t.datas % (std::size(box.data) / 2) == 0))
    tell_done(t, cast);
}

void fcollect(const char *fn, Team &t, void *dest, const void *source, size_t bytes) {
  if (self.check) check(fn, dest, bytes * t.n, source, bytes, 1, false);
  auto *d = static_cast<bytes_t *>(dest);
  if (bytes < staged_block && !t.nodes)
    return exchange_data(t, static_cast<const bytes_t *>(source), bytes,
                         [=](int i, const bytes_t *in) { copy(d + i * bytes, in, bytes); });
  for (int k = 0; k < t.n; k++) {
    int i = pattern::peer(t.me, k, t.n);
    push_to(fn, t, i, d + t.me * bytes, source, bytes);
  }
  arrive(t);
}

void collect(const char *fn, Team &t, void *dest, const void *source, size_t bytes) {
  if (self.check) {
    size_t total = 0;
    exchange_value(t, bytes, [&](int, size_t theirs) { total += theirs; });
    check(fn, dest, total, source, bytes, 1, false);
  }
  if constexpr (net::built)
    if (t.nodes) {
      size_t before = 0;
      exchange_value(t, bytes, [&](int i, size_t theirs) { before += i < t.me ? theirs : 0; });
      for (int k = 0; k < t.n; k++)
        push_to(fn, t, pattern::peer(t.me, k, t.n), static_cast<bytes_t *>(dest) + before, source,
                bytes);
      return arrive(t);
    }
  // Each shows its size, and a small block with it; where all are small, that is all.
  struct Shown {
    size_t bytes;
    bytes_t block[sizeof Stage::few - sizeof(size_t)];
  };
  constexpr size_t small = sizeof Shown::block;
  auto shown = [](Stage &s) { return reinterpret_cast<Shown *>(s.few); };
  auto *d = static_cast<bytes_t *>(dest);
  size_t before = 0, total = 0;
  bool large = false;
  auto fill = [=](Stage &s) {
    shown(s)->bytes = bytes;
    if (bytes <= small) copy(shown(s)->block, source, bytes);
  };
  exchange(t, fill, [&](int i, Stage &s) {
    size_t theirs = shown(s)->bytes;
    if (theirs <= small)
      copy(d + total, shown(s)->block, theirs);
    else
      large = true;
    if (i < t.me) before += theirs;
    total += theirs;
  });
  for (int k = 0; k < t.n && bytes > small; k++) {
    int i = pattern::peer(t.me, k, t.n);
    copy(of(fn, "dest", t, i, dest, total) + before, source, bytes);
  }
  if (large) sync(t);
}

void alltoall(const char *fn, Team &t, void *dest, const void *source, size_t bytes) {
  if (self.check) check(fn, dest, bytes * t.n, source, bytes * t.n, 1, false);
  auto *d = static_cast<bytes_t *>(dest);
  if (bytes < staged_block && bytes * t.n <= stage_bytes && !t.nodes)
    return exchange_data(
        t, static_cast<const bytes_t *>(source), bytes * t.n,
        [=, &t](int i, const bytes_t *in) { copy(d + i * bytes, in + t.me * bytes, bytes); });
  for (int k = 0; k < t.n; k++) {
    int i = pattern::peer(t.me, k, t.n);
    push_to(fn, t, i, d + t.me * bytes, static_cast<const bytes_t *>(source) + i * bytes, bytes);
  }
  arrive(t);
}

} // namespace shmem::coll

// SPDX-License-Identifier: MIT
// Broadcast among members that share memory.
#include "coll.hpp"
#include <algorithm>
#include <iterator>
#include <utility>

namespace shmem::coll {

namespace {

// How the data of a broadcast travels: on the line of its flag; in a place beside the flags; by the
// root's stores to all; or by loads of all members, and a barrier before the root may go on.
enum How { in_flag, beside, push, pull };
How how_to_cast(const Team &t, size_t bytes) {
  if (bytes <= sizeof Outbox::CastFlag::few) return in_flag;
  const size_t all = bytes * size_t(t.n - 1);
  if (self.oversubscribed)
    return all <= push_shared ? push : bytes <= sizeof Outbox::Data::bytes ? beside : pull;
  return (t.n == 2 ? bytes <= push_two : bytes <= push_each && all <= push_all) ? push : pull;
}

// Waits until all members are done with broadcast number cast, because the root is about to write
// over it.
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
  done.store(cast, std::memory_order_seq_cst); // after the last look, before wake_at's load
  wake_at({&done, true});
}

} // namespace

void broadcast_here(const char *fn, Team &t, void *dest, const void *source, size_t bytes, int root,
                    bool root_too) {
  auto *const to = static_cast<std::byte *>(dest);
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
      copy(at(fn, "dest", to, bytes, t.pe(pattern::peer(t.me, k, t.n))), source, bytes);
    flag.cast.store(cast, std::memory_order_seq_cst); // publishes, before wake_at's load
    wake_at({&flag, true});
    if (root_too && dest != source) copy(to, source, bytes);
  } else {
    wait_while({&flag, true}, [&] { return flag.cast.load(std::memory_order_acquire) != cast; });
    if (shown) copy(to, shown, bytes);
    if (how == pull)
      copy(to, at(fn, "source", static_cast<const std::byte *>(source), bytes, t.pe(root)), bytes);
  }
  if (how == pull) sync_here(t); // the root's source may change once all have read it
  // Each member tells twice before a place is used again, so that no root waits in vain.
  if (cast % (std::size(box.flags) / 2) == 0 ||
      (how == beside && t.datas % (std::size(box.data) / 2) == 0))
    tell_done(t, cast);
}

} // namespace shmem::coll

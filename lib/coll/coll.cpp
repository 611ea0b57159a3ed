// SPDX-License-Identifier: MIT
#include "coll.hpp"
#include "../../device/pattern.hpp"
#include "../log.hpp"
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace shmem::coll {

namespace {

using bytes_t = unsigned char;

// Member i's object that is at p here.
bytes_t *of(const char *fn, const char *arg, const Team &t, int i, const void *p, size_t bytes) {
  return at(fn, arg, static_cast<bytes_t *>(const_cast<void *>(p)), bytes, t.pe(i));
}

// How the data of a broadcast travels: on the line of its flag; in a place beside the flags; by the
// root's stores to all; or by everybody's loads, and a barrier before the root may go on.
enum How { in_flag, beside, push, pull };
How how_to_cast(const Team &t, size_t bytes) {
  if (bytes <= sizeof Outbox::Flag::few) return in_flag;
  const size_t all = bytes * size_t(t.n - 1);
  if (self.oversubscribed)
    return all <= push_shared ? push : bytes <= sizeof Outbox::Data::bytes ? beside : pull;
  return (t.n == 2 ? bytes <= push_two : bytes <= push_each && all <= push_all) ? push : pull;
}

// Waits until all members are done with broadcast number cast, because the root is about to write
// where it was.
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

// Whether the GPU has done it: see team_stream.
[[gnu::cold]] bool move_far(Collective what, const char *fn, Team &t, void *dest,
                            const void *source, size_t bytes, int root) {
  const stream::Stream own = team_stream(t, dest, source, bytes);
  if (!own) return false;
  stream::move(fn, what, handle_of(t), dest, source, bytes, 1, root, own);
  gpu::wait(own);
  return true;
}

// Each member i gets what is at source + i * step here, and has it in block me of its dest.
[[gnu::always_inline]] inline void exchange_blocks(Collective what, const char *fn, Team &t,
                                                   void *dest, const void *source, size_t step,
                                                   size_t bytes) {
  const size_t all = bytes * size_t(t.n), shown = step ? all : bytes;
  if (self.careful) [[unlikely]] {
    if (self.check) check_arrays(fn, dest, all, source, shown, 1, false);
    if (bytes && move_far(what, fn, t, dest, source, bytes, 0)) return;
  }
  auto *d = static_cast<bytes_t *>(dest);
  if (bytes < staged_block && shown <= stage_bytes && !t.nodes)
    return exchange_data(t, static_cast<const bytes_t *>(source), shown,
                         [=, &t](int i, const bytes_t *in) {
                           copy(d + size_t(i) * bytes, in + size_t(t.me) * step, bytes);
                         });
  if constexpr (net::built)
    if (t.nodes && !gpu::is_far(dest) && !gpu::is_far(source))
      return step ? alltoall_nodes(fn, t, dest, source, bytes)
                  : collect_nodes(fn, t, dest, source, {nullptr, bytes});
  push_to_members(fn, t, d + size_t(t.me) * bytes, source, step, bytes);
  arrive(t);
}

} // namespace

void push_to_members(const char *fn, const Team &t, void *dest, const void *source, size_t step,
                     size_t bytes) {
  for (int k = 0; k < t.n; k++) {
    const int i = pattern::peer(t.me, k, t.n);
    const auto *from = static_cast<const bytes_t *>(source) + size_t(i) * step;
    if constexpr (net::built)
      if (local_of(t.pe(i)) < 0) {
        net::put({dest, t.pe(i)}, from, {bytes}, true);
        continue;
      }
    copy(of(fn, "dest", t, i, dest, bytes), from, bytes);
  }
}

stream::Stream team_stream(Team &t, const void *dest, const void *source, size_t n) {
  if (!gpu::is_far(dest) || t.n == 1 || t.nodes) return nullptr;
  // To kernels the predefined team of the node is the world, whose channels two must not use at
  // once.
  if (t.id >= gpu::channels().teams || &t == self.shared) return nullptr;
  bool far = !n || gpu::is_far(source);
  exchange_value(t, far, [&](int, bool theirs) { far &= theirs; });
  return far ? gpu::team_stream(t.id) : nullptr;
}

void broadcast(const char *fn, Team &t, void *dest, const void *source, size_t bytes, int root,
               bool root_too) {
  check_root(fn, t, root);
  if (self.careful) [[unlikely]] {
    if (self.check) {
      check_arrays(fn, dest, bytes, source, bytes, 1, true);
      // It works everywhere, though the specification has no broadcast in place.
      static Note note;
      if (dest == source && bytes && t.me == root)
        note("%s: dest = %p: is source too, which other libraries need not take", fn, dest);
    }
    if constexpr (net::built)
      if (t.nodes) return broadcast_nodes(fn, t, dest, source, bytes, root, root_too);
    // Streams store into the root's dest too, where an active set leaves it as it is.
    if (bytes && root_too && move_far(Collective::broadcast, fn, t, dest, source, bytes, root))
      return;
  }
  broadcast_here(fn, t, dest, source, bytes, root, root_too);
}

void broadcast_here(const char *fn, Team &t, void *dest, const void *source, size_t bytes, int root,
                    bool root_too) {
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
  // Tells twice before a place is used again, so that no root waits for what nobody tells.
  if (cast % (std::size(box.flags) / 2) == 0 ||
      (how == beside && t.datas % (std::size(box.data) / 2) == 0))
    tell_done(t, cast);
}

void fcollect(const char *fn, Team &t, void *dest, const void *source, size_t bytes) {
  exchange_blocks(Collective::fcollect, fn, t, dest, source, 0, bytes);
}
void alltoall(const char *fn, Team &t, void *dest, const void *source, size_t bytes) {
  exchange_blocks(Collective::alltoall, fn, t, dest, source, bytes, bytes);
}

void collect(const char *fn, Team &t, void *dest, const void *source, size_t bytes) {
  if (self.careful) [[unlikely]] {
    if (self.check) {
      size_t total = 0;
      exchange_value(t, bytes, [&](int, size_t theirs) { total += theirs; });
      check_arrays(fn, dest, total, source, bytes, 1, false);
    }
    if (move_far(Collective::collect, fn, t, dest, source, bytes, 0)) return;
  }
  auto *d = static_cast<bytes_t *>(dest);
  if constexpr (net::built)
    if (t.nodes) {
      struct Told {
        size_t bytes;
        bool far; // of what is collected, as one that collects nothing may pass any source
      };
      std::vector<size_t> ends(size_t(t.n));
      size_t end = 0;
      bool far = gpu::is_far(dest);
      exchange_value(t, Told{bytes, bytes && gpu::is_far(source)}, [&](int i, const Told &theirs) {
        ends[size_t(i)] = end += theirs.bytes;
        far |= theirs.far;
      });
      const Blocks blocks{ends.data(), 0};
      if (!far) return collect_nodes(fn, t, dest, source, blocks);
      push_to_members(fn, t, d + blocks.at(t.me), source, 0, bytes);
      return arrive(t);
    }
  // Each shows its size, and a small block with it; if all blocks are small, that is all.
  struct Shown {
    size_t bytes;
    bytes_t block[sizeof Stage::few - sizeof(size_t)];
  };
  constexpr size_t small = sizeof Shown::block;
  auto shown = [](Stage &s) { return reinterpret_cast<Shown *>(s.few); };
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
  if (bytes > small) push_to_members(fn, t, d + before, source, 0, bytes);
  if (large) sync(t);
}

} // namespace shmem::coll

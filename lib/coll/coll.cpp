// SPDX-License-Identifier: MIT
#include "coll.hpp"
#include "../../device/pattern.hpp"
#include "../gpu/heap.hpp"
#include "../gpu/teams.hpp"
#include "../log.hpp"
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace shmem::coll {

namespace {

using bytes_t = unsigned char;

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
  if (t.on_nodes() && !gpu::is_device_only(dest, source))
    return step ? alltoall_nodes(fn, t, dest, source, bytes)
                : collect_nodes(fn, t, dest, source, {nullptr, bytes});
  push_to_members(fn, t, d + size_t(t.me) * bytes, source, step, bytes);
  arrive(t);
}

} // namespace

stream::Stream team_stream(Team &t, const void *dest, const void *source, size_t n) {
  const auto is_object = [](const void *p) { return self.device_only && gpu::region(p); };
  if (!is_object(dest) || t.n == 1 || t.nodes) return nullptr;
  // To kernels the predefined team of the node is the world, whose channels two must not use at
  // once.
  if (t.id >= gpu::channels().teams || &t == self.shared) return nullptr;
  bool device_only = !n || is_object(source);
  exchange_value(t, device_only, [&](int, bool theirs) { device_only &= theirs; });
  return device_only ? gpu::team_stream(t.id) : nullptr;
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
    if (t.on_nodes()) return broadcast_nodes(fn, t, dest, source, bytes, root, root_too);
    // Streams store into the root's dest too, where an active set leaves it as it is.
    if (bytes && root_too && move_far(Collective::broadcast, fn, t, dest, source, bytes, root))
      return;
  }
  broadcast_here(fn, t, dest, source, bytes, root, root_too);
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
  if (t.on_nodes()) {
    struct Told {
      size_t bytes;
      bool device_only; // of what is collected, as one that collects nothing may pass any source
    };
    std::vector<size_t> ends(size_t(t.n));
    size_t end = 0;
    bool device_only = gpu::is_device_only(dest);
    exchange_value(t, Told{bytes, bytes && gpu::is_device_only(source)},
                   [&](int i, const Told &theirs) {
                     ends[size_t(i)] = end += theirs.bytes;
                     device_only |= theirs.device_only;
                   });
    const MemberBlocks blocks{ends.data(), 0};
    if (!device_only) return collect_nodes(fn, t, dest, source, blocks);
    push_to_members(fn, t, d + blocks.at(t.me), source, 0, bytes);
    return arrive(t);
  }
  // Each shows its size, and a small block with it; if all blocks are small, that is all.
  struct ShownBlock {
    size_t bytes;
    bytes_t block[sizeof Stage::few - sizeof(size_t)];
  };
  constexpr size_t small = sizeof ShownBlock::block;
  auto shown = [](Stage &s) { return reinterpret_cast<ShownBlock *>(s.few); };
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

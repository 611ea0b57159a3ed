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

uint64_t show(Team &t, const void *source, size_t bytes) {
  const auto fill = [=](Stage &s) {
    if (bytes) copy(shown(s, bytes), source, bytes);
  };
  exchange(t, fill, [](int, Stage &) {});
  return t.rounds;
}

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

// Member i gets the block at source + i * step here, as block me of its dest.
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
  // To kernels SHMEM_TEAM_SHARED is the world, and two teams must not use one channel at once.
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
      // In place works everywhere, though the specification has no broadcast in place.
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

namespace {

// Shows n words to all members, and calls take(i, w, word w of member i).
template <class Take> void exchange_words(Team &t, const size_t *words, size_t n, Take take) {
  constexpr size_t each = stage_bytes / sizeof *words;
  std::vector<size_t> all;
  for (size_t from = 0; from < n; from += each) {
    const size_t m = std::min(each, n - from);
    const auto row = [&](int i, const size_t *theirs) {
      for (size_t w = 0; w < m; w++) take(i, from + w, theirs[w]);
    };
    if (t.on_nodes()) {
      all.resize(m * size_t(t.n));
      exchange_nodes(t, words + from, m * sizeof *words, all.data());
      for (int i = 0; i < t.n; i++) row(i, all.data() + size_t(i) * m);
    } else {
      exchange_data(t, words + from, m, row);
    }
  }
}

} // namespace

void alltoallv(const char *fn, Team &t, void *dest, const void *source, const Uneven &u,
               size_t align) {
  const size_t capacity_bytes = check_uneven(fn, u);
  if (self.check) check_symmetric(fn, "dest", dest, capacity_bytes, align);
  // The arrays may be in device-only memory.
  const auto n = size_t(t.n), me = size_t(t.me);
  std::vector<size_t> told(1 + n), offsets(n), recv_counts(n), recv_offsets(1 + n);
  told[0] = u.capacity;
  copy(&told[1], u.counts, n * sizeof(size_t));
  copy(offsets.data(), u.offsets, n * sizeof(size_t));
  // Each member tells all its room and the sizes of its blocks for each, so each knows where its
  // blocks go.
  std::vector<size_t> room(n), before(n);
  const auto add = [](size_t a, size_t b) { return a + b < a ? SIZE_MAX : a + b; };
  exchange_words(t, told.data(), 1 + n, [&](int i, size_t w, size_t word) {
    if (w == 0)
      room[size_t(i)] = word;
    else if (i < t.me)
      before[w - 1] = add(before[w - 1], word);
    if (w == 1 + me) recv_counts[size_t(i)] = word;
  });
  for (size_t i = 0; i < n; i++) recv_offsets[i + 1] = add(recv_offsets[i], recv_counts[i]);
  copy(u.recv_counts, recv_counts.data(), n * sizeof(size_t));
  copy(u.recv_offsets, recv_offsets.data(), (1 + n) * sizeof(size_t));
  for (int k = 0; k < t.n; k++) {
    const auto i = size_t(pattern::peer(t.me, k, t.n));
    const size_t count = told[1 + i], bytes = count * u.unit;
    if (!count || add(before[i], count) > room[i]) continue;
    const auto *const from = static_cast<const std::byte *>(source) + offsets[i] * u.unit;
    access(fn, "dest", World{}, static_cast<std::byte *>(dest) + before[i] * u.unit, bytes,
           t.pe(int(i)), no_other, [=](auto d) { d.push(from, bytes); });
  }
  arrive(t);
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
      bool device_only; // is source, if it has bytes: a member that gives none may pass any source
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

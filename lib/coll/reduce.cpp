// SPDX-License-Identifier: MIT
#include "reduce.hpp"
#include "../../device/pattern.hpp"
#include "../gpu/heap.hpp"
#include <algorithm>
#include <memory>

namespace shmem::coll {

namespace {

// The bytes that a member combines at a time: with the operands they fit the first-level cache. For
// device memory they are worth a copy by the GPU, which takes microseconds to start.
constexpr size_t block_bytes = 4096, device_block_bytes = 256 << 10;

// Whether the GPU has done it: see team_stream.
[[gnu::cold]] bool reduce_device_only(const Combine &by, const char *fn, Team &t, void *dest,
                                      const void *source, size_t n, Shape shape) {
  const stream::Stream own = by.type && n ? team_stream(t, dest, source, n) : nullptr;
  if (!own) return false;
  stream::reduce(fn, by.op, *by.type, shape, handle_of(t), dest, source, n, by.size, by.align, own);
  gpu::wait(own);
  return true;
}

// Small: every member combines all sources.
void reduce_staged(const Combine &by, Team &t, void *dest, const void *source, size_t n,
                   Shape shape) {
  const size_t bytes = n * by.size;
  alignas(cache_line) char here[staged_bytes];
  void *const acc = gpu::is_device_only(dest) ? here : dest;
  exchange_data(t, static_cast<const char *>(source), bytes,
                [&](int i, const char *in) { take(by.with, shape, acc, in, n, by.size, i, t.me); });
  if (acc == here) copy(dest, here, bytes);
}

// Large: each combines a part for all, from the sources, and pushes the results. In place is fine:
// only this member reads this part of any source.
void combine_parts(const Combine &by, const char *fn, Team &t, void *dest, const void *source,
                   size_t n, Shape shape) {
  const bool scan = shape != Shape::all, device_only = gpu::is_device_only(dest, source);
  const size_t bytes = n * by.size, step = device_only ? device_block_bytes : block_bytes;
  alignas(cache_line) char here[2 * block_bytes];
  const std::unique_ptr<char[]> large(device_only ? new char[2 * step] : nullptr);
  char *const acc = device_only ? large.get() : here, *const in = acc + step;
  sync(t); // the sources are ready
  const auto [from, to] = pattern::part(n, 64, unsigned(t.me), unsigned(t.n));
  for (size_t b = from * by.size; b < to * by.size; b += step) {
    const size_t m = std::min(to * by.size - b, step), elements = m / by.size;
    auto theirs = [&](int i) {
      return at(fn, "source", static_cast<const char *>(source), bytes, t.pe(i)) + b;
    };
    // No thread waits on these buffers, so memcpy does where the CPU reaches the source.
    auto fetch = [&](char *to, int i) {
      device_only ? copy(to, theirs(i), m) : void(memcpy(to, theirs(i), m));
    };
    auto push = [&](int i) {
      copy(at(fn, "dest", static_cast<char *>(dest), bytes, t.pe(i)) + b, acc, m);
    };
    if (scan) {
      memset(acc, 0, m);
      for (int i = 0; i < t.n; i++) {
        fetch(in, i); // before dest, which may be it
        if (shape == Shape::exscan) push(i);
        by.with(acc, in, elements);
        if (shape == Shape::inscan) push(i);
      }
    } else {
      fetch(acc, 0);
      for (int i = 1; i < t.n; i++) {
        if (device_only) fetch(in, i);
        by.with(acc, device_only ? in : theirs(i), elements);
      }
      for (int k = 0; k < t.n; k++) push(pattern::peer(t.me, k, t.n));
    }
  }
  sync(t); // the results are there
}

} // namespace

void reduce_any(const Combine &by, const char *fn, Team &t, void *dest, const void *source,
                size_t n, Shape shape) {
  const size_t bytes = n * by.size;
  if (self.check) check_arrays(fn, dest, bytes, source, bytes, by.align, true);
  if (t.on_nodes()) return combine_nodes(by, fn, t, dest, source, n, shape);
  if (shape == Shape::all && t.n == 1) {
    if (dest != source) copy(dest, source, bytes);
  } else if (self.device_only && reduce_device_only(by, fn, t, dest, source, n, shape)) {
    return;
  } else if (bytes <= staged_bytes) {
    reduce_staged(by, t, dest, source, n, shape);
  } else {
    combine_parts(by, fn, t, dest, source, n, shape);
  }
}

} // namespace shmem::coll

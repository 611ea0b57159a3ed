// SPDX-License-Identifier: MIT
#include "buffer.hpp"
#include "../log.hpp"
#include <algorithm>
#include <iterator>

namespace shmem::buffer {

Buffer buffers[most];

namespace {

// The addresses of the buffers, ascending. A reader that meets a writer begins again: version is
// odd then, or another one afterwards. The loads acquire, so the second look at version is last.
struct {
  struct {
    std::atomic<uintptr_t> base, end;
    std::atomic<int> index;
  } entry[most];
  std::atomic<int> count, on_devices;
  std::atomic<unsigned> version;
} sorted;

// The buffer that has p, of this PE or of a peer as it is mapped here, and this PE's own address of the
// same object. Of buffers in host memory the peers' are not looked at, unless `hosts`.
struct OwnAddress {
  const Region *region;
  uintptr_t at;
};
OwnAddress find_mapped(const void *p, bool hosts) {
  if (const Region *r = find(p)) return {r, uintptr_t(p)};
  for (int k = 0, n = sorted.count.load(); k < n; k++) {
    const Region &r = buffers[sorted.entry[k].index.load()].region;
    if (const int i = hosts || r.row ? holder(r, p) : -1; i >= 0)
      return {&r, uintptr_t(p) - r.delta[i]};
  }
  return {nullptr, 0};
}

} // namespace

std::vector<int> index_addresses() {
  std::vector<int> order, on_gpu;
  for (int i = 0; i < most; i++)
    if (buffers[i].handle) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [](int a, int b) { return buffers[a].region.base < buffers[b].region.base; });
  std::copy_if(order.begin(), order.end(), std::back_inserter(on_gpu),
               [](int i) { return buffers[i].device; });
  sorted.version.fetch_add(1);
  for (size_t k = 0; k < order.size(); k++) {
    const Interval r = buffers[order[k]].bytes();
    auto &[base, end, index] = sorted.entry[k];
    base.store(r.from), end.store(r.to), index.store(order[k]);
  }
  sorted.count.store(int(order.size())), sorted.on_devices.store(int(on_gpu.size()));
  sorted.version.fetch_add(1);
  return on_gpu;
}

const Region *find(const void *p) {
  for (;;) {
    const unsigned before = sorted.version.load();
    int low = 0, high = sorted.count.load();
    while (low < high) {
      const int middle = (low + high) / 2;
      if (sorted.entry[middle].end.load(std::memory_order_acquire) <= uintptr_t(p))
        low = middle + 1;
      else
        high = middle;
    }
    const bool in = low < sorted.count.load() && sorted.entry[low].base.load() <= uintptr_t(p);
    const int index = in ? sorted.entry[low].index.load() : -1;
    if (before % 2 == 0 && sorted.version.load() == before)
      return index < 0 ? nullptr : &buffers[index].region;
  }
}

const Region *find_device(const void *p) {
  if (!sorted.on_devices.load(std::memory_order_relaxed)) return nullptr;
  const Region *r = find(p);
  return r && r->row ? r : nullptr;
}

bool is_at(const Region &r, int pe) {
  return !r.team || r.team->has(pe);
}
void check_at(const char *fn, const char *arg, const void *p, const Region &r, int pe) {
  if (is_at(r, pe)) return;
  fatal(
      "%s: %s = %p: in a buffer of %zu bytes that PE %d does not have: it is not in the team that "
      "has registered it",
      fn, arg, p, r.size, pe);
}

bool is_coarse(const void *p, int pe) {
  const Region *r = find_device(p);
  return r && r->row[pe] & device::coarse;
}
void check_atomic(const char *fn, const char *arg, const void *p, int pe) {
  if (is_coarse(p, pe)) fatal("%s: %s = %p: " NO_ATOMIC, fn, arg, p, pe);
}

bool on_device(const void *p) {
  if (!sorted.on_devices.load(std::memory_order_relaxed)) return false;
  const OwnAddress own = find_mapped(p, false);
  return own.region && own.region->row;
}

int index_of(const void *p) {
  const Region *r = find(p);
  return r ? r->index : -1;
}

uint64_t name(const void *p) {
  if (!sorted.count.load(std::memory_order_relaxed)) return 0;
  const auto [r, at] = find_mapped(p, true);
  return r ? (uint64_t(1) << 60) | uint64_t(r->index) << 47 | (at - r->base) : 0;
}

} // namespace shmem::buffer

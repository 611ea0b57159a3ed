// SPDX-License-Identifier: MIT
#include "buffer.hpp"
#include "../log.hpp"
#include <algorithm>

namespace shmem::buffer {

Buffer buffers[most];

namespace {

// The addresses of the buffers, ascending. A reader that meets a writer begins again: version is
// odd then, or another one afterwards. The loads acquire, so the second look at version is last.
struct Entry {
  std::atomic<uintptr_t> base, end;
  std::atomic<int> place;
} sorted[most];
std::atomic<int> count, on_devices;
std::atomic<unsigned> version;

} // namespace

std::vector<gpu::BufferThere> publish() {
  int order[most], n = 0;
  for (int i = 0; i < most; i++)
    if (buffers[i].handle) order[n++] = i;
  std::sort(order, order + n,
            [](int a, int b) { return buffers[a].region.base < buffers[b].region.base; });
  std::vector<gpu::BufferThere> on_gpu;
  for (int k = 0; k < n; k++)
    if (const Buffer &b = buffers[order[k]]; b.device)
      on_gpu.push_back({&b.region, b.row.data(), order[k]});
  version.fetch_add(1);
  for (int k = 0; k < n; k++) {
    const Range r = buffers[order[k]].bytes();
    sorted[k].base.store(r.from), sorted[k].end.store(r.to), sorted[k].place.store(order[k]);
  }
  count.store(n), on_devices.store(int(on_gpu.size()));
  version.fetch_add(1);
  return on_gpu;
}

const Region *find(const void *p) {
  for (;;) {
    const unsigned before = version.load();
    int low = 0, high = count.load();
    while (low < high) {
      const int middle = (low + high) / 2;
      if (sorted[middle].end.load(std::memory_order_acquire) <= uintptr_t(p))
        low = middle + 1;
      else
        high = middle;
    }
    const bool in = low < count.load() && sorted[low].base.load() <= uintptr_t(p);
    const int place = in ? sorted[low].place.load() : -1;
    if (before % 2 == 0 && version.load() == before)
      return place < 0 ? nullptr : &buffers[place].region;
  }
}

const Region *find_device(const void *p) {
  if (!on_devices.load(std::memory_order_relaxed)) return nullptr;
  const Region *r = find(p);
  return r && reinterpret_cast<const Buffer *>(r)->device ? r : nullptr;
}

const Team *team_of(const Region &r) {
  const size_t at = uintptr_t(&r) - uintptr_t(buffers);
  if (at >= sizeof buffers) return nullptr;
  const Team *t = buffers[at / sizeof buffers[0]].team;
  return t->n == self.n ? nullptr : t;
}

bool is_at(const Region &r, int pe) {
  const Team *t = team_of(r);
  return !t || t->has(pe);
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
  return r && reinterpret_cast<const Buffer *>(r)->row[size_t(pe)] & device::coarse;
}
void check_atomic(const char *fn, const char *arg, const void *p, int pe) {
  if (is_coarse(p, pe)) fatal("%s: %s = %p: " NO_ATOMIC, fn, arg, p, pe);
}

bool on_device(const void *p) {
  if (!on_devices.load(std::memory_order_relaxed)) return false;
  if (const Region *r = find(p)) return reinterpret_cast<const Buffer *>(r)->device;
  for (int k = 0, n = count.load(); k < n; k++) {
    const Buffer &b = buffers[sorted[k].place.load()];
    for (int i = 0; b.device && i < self.n_local; i++)
      if (b.region.has(reinterpret_cast<const void *>(uintptr_t(p) - uintptr_t(b.region.delta[i]))))
        return true;
  }
  return false;
}

namespace {
int place_of(const Region *r) {
  return int((uintptr_t(r) - uintptr_t(&buffers[0].region)) / sizeof(Buffer));
}
} // namespace
int place_of(const void *p) {
  const Region *r = find(p);
  return r ? place_of(r) : -1;
}
const ptrdiff_t *deltas(const Region *r) {
  return reinterpret_cast<const ptrdiff_t *>(buffers[place_of(r)].row.data());
}

uint64_t name(const void *p) {
  const auto of = [](const Region *r, uintptr_t offset) {
    return (uint64_t(1) << 60) | uint64_t(place_of(r)) << 47 | offset;
  };
  if (!count.load(std::memory_order_relaxed)) return 0;
  if (const Region *r = find(p)) return of(r, uintptr_t(p) - r->base);
  for (int k = 0, n = count.load(); k < n; k++) {
    const Region &r = buffers[sorted[k].place.load()].region;
    for (int i = 0; i < self.n_local; i++)
      if (r.has(reinterpret_cast<const void *>(uintptr_t(p) - uintptr_t(r.delta[i]))))
        return of(&r, uintptr_t(p) - uintptr_t(r.delta[i]) - r.base);
  }
  return 0;
}

} // namespace shmem::buffer

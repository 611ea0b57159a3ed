// SPDX-License-Identifier: MIT
#include "alloc.hpp"
#include "../state.hpp"
#include <iterator>

namespace shmem {

void Alloc::reset(size_t bytes) {
  live.clear();
  free_at.clear();
  by_size.clear();
  total = bytes & ~(grain - 1);
  used = 0;
  if (total) add_free(0, total);
}

void Alloc::add_free(size_t offset, size_t size) {
  free_at.emplace(offset, size);
  by_size.emplace(size, offset);
}

void Alloc::drop_free(size_t offset, size_t size) {
  free_at.erase(offset);
  by_size.erase({size, offset});
}

size_t Alloc::allocate(size_t bytes, size_t align, long tag) {
  if (bytes > total) return none;
  size_t size = round_up(bytes, grain);
  if (align < grain) align = grain;
  // The best fit that also fits once aligned. Any hole of size + align - grain does, so at most the
  // holes in between, which happen to be misaligned, are passed over.
  for (auto it = by_size.lower_bound({size, 0}); it != by_size.end(); ++it) {
    auto [hole, at] = *it;
    size_t start = round_up(at, align), front = start - at;
    if (start < at || hole < front || hole - front < size) continue;
    drop_free(at, hole);
    if (front) add_free(at, front);
    if (hole - front > size) add_free(start + size, hole - front - size);
    live.emplace(start, Block{size, round_up(bytes, counted), tag});
    used += size;
    return start;
  }
  return none;
}

void Alloc::release(size_t offset) {
  auto block = live.find(offset);
  size_t start = offset, size = block->second.size;
  used -= size;
  live.erase(block);
  auto next = free_at.lower_bound(start);
  if (next != free_at.end() && next->first == start + size) {
    size_t more = next->second;
    drop_free(start + size, more);
    size += more;
    next = free_at.lower_bound(start);
  }
  if (next != free_at.begin()) {
    auto [at, hole] = *std::prev(next);
    if (at + hole == start) {
      drop_free(at, hole);
      start = at;
      size += hole;
    }
  }
  add_free(start, size);
}

bool Alloc::resize(size_t offset, size_t bytes) {
  if (bytes > total) return false;
  Block &block = live.find(offset)->second;
  size_t size = round_up(bytes, grain), old = block.size, end = offset + old;
  auto next = free_at.find(end);
  size_t behind = next == free_at.end() ? 0 : next->second;
  if (size > old + behind) return false;
  if (behind) drop_free(end, behind);
  if (old + behind > size) add_free(offset + size, old + behind - size);
  used += size - old;
  block.size = size;
  block.asked = round_up(bytes, counted);
  return true;
}

const Alloc::Block *Alloc::find(size_t offset) const {
  auto it = live.find(offset);
  return it == live.end() ? nullptr : &it->second;
}

Alloc::Hole Alloc::hole(size_t offset) const {
  auto [at, size] = *std::prev(free_at.upper_bound(offset));
  return {at, at + size};
}

size_t Alloc::room(size_t offset) const {
  auto it = live.upper_bound(offset);
  if (it == live.begin()) return 0;
  --it;
  size_t end = it->first + it->second.asked;
  return offset < end ? end - offset : 0;
}

bool Alloc::consistent() const {
  size_t at = 0, in_use = 0;
  size_t blocks = 0;
  for (bool was_free = false; at < total; blocks++) {
    const auto block = live.find(at);
    const auto hole = free_at.find(at);
    const bool is_live = block != live.end();
    if (!is_live && (hole == free_at.end() || was_free || !by_size.count({hole->second, at})))
      return false;
    was_free = !is_live;
    if (is_live) in_use += block->second.size;
    at += is_live ? block->second.size : hole->second;
  }
  return at == total && in_use == used && blocks == live.size() + free_at.size() &&
         by_size.size() == free_at.size();
}

} // namespace shmem

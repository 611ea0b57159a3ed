// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <map>
#include <set>

namespace shmem {

// The allocator of a symmetric heap. It works on offsets and never touches the memory, which may be
// on a GPU. The same calls in the same order give the same offsets, so every PE runs its own copy
// and all agree without talking. O(log blocks) a call.
class Alloc {
public:
  static constexpr size_t none = ~size_t(0);
  // Blocks start and end on multiples of grain bytes, a power of two.
  explicit Alloc(size_t grain) : grain(grain) {}

  void reset(size_t bytes);
  // An offset, or none when nothing fits. align is a power of two; bytes > 0. tag is the caller's,
  // kept with the block.
  size_t allocate(size_t bytes, size_t align, long tag = 0);
  void release(size_t offset); // of a live block
  // Grows or shrinks a live block where it is; false when what lies behind it is taken.
  bool resize(size_t offset, size_t bytes);

  // The live block that starts at offset, or null.
  static constexpr size_t counted = 64;
  struct Block {
    size_t size;  // rounded up to the grain
    size_t asked; // the bytes that the caller wants, rounded up to `counted`
    long tag;
  };
  const Block *find(size_t offset) const;
  // The free range that offset lies in, which is free.
  struct Hole {
    size_t from, to;
  };
  Hole hole(size_t offset) const;
  // A live block holds its caller's bytes, `asked` of them. The result is the number of those bytes
  // from offset on; 0 where offset lies behind them, or in no live block.
  size_t room(size_t offset) const;

  size_t bytes_used() const { return used; }
  size_t largest_free() const { return by_size.empty() ? 0 : by_size.rbegin()->first; }
  bool consistent() const; // live and free blocks tile the heap, no two free ones touch; for tests

  const size_t grain;

private:
  void add_free(size_t offset, size_t size);
  void drop_free(size_t offset, size_t size);

  size_t total = 0, used = 0;
  std::map<size_t, Block> live;
  std::map<size_t, size_t> free_at; // offset -> size
  std::set<std::pair<size_t, size_t>>
      by_size; // (size, offset): the best fit, the lowest of its size
};

} // namespace shmem

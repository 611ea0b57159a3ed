// SPDX-License-Identifier: MIT
// The driver's knowledge of memory, and the only place where instructions touch it: caches belong
// here.
#pragma once
#include "machine.hpp"
#include "strict.hpp"
#include <atomic>

namespace amdgpu {

// Windows of the flat address space, as the nodes' banks say: bits 32 and above.
inline constexpr uint64_t shared_base = uint64_t(1) << 48, private_base = uint64_t(2) << 48;

struct Range {
  const uint8_t *begin = nullptr;
  size_t bytes = 0;
  unsigned node = 0;         // whose memory it is
  bool coarse = false;       // coherent only where kernels begin and end, or fences are
  uint64_t name = 0;         // the same number in all processes that have it
  uint8_t *probed = nullptr; // of memory that others' writes probe, see below
};
// Probed memory has a byte for each of its bytes, which every write of another GPU's changes, and a
// word, which is not 0 while some L2 compares, or changes, both. They lie behind the memory in its
// file.
uint64_t bytes_in_file(unsigned node, bool coarse, uint64_t bytes); // of an allocation
uint8_t *map_probed(unsigned node, bool coarse, uint64_t bytes, int fd, int64_t place); // or NULL
void unmap_probed(uint8_t *probed, uint64_t bytes);

Range range_of(const void *address); // the allocation that holds it
inline uint64_t name_of(int pid, int64_t place) {
  return uint64_t(pid) << 42 ^ uint64_t(place);
}
uint64_t memory_version();            // which changes when an allocation does
void memory_goes(const Range &range); // before it does: caches may have lines of it

// Where an access of a lane goes. LDS and scratch have bounds; elsewhere a wrong address faults.
inline uint8_t *reach(Wave &w, Space space, uint64_t address, int lane, size_t bytes) {
  w.lane = lane, w.address = address;
  if (space == Space::flat && address >> 32 == shared_base >> 32)
    space = Space::lds, address = uint32_t(address);
  else if (space == Space::flat && address >> 32 == private_base >> 32)
    space = Space::scratch, address = uint32_t(address);
  if (space == Space::lds) {
    address = uint32_t(address); // the sum with an offset: a base below 0 is allowed from gfx7 on
    if (address + bytes > w.group->lds.size())
      stop(&w, "lane %d: LDS offset 0x%zx is past its %zu bytes", lane, size_t(address),
           w.group->lds.size());
    return w.group->lds.data() + address;
  }
  if (space ==
      Space::scratch) { // a lane's bytes lie together here, those of a dword's 64 lanes there
    const size_t room = w.scratch.size() / lanes;
    if (address + bytes > room)
      stop(&w, "lane %d: scratch offset 0x%zx is past its %zu bytes", lane, size_t(address), room);
    return w.scratch.data() + room * size_t(lane) + address;
  }
  return reinterpret_cast<uint8_t *>(address);
}

// A word of up to 8 bytes is whole for the host's threads and other processes, which an access of
// the host's own is where it is aligned; memcpy of a constant size becomes one.
template <size_t bytes> void copy(uint8_t *to, const uint8_t *from) {
  if constexpr (bytes > 8) {
    memcpy(to, from, 8);
    copy<bytes - 8>(to + 8, from + 8);
  } else {
    memcpy(to, from, bytes);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
// In the strict machine, global memory is behind caches.
inline bool cached(const Wave &w, const void *at, uint64_t address) {
  return w.late && reinterpret_cast<uint64_t>(at) == address;
}
template <size_t bytes>
void load(Wave &w, const Op &op, Space space, uint64_t address, int lane, void *to) {
  const uint8_t *from = reach(w, space, address, lane, bytes);
  if (cached(w, from, address)) [[unlikely]]
    return late_read(w, op.bits, address, to, bytes);
  copy<bytes>(static_cast<uint8_t *>(to), from);
}
template <size_t bytes>
void store(Wave &w, const Op &op, Space space, uint64_t address, int lane, const void *from) {
  uint8_t *to = reach(w, space, address, lane, bytes);
  if (cached(w, to, address)) [[unlikely]]
    return late_write(w, op.bits, address, from, bytes);
  copy<bytes>(to, static_cast<const uint8_t *>(from));
}
// The old value, and in its place change(old): one atomic of the host, which other processes see.
template <class T, class F>
T exchange(Wave &w, const Op &op, Space space, uint64_t address, int lane, F change) {
  T *at = reinterpret_cast<T *>(reach(w, space, address, lane, sizeof(T)));
  if (uintptr_t(at) % sizeof(T))
    stop(&w, "lane %d: an atomic at %p, not aligned", lane, static_cast<void *>(at));
  const bool late = cached(w, at, address);
  if (late) [[unlikely]]
    if (void *word = late_word(w, op.bits, address, sizeof(T))) at = static_cast<T *>(word);
  T old = __atomic_load_n(at, __ATOMIC_SEQ_CST), now = change(old);
  while (!__atomic_compare_exchange_n(at, &old, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    now = change(old);
  if (late) [[unlikely]]
    late_changed(w, address, &now, sizeof now);
  return old;
}

} // namespace amdgpu

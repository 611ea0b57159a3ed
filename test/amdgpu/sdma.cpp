// SPDX-License-Identifier: MIT
// Copy engines: the packets of SDMA 4 (gfx9) that ROCr writes, of 32-bit words. The facts are of
// AMD's public headers of these packets.
#include "clock.hpp"
#include "driver.hpp"
#include "machine.hpp"
#include <algorithm>

namespace amdgpu {
namespace {

enum : uint8_t {
  nop,
  copy_data,
  fence = 5,
  trap,
  poll = 8,
  atomic = 10,
  fill = 11,
  timestamp = 13
};
constexpr uint32_t add_64 = 47;

// Words `at` and the next one.
uint64_t pair(const uint32_t *word, int at) {
  return word[at] | uint64_t(word[at + 1]) << 32;
}
uint8_t *address(const uint32_t *word, int at) {
  return reinterpret_cast<uint8_t *>(pair(word, at));
}

// A part of an array of up to three dimensions, counted in elements of 1 to 16 bytes; all but
// places are less by one.
struct Side {
  uint8_t *base;
  size_t x, y, z, pitch, slice;
  explicit Side(const uint32_t *word)
      : base(address(word, 0)), x(word[2] & 0x3fff), y(word[2] >> 16 & 0x3fff), z(word[3] & 0x7ff),
        pitch((word[3] >> 13) + 1), slice((word[4] & 0xfffffff) + 1) {}
  uint8_t *row(size_t j, size_t k, unsigned shift) const {
    return base + ((x + (y + j) * pitch + (z + k) * slice) << shift);
  }
};
void copy_part(const uint32_t *word) {
  const Side from(word + 1), to(word + 6);
  const unsigned shift = word[0] >> 29;
  const size_t columns = (word[11] & 0x3fff) + 1, rows = (word[11] >> 16 & 0x3fff) + 1,
               slices = (word[12] & 0x7ff) + 1;
  for (size_t k = 0; k < slices; k++)
    for (size_t j = 0; j < rows; j++)
      memmove(to.row(j, k, shift), from.row(j, k, shift), columns << shift);
}

bool holds(uint32_t function, uint32_t value, uint32_t wanted) {
  switch (function) {
  case 0:
    return true;
  case 1:
    return value < wanted;
  case 2:
    return value <= wanted;
  case 3:
    return value == wanted;
  case 4:
    return value != wanted;
  case 5:
    return value >= wanted;
  default:
    return value > wanted;
  }
}

} // namespace

size_t run_sdma(const uint32_t *word, size_t words, int64_t *time) {
  Ps none = 0, &now = time ? *time : none;
  const uint8_t what = uint8_t(word[0]), kind = uint8_t(word[0] >> 8);
  // Of each: how long it is, which has to be there as a whole.
  const auto is = [&](uint8_t op, uint8_t sub, size_t length) {
    if (what != op || kind != sub) return false;
    if (words < length)
      stop(nullptr, "SDMA: a packet of %zu words, and %zu are there", length, words);
    return true;
  };
  if (is(nop, 0, 1)) return 1;
  if (is(copy_data, 0, 7)) {
    const size_t bytes = size_t(word[1] & 0x3fffffff) + 1;
    if (timed()) now = copied(address(word, 5), address(word, 3), bytes, now);
    memmove(address(word, 5), address(word, 3), bytes);
    return 7;
  }
  if (is(copy_data, 4, 13)) {
    if (timed()) // as much as if it were in one piece
      now = copied(address(word, 6), address(word, 1), size_t(word[11] & 0x3fff) + 1, now) +
            Ps(double(word[11] >> 16 & 0x3fff) * double((word[11] & 0x3fff) + 1) *
               double((word[12] & 0x7ff) + 1) * double(1u << (word[0] >> 29)) / timed()->sdma_gbs *
               1000);
    copy_part(word);
    return 13;
  }
  if (is(fill, 0, 5)) {
    if (word[0] >> 30 != 2) stop(nullptr, "SDMA: a fill that is not of words: 0x%08x", word[0]);
    std::fill_n(reinterpret_cast<uint32_t *>(address(word, 1)), (word[4] & 0x3fffffff) / 4 + 1,
                word[3]);
    return 5;
  }
  if (is(fence, 0, 4)) {
    if (timed()) stamp_at(address(word, 1), now);
    __atomic_store_n(reinterpret_cast<uint32_t *>(address(word, 1)), word[3], __ATOMIC_SEQ_CST);
    return 4;
  }
  if (is(poll, 0, 6)) { // of a register, it flushes what the host reads by
    if (!(word[0] >> 31)) return 6;
    const uint32_t value =
        __atomic_load_n(reinterpret_cast<uint32_t *>(address(word, 1)), __ATOMIC_SEQ_CST);
    if (!holds(word[0] >> 28 & 7, value & word[4], word[3])) return 0;
    if (timed()) now = std::max(now, stamped_at(address(word, 1)));
    return 6;
  }
  if (is(atomic, 0, 8)) {
    if (word[0] >> 25 != add_64) stop(nullptr, "SDMA: unknown atomic %u", word[0] >> 25);
    if (timed()) stamp_at(address(word, 1), now);
    __atomic_fetch_add(reinterpret_cast<uint64_t *>(address(word, 1)), pair(word, 3),
                       __ATOMIC_SEQ_CST);
    return 8;
  }
  if (is(timestamp, 2, 3)) {
    __atomic_store_n(reinterpret_cast<uint64_t *>(address(word, 1)),
                     timed() ? ticks_at(now) : ticks(), __ATOMIC_SEQ_CST);
    return 3;
  }
  if (is(trap, 0, 2)) {
    set_event(word[1] & 0xfffffff);
    return 2;
  }
  stop(nullptr, "SDMA: unknown packet 0x%08x", word[0]);
}

} // namespace amdgpu

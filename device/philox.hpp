// SPDX-License-Identifier: MIT
// Random numbers by their place in a sequence: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC11),
// four words of a key and a counter. Each number is independent of the others, so any thread of any
// PE can make it.
#pragma once
#include "number.hpp"

namespace shmem::random {

struct PhiloxBlock {
  uint32_t word[4];
};
SHMEM_HD_ inline PhiloxBlock philox(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  uint32_t *x = counter.word;
  for (int round = 0; round < 10; round++) {
    const uint64_t a = uint64_t(0xd2511f53) * x[0], b = uint64_t(0xcd9e8d57) * x[2];
    counter = {{uint32_t(b >> 32) ^ x[1] ^ key0, uint32_t(b), uint32_t(a >> 32) ^ x[3] ^ key1,
                uint32_t(a)}};
    key0 += 0x9e3779b9, key1 += 0xbb67ae85;
  }
  return counter;
}

// The sequence of a seed. A number of up to 4 bytes is one word, and one of 8 bytes two. A real
// number is in [0, 1), a multiple of the distance between its type's largest numbers below 1.
class Sequence {
public:
  SHMEM_HD_ explicit Sequence(uint64_t seed) : seed_(seed) {}

  template <class T> SHMEM_HD_ T number(uint64_t i) {
    if constexpr (sizeof(T) == 8) {
      const PhiloxBlock &b = block(i / 2);
      const uint32_t low = i % 2 ? b.word[2] : b.word[0], high = i % 2 ? b.word[3] : b.word[1];
      const uint64_t bits = uint64_t(high) << 32 | low;
      if constexpr (std::is_floating_point_v<T>)
        return double(bits >> 11) * 0x1p-53;
      else
        return T(bits);
    } else {
      const PhiloxBlock &b = block(i / 4);
      const uint32_t even = i % 4 / 2 ? b.word[2] : b.word[0];
      const uint32_t odd = i % 4 / 2 ? b.word[3] : b.word[1];
      const uint32_t bits = i % 2 ? odd : even;
      if constexpr (std::is_same_v<T, float>)
        return float(bits >> 8) * 0x1p-24f;
      else if constexpr (std::is_same_v<T, Half>)
        return from_float<Half>(float(bits >> 21) * 0x1p-11f);
      else if constexpr (std::is_same_v<T, Bfloat16>)
        return from_float<Bfloat16>(float(bits >> 24) * 0x1p-8f);
      else
        return T(bits);
    }
  }

private:
  // A thread makes numbers in a row, of which several are of one block.
  SHMEM_HD_ const PhiloxBlock &block(uint64_t at) {
    if (!known_ || at != at_) {
      at_ = at, known_ = true;
      block_ = philox({{uint32_t(at), uint32_t(at >> 32), 0, 0}}, uint32_t(seed_),
                      uint32_t(seed_ >> 32));
    }
    return block_;
  }

  uint64_t seed_, at_ = 0;
  bool known_ = false;
  PhiloxBlock block_{};
};

} // namespace shmem::random

// SPDX-License-Identifier: MIT
#include "secret.hpp"
#include "../log.hpp"
#include <bit>
#include <cerrno>
#include <cstring>
#include <sys/random.h>

namespace shmem::bootstrap {

Number random_number() {
  Number n;
  size_t have = 0;
  while (have < n.size()) {
    const ssize_t got = getrandom(n.data() + have, n.size() - have, 0);
    if (got < 0 && errno != EINTR) fatal("random numbers for a unique id: %s", strerror(errno));
    if (got > 0) have += size_t(got);
  }
  return n;
}

namespace {

struct Sip {
  uint64_t v0, v1, v2, v3;
  void round() {
    v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
    v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
  }
  void take(uint64_t word) {
    v3 ^= word;
    round(), round();
    v0 ^= word;
  }
  uint64_t result() {
    for (int i = 0; i < 4; i++) round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

} // namespace

// Words are little-endian, as processors of this library are.
static_assert(std::endian::native == std::endian::little);

Tag keyed_hash(const Secret &key, const void *bytes, size_t n) {
  uint64_t k[2];
  memcpy(k, key.data(), sizeof k);
  Sip s{k[0] ^ 0x736f6d6570736575, k[1] ^ 0x646f72616e646f6d ^ 0xee, k[0] ^ 0x6c7967656e657261,
        k[1] ^ 0x7465646279746573};
  const auto *p = static_cast<const uint8_t *>(bytes);
  uint64_t word;
  size_t left = n;
  for (; left >= 8; p += 8, left -= 8) memcpy(&word, p, 8), s.take(word);
  word = 0;
  memcpy(&word, p, left);
  s.take(word | uint64_t(n) << 56);
  s.v2 ^= 0xee;
  const uint64_t low = s.result();
  s.v1 ^= 0xdd;
  const uint64_t high = s.result();
  Tag tag;
  memcpy(tag.data(), &low, 8), memcpy(tag.data() + 8, &high, 8);
  return tag;
}

bool same(const Tag &a, const Tag &b) {
  uint8_t differs = 0;
  for (size_t i = 0; i < a.size(); i++) differs |= uint8_t(a[i] ^ b[i]);
  return !differs;
}

} // namespace shmem::bootstrap

// SPDX-License-Identifier: MIT
// The secret of a job's processes: 128 random bits of its unique id. A process shows that it knows
// them by a keyed hash of numbers that the other side has just made, so the bits never travel.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace shmem::bootstrap {

using Secret = std::array<uint8_t, 16>;
using Number = std::array<uint8_t, 16>; // a random one, used once
using Tag = std::array<uint8_t, 16>;

Number random_number();

// SipHash-2-4 with a result of 128 bits, by J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast
// short-input PRF" (2012), of all these bytes.
Tag keyed_hash(const Secret &key, const void *bytes, size_t n);

// Whether they are the same, in a time that does not tell where they differ.
bool same(const Tag &a, const Tag &b);

} // namespace shmem::bootstrap

// SPDX-License-Identifier: MIT
// One operation on memory of another PE. A kernel posts this struct in the ring, the network sends
// it in a message, and the host keeps it for the GPU as deferred work. Shared by host and device.
#pragma once
#include "kinds.hpp"
#include <cstddef>
#include <cstdint>
#include <shmem/compiler.h>

namespace shmem {

// `count` blocks of `bytes` each. A stride is the distance in bytes from one block to the next: in
// the object at the other PE, or in the memory of the PE that asks.
struct Blocks {
  uint64_t bytes, count, remote_stride, local_stride;
};
SHMEM_HD_ constexpr Blocks one_block(size_t bytes) {
  return {bytes, 1, 0, 0};
}

struct Operation {
  // With the member of the union that a kind has. The last four kinds are only in a kernel's
  // requests.
  enum Kind : uint8_t {
    atomic,    // operands: `amo` on an object of `width` bytes
    put,       // transfer
    get,       // transfer
    put_words, // words: `width` bytes of data
    get_words, // none: the reply has `width` bytes of data
    set_flags, // words: `width` bytes of data, each word of which is stored whole
    fence      // none: operations posted before it complete before later ones start
  };
  // The memory in which `offset` counts. The network has numbers of its own from `regions` on.
  enum RegionNumber : uint16_t {
    heap,
    data,
    device_heap,
    flags, // State::arrived
    regions,
    by_address = UINT16_MAX // offset is the address of the object in the PE that asks
  };
  Kind kind;
  Amo amo;
  uint16_t region;
  uint32_t width;
  uint64_t offset;
  struct AtomicOperands {
    uint64_t value, compare; // Amo::compare_swap stores value where it finds compare
  };
  struct Transfer : Blocks {
    uint64_t local; // an address in the PE that asks
  };
  union {
    AtomicOperands operands;
    Transfer transfer;
    uint64_t words[5];
  };

  // The first word, for a kernel, which stores an operation word by word.
  SHMEM_HD_ static constexpr uint64_t head(Kind kind, size_t width = 0,
                                           RegionNumber region = by_address, Amo amo = Amo::fetch) {
    return uint64_t(kind) | uint64_t(amo) << 8 | uint64_t(region) << 16 | uint64_t(width) << 32;
  }
  static Operation of_atomic(Amo amo, size_t width, const void *object, uint64_t value,
                             uint64_t compare = 0) {
    Operation o{atomic, amo, by_address, uint32_t(width), reinterpret_cast<uintptr_t>(object), {}};
    o.operands = {value, compare};
    return o;
  }
  static Operation of_transfer(Kind kind, const void *object, const void *local, const Blocks &b) {
    Operation o{kind, Amo::fetch, by_address, 0, reinterpret_cast<uintptr_t>(object), {}};
    o.transfer = {b, reinterpret_cast<uintptr_t>(local)};
    return o;
  }
};
static_assert(sizeof(Operation) == 56);

} // namespace shmem

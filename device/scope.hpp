// SPDX-License-Identifier: MIT
// The threads that make a call together. Any class with these three members will do, such as a
// sub-group of a caller's own: rank() is 0 to size() - 1, and after sync() the threads of the scope
// load what the others stored before it.
#pragma once
#include "arch.hpp"
#include <type_traits>

namespace shmem {

struct Thread {
  SHMEM_D_ unsigned rank() const { return 0; }
  SHMEM_D_ unsigned size() const { return 1; }
  SHMEM_D_ void sync() const {}
};

// The workgroup's threads are numbered x first, then y, then z, and each wave_size of them are a
// wave.
struct Workgroup {
  SHMEM_D_ unsigned rank() const {
    const arch::Index i = arch::thread(), n = arch::threads();
    return i.x + n.x * (i.y + n.y * i.z);
  }
  SHMEM_D_ unsigned size() const {
    const arch::Index n = arch::threads();
    return n.x * n.y * n.z;
  }
  SHMEM_D_ void sync() const { arch::wg_sync(); }
};

struct Wave {
  SHMEM_D_ unsigned rank() const { return Workgroup{}.rank() % arch::wave_size; }
  SHMEM_D_ unsigned size() const { // the last wave of a workgroup may be short
    const unsigned rest =
        Workgroup{}.size() - Workgroup{}.rank() / arch::wave_size * arch::wave_size;
    return rest < arch::wave_size ? rest : arch::wave_size;
  }
  SHMEM_D_ void sync() const { arch::wave_sync(size()); }
};

namespace device {

// See arch::anew; constants stay constants. Arguments of a call are the same in all threads of a
// scope.
template <class Scope, class Word> SHMEM_D_ Word anew(Scope, Word n) {
  using Bits = std::conditional_t<sizeof n == sizeof(uint64_t), uint64_t, unsigned>;
  static_assert(sizeof n == sizeof(Bits), "an integer or an enumeration");
  if constexpr (std::is_same_v<Scope, Workgroup> || std::is_same_v<Scope, Wave>)
    if (!arch::is_known(n)) return static_cast<Word>(arch::anew(static_cast<Bits>(n)));
  return n;
}

// Ends a cooperative transfer: all stores of every thread are complete, and every thread knows it,
// so that a release by one of them covers the stores of all.
template <class Scope> SHMEM_D_ void settle(Scope scope) {
  arch::wait_stores();
  scope.sync();
}

} // namespace device
} // namespace shmem

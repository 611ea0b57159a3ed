// SPDX-License-Identifier: MIT
// The CPU platform imitates AMD's links. See device/runtime.hpp.
#pragma once

namespace shmem::runtime {

inline constexpr const char *fast_link = "xGMI";
inline constexpr bool hardware = false;

// Of which p is a part.
inline hipError_t allocation(void **base, size_t *bytes, const void *p) {
  return hipMemGetAddressRange(base, bytes, const_cast<void *>(p));
}

} // namespace shmem::runtime

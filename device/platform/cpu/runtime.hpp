// SPDX-License-Identifier: MIT
// The CPU platform imitates AMD's links. See device/runtime.hpp.
#pragma once

namespace shmem::runtime {

inline constexpr const char *fast_link = "xGMI";
inline constexpr bool hardware = false;

} // namespace shmem::runtime

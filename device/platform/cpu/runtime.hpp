// SPDX-License-Identifier: MIT
// AMD's links are what the CPU platform plays. See device/runtime.hpp.
#pragma once

namespace shmem::runtime {

inline constexpr const char *fast_link = "xGMI";
inline constexpr bool hardware = false;

} // namespace shmem::runtime

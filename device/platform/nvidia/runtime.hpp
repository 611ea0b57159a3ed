// SPDX-License-Identifier: MIT
// Nothing else differs. See device/runtime.hpp.
#pragma once

namespace shmem::runtime {

inline constexpr const char *fast_link = "NVLink";

} // namespace shmem::runtime

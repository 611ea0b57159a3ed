// SPDX-License-Identifier: MIT
// Nothing else differs. See device/runtime.hpp.
#pragma once

namespace shmem::runtime {

inline constexpr const char *fast_link = "NVLink";
inline constexpr usual::Driver driver{{"/dev/nvidiactl"},
                                      "start the container with its GPUs, for one --gpus all"};

} // namespace shmem::runtime

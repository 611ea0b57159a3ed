// SPDX-License-Identifier: MIT
#include "state.hpp"
#include "bootstrap.hpp"

namespace shmem {

const bootstrap::Means *bootstrap::means;

State self;
uintptr_t heap_delta[max_pes];

} // namespace shmem

// SPDX-License-Identifier: MIT
#include "state.hpp"

namespace shmem {

State self;
uintptr_t heap_delta[max_pes];

} // namespace shmem

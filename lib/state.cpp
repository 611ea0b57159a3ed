// SPDX-License-Identifier: MIT
#include "state.hpp"
#include "bootstrap.hpp"
#include <memory>

namespace shmem {

const bootstrap::Means *bootstrap::means;

State self;
uintptr_t heap_delta[max_pes];

void reset_state() {
  std::destroy_at(&self);
  std::construct_at(&self);
}

} // namespace shmem

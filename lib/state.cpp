// SPDX-License-Identifier: MIT
#include "state.hpp"
#include "bootstrap.hpp"
#include <algorithm>
#include <memory>
#include <vector>

namespace shmem {

const bootstrap::Means *bootstrap::means;

State self;
uintptr_t heap_delta[max_pes];

void reset_state() {
  std::destroy_at(&self);
  std::construct_at(&self);
}

PeOrder members_of(const std::vector<int> &pes) {
  const int n = int(pes.size());
  PeOrder even{n, pes[0], n > 1 ? pes[1] - pes[0] : 1};
  for (int i = 0; i < n; i++)
    if (even.pe(i) != pes[size_t(i)]) {
      int *const list = new int[size_t(n)];
      std::copy(pes.begin(), pes.end(), list);
      even.list = list;
      break;
    }
  return even;
}

} // namespace shmem

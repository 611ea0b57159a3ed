// SPDX-License-Identifier: MIT
// Teams, as kernels know them.
#pragma once
#include "../../device/state.hpp"
#include <vector>

namespace shmem {
struct Team;
}

namespace shmem::gpu {

// Shows kernels a team that this PE is a member of; and clears the flags of one that is destroyed.
// numbers: of its shares, by node; empty where it has none but this one, or 0 on all.
void show_team(const Team &t, std::vector<uint16_t> numbers);
void forget_team(Team &t);
device::Team kernel_team(const Team &t); // as kernels take it
const device::Channels &channels();      // of their collectives

} // namespace shmem::gpu

// SPDX-License-Identifier: MIT
// Teams, as kernels know them.
#pragma once
#include "../../device/state.hpp"
#include <vector>

namespace shmem {
struct Team;
}

namespace shmem::gpu {

// Publishes a team of this PE to kernels; and clears the flags of a team that is destroyed.
// numbers: the team's share on each node; empty for a team of one node, or if all are 0.
void show_team(const Team &t, std::vector<uint16_t> numbers);
void forget_teams(); // that are left at finalize
void forget_team(Team &t);
device::Team kernel_team(const Team &t); // as kernels take it
const device::Channels &channels();      // of their collectives

} // namespace shmem::gpu

// SPDX-License-Identifier: MIT
// How PEs are reached that are not mapped, because they are on other nodes. Chosen at build time:
// one of the files in net/.
#pragma once
#include "bootstrap.hpp"

namespace shmem::net {

// Prepares for the PEs of other nodes, if there are any. Ends the program when they cannot be
// reached.
void connect(const bootstrap::Place &place);

} // namespace shmem::net

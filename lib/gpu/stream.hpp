// SPDX-License-Identifier: MIT
// The stream for a host's collective of a team. Each team has its own, because several collectives
// may run at once and wait for their peers.
#pragma once
#include <shmemx.h>

namespace shmem::gpu {

shmemx_stream_t team_stream(int id);
void wait(shmemx_stream_t stream);

} // namespace shmem::gpu

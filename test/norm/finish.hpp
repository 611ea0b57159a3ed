// SPDX-License-Identifier: MIT
// Rows with a finish of the test's own, see finish.hip.
#ifndef TEST_NORM_FINISH_HPP
#define TEST_NORM_FINISH_HPP

#include <hip/hip_runtime_api.h>
#include <shmemx.h>

// LayerNorm, plus the row's number times `step`.
void layer_norm(shmem_team_t team, const shmemx_norm_t &call, float step, hipStream_t stream);
// As if it were compiled against another version of the library.
void other_version(shmem_team_t team, const shmemx_norm_t &call, hipStream_t stream);

#endif

// SPDX-License-Identifier: MIT
// Tokens to experts and back: what the API says, checked and handed to the kernels.
#pragma once
#include "../stream.hpp"

namespace shmem::api {

using stream::Stream;

int moe_create(const char *fn, shmem_team_t team, const shmemx_moe_shape_t *shape,
               shmemx_moe_t *moe);
void moe_destroy(const char *fn, shmemx_moe_t moe);
void moe_dispatch_on_stream(const char *fn, shmemx_moe_t moe, const void *tokens,
                            const void *scales, const int *expert_ids, const float *weights,
                            int n_tokens, Stream stream);
void moe_replay_on_stream(const char *fn, shmemx_moe_t moe, const void *tokens, const void *scales,
                          Stream stream);
void moe_combine_on_stream(const char *fn, shmemx_moe_t moe, const void *rows, void *out,
                           Stream stream);
void moe_sum_on_stream(const char *fn, shmemx_moe_t moe, const void *rows, void *out,
                       Stream stream);
void moe_members_on_stream(const char *fn, shmemx_moe_t moe, uint64_t members, Stream stream);
void moe_view(const char *fn, shmemx_moe_t moe, shmemx_moe_view_t *view);
uint64_t moe_dropped(const char *fn, shmemx_moe_t moe);

} // namespace shmem::api

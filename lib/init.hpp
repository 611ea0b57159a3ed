// SPDX-License-Identifier: MIT
#pragma once
#include "env.hpp"

namespace shmem {

extern Env::gpu device_of_attributes; // the GPU of shmemx_init_attr_t, or any

namespace api {
void init(const char *fn);
int init_thread(const char *fn, int requested, int *provided);
void query_thread(const char *fn, int *provided);
void query_initialized(const char *fn, int *initialized);
void finalize(const char *fn);
[[noreturn]] void global_exit(const char *fn, int status);
void start_pes(const char *fn, int npes);
} // namespace api

} // namespace shmem

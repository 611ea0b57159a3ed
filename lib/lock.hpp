// SPDX-License-Identifier: MIT
#pragma once

namespace shmem::api {
void set_lock(const char *fn, long *lock);
void clear_lock(const char *fn, long *lock);
int test_lock(const char *fn, long *lock);
} // namespace shmem::api

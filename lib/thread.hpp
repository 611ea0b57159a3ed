// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <pthread.h>

namespace shmem {

// Starts a thread of the library, which gets none of the program's signals. 0 or an errno.
int start_thread(pthread_t *thread, void *(*run)(void *), void *argument = nullptr,
                 size_t stack_bytes = 256 << 10);

} // namespace shmem

// SPDX-License-Identifier: MIT
// The symmetric heap's API. All routines are collective over the world and called alike, so each PE
// allocates by itself.
#pragma once
#include <cstddef>

namespace shmem {

void reset_heap(); // empty, at init and finalize

namespace api {
void *malloc(const char *fn, size_t size);
void *calloc(const char *fn, size_t count, size_t size);
void *align(const char *fn, size_t alignment, size_t size);
void *realloc(const char *fn, void *ptr, size_t size);
void *malloc_with_hints(const char *fn, size_t size, long hints);
void free(const char *fn, void *ptr);
} // namespace api

} // namespace shmem

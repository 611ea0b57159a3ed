// SPDX-License-Identifier: MIT
// The symmetric heap's API. All routines are collective over the world and called alike, so each PE
// allocates by itself.
#pragma once
#include <cstddef>

namespace shmem {

void reset_heaps(); // empty, at init
// Opens the GPU, unless that has been done or there is none; device: the one where this PE has
// memory already, or -1. On every PE at once.
void open_device_heap(int device = -1);
void close_heaps(); // without what has come behind their start, when this PE leaves the job
// The bytes from p, on one of this PE's heaps, to the end of the block that it lies in, or 0. For
// SHMEM_CHECK.
size_t heap_room(const void *p);
// A block of the device heap, the largest that a PE needs. All PEs of the world call. NULL if no PE
// needs any.
void *largest_block(const char *fn, size_t bytes);

namespace api {
void *malloc(const char *fn, size_t size);
void *calloc(const char *fn, size_t count, size_t size);
void *align(const char *fn, size_t alignment, size_t size);
void *realloc(const char *fn, void *ptr, size_t size);
void *malloc_with_hints(const char *fn, size_t size, long hints);
void free(const char *fn, void *ptr);
} // namespace api

} // namespace shmem

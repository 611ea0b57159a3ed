// SPDX-License-Identifier: MIT
// The device heap that grows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shmem::gpu {

// So many bytes at the start, which may become some more, up to so many, and where each PE of the
// node has its own, here. `front`, which may become more, too, is there before each heap. Gives what
// the heap may grow to; 0, on all PEs alike and with nothing left, where it cannot.
size_t open_chunks(size_t &front, size_t &first, size_t upto, std::vector<uintptr_t> &starts);

// These offsets of the heap get memory, on all PEs at once; false where some GPU has none, with a
// line. And they give it back, all that was added together.
bool add_chunk(const char *fn, size_t from, size_t to);
void remove_chunk(size_t from, size_t to);

} // namespace shmem::gpu

// SPDX-License-Identifier: MIT
// The device heap that grows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shmem::gpu {

// Makes heaps that have `first` bytes at the start, behind `front` bytes of flags, and may grow to
// `upto`. Rounds both sizes up. starts: the heap of each PE of the node, as mapped here. Gives the
// size that the heap may grow to; 0, on all PEs alike and with nothing left, where it cannot grow.
size_t open_chunks(size_t &front, size_t &first, size_t upto, std::vector<uintptr_t> &starts);

// Adds memory at these offsets of the heap, on all PEs at once; false where a GPU has none, with a
// line. remove_chunk takes back one whole chunk.
bool add_chunk(const char *fn, size_t from, size_t to);
void remove_chunk(size_t from, size_t to);
void close_chunks(); // what is there from the start, and the addresses

} // namespace shmem::gpu

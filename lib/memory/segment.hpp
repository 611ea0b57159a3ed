// SPDX-License-Identifier: MIT
// The node's segment: one memfd that the leader makes and every PE of the node maps whole, at once.
// It holds the Job, and the heap and static data of each PE. It has no name anywhere, so that
// killed processes leave nothing behind.
#pragma once
#include "../bootstrap.hpp"
#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>

namespace shmem::segment {

// Why join would end this process: a size that this machine or this process's limits do not allow.
// Empty where nothing is known to stand in the way. Other PEs are not asked.
std::string obstacle(const bootstrap::Place &place);
// Makes or joins the segment, fills self.job, self.slots, self.heap and self.data (static data
// moved in place).
void join(const bootstrap::Place &place);
// Gives back these pages of this PE's heap; the addresses stay mapped. Every PE does, after a
// barrier in which the peers have made their last use of them.
void drop_heap(size_t offset, size_t bytes);
// Gives back all that join has made, when no other PE uses this PE's part any more.
void leave();
// A dump of this process has these pages of its heap, too.
void dump_heap(size_t from, size_t to);

} // namespace shmem::segment

namespace shmem::data {

// The executable's globals and statics: the page range in which they lie.
struct DataExtent {
  char *base;
  size_t bytes;
};
DataExtent extent();
// Moves them onto the segment, in place, at this offset of it. Other threads may run.
void move(int fd, size_t offset);
void move_back(); // to private memory

// The same for any pages of private memory, and back. Pages of zeros stay holes of the file.
void move_pages(int fd, off_t at, uintptr_t from, uintptr_t to);
void move_back(int fd, off_t at, uintptr_t from, uintptr_t to);
// Whether the segment's descriptor is still there: else the program has closed all of them.
bool has_file();
// Whether the descriptor is still that of this file.
bool same_file(int fd, const struct stat &known);
// Copies pages that are mapped, into zeros.
void copy_pages(uintptr_t from, char *into, size_t bytes);
// Reads what the file has there into zeros; false where it cannot.
bool read_pages(int fd, off_t at, char *into, size_t bytes);

} // namespace shmem::data

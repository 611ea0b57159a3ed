// SPDX-License-Identifier: MIT
// A job of processes that no launcher started: they meet by a unique id (tree.hpp), or by two
// functions of the program.
#pragma once
#include "root.hpp"
#include <string>

namespace shmem::bootstrap {

// The program's own network, by which all ranks get the bytes of all. Both return 0 where all is
// well.
struct Callbacks {
  int (*allgather)(void *context, const void *mine, void *all, size_t bytes);
  int (*barrier)(void *context);
  void *context;
};

// Makes this process rank `rank` of a job of n, and `means` the group's. Either id or callbacks is
// null. patient: the maker of the id may not listen yet. obstacle: why this rank could not go on
// behind this, or empty; all ranks fail by it. False: *error is one line for the user, and nothing
// has changed.
bool join_group(int rank, int n, const Id *id, bool patient, const Callbacks *callbacks,
                const std::string &obstacle, std::string *error);

} // namespace shmem::bootstrap

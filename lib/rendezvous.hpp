// SPDX-License-Identifier: MIT
// How the PEs of a node first meet. The leader, local rank 0, listens on a Unix socket; each other
// PE connects to it, shows a descriptor of its process, and gets those of the segment. The kernel
// tells by these sockets whether a PE lives, so no launcher is asked. The name of the socket is
// abstract: nothing of it is left in a file system, and PEs in other mount, user and PID namespaces
// reach it.
#pragma once
#include "bootstrap.hpp"
#include <cstddef>

namespace shmem::rendezvous {

inline constexpr int shared = 3; // descriptors that each PE gets from the leader

// On the leader: each PE that comes gets these bytes and descriptors, from a thread.
void lead(const bootstrap::Place &place, const void *welcome, size_t bytes, const int *fds);
// On another PE: waits about half a second for the leader; false when the leader has not come.
bool follow(const bootstrap::Place &place, void *welcome, size_t bytes, int *fds);

// On the leader: whether this PE of the node has come.
bool has_come(int local);
// The local rank of a PE of this node that has ended in init, or -1. The leader knows of all PEs,
// another PE only of the leader.
int ended();

// Ends the meeting when all PEs of the node have come. next gets descriptors of the processes of
// the two PEs that follow on this node, for poll, or -1 where there is none.
void end(int *next);

} // namespace shmem::rendezvous

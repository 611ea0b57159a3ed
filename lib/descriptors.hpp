// SPDX-License-Identifier: MIT
// Descriptors that go from one process to another, as SCM_RIGHTS over a Unix socket. Opening
// /proc/PID/fd needs more: one user namespace, a process that is dumpable, a main thread that has
// not left by pthread_exit.
#pragma once
#include <cstddef>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <vector>

namespace shmem {

struct Team;

inline constexpr int most_passed = 4; // descriptors in a message

// Sends one message with n descriptors, without waiting; to a socket by its name, or where this one
// is connected. False when the message did not go.
bool send_descriptors(int socket, const void *data, size_t bytes, const int *fds, int n,
                      const sockaddr_un *to = nullptr, socklen_t to_bytes = 0);
// Takes one message, without waiting. fds gets most_passed descriptors, -1 where there is none;
// they are the caller's. The result is recv's.
ssize_t receive_descriptors(int socket, void *data, size_t bytes, int *fds);

// Every member of the team calls this: each gets a descriptor of each other member on its node, by
// number in the team. -1 stands where none was given or none came.
std::vector<int> exchange_descriptors(Team &team, int mine);

} // namespace shmem

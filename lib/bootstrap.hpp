// SPDX-License-Identifier: MIT
// Who we are and how the processes of a job first meet. pmix.cpp asks the launcher; single.cpp is a
// job of one. Errors end the program: there is nobody to return them to.
#pragma once
#include <cstdlib>

namespace shmem::bootstrap {

// As it stands: of a process that nobody launched.
struct Place {
  // In the job, and on this node.
  int me = 0, n = 1;
  int local = 0, n_local = 1;
  // PEs that share this machine's memory and cores: n_local, or more with SHMEM_P2P=0.
  int machine = 1;
  // The PEs of this node are first + i * stride; or stride is 0: in no such order.
  int first = 0, stride = 1;
  // A PE on another node, or -1.
  int elsewhere = -1;
};

// The same as if each PE were a node of its own.
inline Place alone(const Place &p) {
  if (p.n == 1) return p;
  return {
      .me = p.me, .n = p.n, .machine = p.machine, .first = p.me, .elsewhere = p.me == 0 ? 1 : 0};
}
bool launched(); // is there a launcher to ask?
Place join();
// Each node has a leader, local rank 0: it tells the others of its node a short text.
void tell(const char *text);
// Waits for the leader's text, for about half a second; false when it has not come: call again.
bool hear(char *text, int length);
// What a PE tells those of other nodes: all call show together, then shown, which waits for the others
// for about half a second, until it is true; the leaders ask for what the others told by seen. The
// rest, which few have, is for who asks for it.
void show(const void *p, size_t bytes, const void *rest, size_t rest_bytes);
bool shown();
void seen(int pe, void *p, size_t bytes);
void seen_rest(int pe, void *p, size_t bytes);
// The name of the node that a PE is on.
struct Host {
  char name[64];
};
Host host_of(int pe);
// A PE of this node whose process is gone, or -1. It asks the launcher, so it works while not all
// have come.
int ended();
void leave(); // on every PE, when the job is over for the library; twice is fine

} // namespace shmem::bootstrap

// SPDX-License-Identifier: MIT
// Who we are and how the processes of a job first meet. pmix.cpp asks the launcher; single.cpp is a
// job of one. Errors end the program: there is nobody to return them to.
#pragma once
#include <cstddef>
#include <cstdint>

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
// A number that the PEs of the job on this node have in common, and no other job on this machine.
uint64_t job_number();
// What a PE tells those of other nodes: all call show together, then shown, which waits for the
// others for about half a second, until it is true. The leaders ask for `bytes` of each PE by seen.
// The rest, which few have, is for a PE that asks for it.
void show(const void *p, size_t bytes, const void *rest, size_t rest_bytes);
bool shown();
void seen(void *all, size_t bytes, int n);
void seen_rest(int pe, void *p, size_t bytes);
// The name of the node that a PE is on.
struct Host {
  char name[64];
};
Host host_of(int pe);
// A PE of this node that has ended before it called init, or -1; not one for which `come` is true.
// To be asked again and again while PEs are waited for.
int ended(bool (*come)(int pe));
void leave(); // on every PE, when the job is over for the library; twice is fine

} // namespace shmem::bootstrap

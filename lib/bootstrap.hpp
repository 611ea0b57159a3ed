// SPDX-License-Identifier: MIT
// Who we are and how the processes of a job first meet. pmix.cpp asks the launcher; single.cpp is a
// job of one. Errors end the program: there is nobody to return them to.
#pragma once
#include <cstdlib>

namespace shmem::bootstrap {

struct Place {
  int me, n;          // in the job
  int local, n_local; // on this node
  int elsewhere;      // a PE on another node, or -1
};

// Whether a launcher's list of ranks has this one. Open MPI 4 writes "0,1,2,3"; Open MPI 5.0.7 has
// them in the order of cores, "0,2,1,3"; PMIx allows ranges, "0-3,5".
inline bool listed(const char *list, long rank) {
  for (char *end; *list; list = *end ? end + 1 : end) {
    const long from = strtol(list, &end, 10);
    if (end == list) break;
    const long to = *end == '-' ? strtol(end + 1, &end, 10) : from;
    if (from <= rank && rank <= to) return true;
  }
  return false;
}

bool launched(); // is there a launcher to ask?
Place join();
// Each node has a leader, local rank 0: it tells the others of its node a short text.
void tell(const char *text);
// Waits until the leader has told, for about half a second; false when it has not: call again.
bool hear(char *text, int length);
// A PE of this node whose process is gone, or -1. Asks the launcher: for while not all have come.
int ended();
void leave(); // on every PE, when the job is over for the library; twice is fine

} // namespace shmem::bootstrap

// SPDX-License-Identifier: MIT
// How the processes of a job first meet, and learn their numbers. There are two means. A launcher
// tells a process its number (pmix.cpp; without PMIx a job is one process: single.cpp). Or the
// processes find each other by a unique id or by the program's own functions (group.cpp). Errors
// here end the program, because no caller can handle them. Only join_group, which comes earlier,
// returns errors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

struct pollfd;

namespace shmem::bootstrap {

// The default is a process without a launcher.
struct Place {
  // In the job, and on this node.
  int me = 0, n = 1;
  int local = 0, n_local = 1;
  // PEs that share this machine's memory and cores: n_local, or more with SHMEM_P2P=0.
  int machine = 1;
  std::vector<int> pes = {0}; // of this node, ascending
  // A PE on another node, or -1.
  int elsewhere = -1;
};

// The same as if each PE were a node of its own.
inline Place alone(const Place &p) {
  if (p.n == 1) return p;
  return {
      .me = p.me, .n = p.n, .machine = p.machine, .pes = {p.me}, .elsewhere = p.me == 0 ? 1 : 0};
}
// The name of the node that a PE is on.
struct Host {
  char name[64];
};

// The end of the job, which this PE causes.
struct JobEnd {
  int32_t pe;     // or root_ended
  int32_t status; // of the other processes
  int32_t said;   // a line that says why has been printed
};
inline constexpr int root_ended = -2; // the process that made the unique id

// The functions that init calls.
struct Means {
  Place (*join)();
  // A number that the PEs of the job on this node have in common, and no other job on this machine.
  uint64_t (*job_number)();
  // Data of a PE for PEs of other nodes. All PEs call show together, and then shown until it is
  // true: shown waits about half a second for the other PEs. Leaders read `bytes` of each PE with
  // seen. The rest, which few PEs have, is for a PE that asks for it.
  void (*show)(const void *p, size_t bytes, const void *rest, size_t rest_bytes);
  bool (*shown)();
  void (*seen)(void *all, size_t bytes, int n);
  void (*seen_rest)(int pe, void *p, size_t bytes);
  Host (*host_of)(int pe);
  // The end of a PE before it called init. PEs for which `come` is true do not count. Called again
  // and again while init waits for PEs.
  std::optional<JobEnd> (*ended)(bool (*come)(int pe));
  // The end of a PE without leave, for PEs of other nodes. poll_for: descriptors to wait for; only
  // the watch's thread calls it. report: any thread may call it, as this PE's last step.
  void (*poll_for)(std::vector<pollfd> *fds);
  std::optional<JobEnd> (*heard)();
  void (*report)(const JobEnd &end);
  // The PE that prints the line about an end, where no PE of the dead PE's node is left to do it.
  int (*teller)(const JobEnd &end);
  void (*leave)(); // on every PE, when the job is over for the library; twice is fine
};
extern const Means launcher; // pmix.cpp or single.cpp
extern const Means group;    // group.cpp
extern const Means *means;   // of this job, null before init

bool launched(); // is there a launcher to ask?
inline Place join() {
  return means->join();
}
inline uint64_t job_number() {
  return means->job_number();
}
inline void show(const void *p, size_t bytes, const void *rest, size_t rest_bytes) {
  means->show(p, bytes, rest, rest_bytes);
}
inline bool shown() {
  return means->shown();
}
inline void seen(void *all, size_t bytes, int n) {
  means->seen(all, bytes, n);
}
inline void seen_rest(int pe, void *p, size_t bytes) {
  means->seen_rest(pe, p, bytes);
}
inline Host host_of(int pe) {
  return means->host_of(pe);
}
inline std::optional<JobEnd> ended(bool (*come)(int pe)) {
  return means->ended(come);
}
inline void leave() {
  if (means) means->leave();
}

} // namespace shmem::bootstrap

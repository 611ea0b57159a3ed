// SPDX-License-Identifier: MIT
#include "processes.hpp"
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace shmem::bootstrap {

namespace {

using Clock = std::chrono::steady_clock;

// A launcher forks the PEs of a node in a row: with 64 of them on 2 cores the last one is there 0.3
// s after the first (2026-11-25).
constexpr auto patience = std::chrono::seconds(2);

// The text of a file of a process: 0, or an errno.
int read_file(int pid, const char *name, std::string *text) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  text->clear();
  char part[4096];
  ssize_t n;
  while ((n = read(fd, part, sizeof part)) > 0) text->append(part, size_t(n));
  const int error = n < 0 ? errno : 0;
  close(fd);
  return error;
}

// A process's parent and the name of its program. Every process may read these.
struct Stat {
  int parent = 0;
  char state = 0;
  std::string program;
};
bool read_stat(int pid, Stat *s) {
  std::string text;
  if (read_file(pid, "stat", &text)) return false;
  const size_t from = text.find('('), to = text.rfind(')');
  if (from == std::string::npos || to == std::string::npos) return false;
  s->program = text.substr(from + 1, to - from - 1);
  return sscanf(text.c_str() + to + 1, " %c %d", &s->state, &s->parent) == 2;
}

// The value of a variable in a process's environment, null where there is none.
const char *value_in(const std::string &environment, const char *name) {
  const size_t length = strlen(name);
  for (size_t at = 0; at < environment.size(); at += strlen(&environment[at]) + 1)
    if (!environment.compare(at, length, name) && environment[at + length] == '=')
      return &environment[at + length + 1];
  return nullptr;
}

enum Relation { of_job, other, hidden };
// The relation of a process to this one's job, and its rank there.
Relation kind_of(int pid, int *rank) {
  std::string environment;
  if (read_file(pid, "environ", &environment)) return hidden;
  const char *job = value_in(environment, "PMIX_NAMESPACE"), *mine = getenv("PMIX_NAMESPACE"),
             *number = value_in(environment, "PMIX_RANK");
  if (!job || !mine || !number || strcmp(job, mine) != 0) return other;
  *rank = atoi(number);
  return of_job;
}

// The process that has started the PEs of this node: the nearest ancestor that has not this job's
// variables. 0 where /proc does not show it.
int find_launcher() {
  Stat s;
  int rank;
  for (int pid = getppid(); pid > 1 && read_stat(pid, &s); pid = s.parent) {
    const Relation kind = kind_of(pid, &rank);
    // Slurm's launcher runs as root and hides its environment. A container's may do so as well, but
    // it has a launcher above it.
    if (kind == other || (kind == hidden && s.program == "slurmstepd")) return pid;
  }
  return 0;
}

} // namespace

int elder() {
  const char *mine = getenv("PMIX_RANK");
  if (!mine) return 0;
  Stat s;
  int rank;
  std::string maps;
  for (int pid = getppid(); pid > 1 && read_stat(pid, &s); pid = s.parent) {
    const Relation kind = kind_of(pid, &rank);
    if (kind == other) return 0;
    if (kind == of_job && rank == atoi(mine) && !read_file(pid, "maps", &maps) &&
        maps.find("/memfd:shmem (") != std::string::npos)
      return pid;
  }
  return 0;
}

int missing(const int *pes, int n, bool (*come)(int pe)) {
  static int launcher = find_launcher();
  static std::vector<Clock::time_point> seen; // of each of pes, when it was last there
  const auto now = Clock::now();
  if (seen.size() != size_t(n)) seen.assign(size_t(n), now);
  DIR *all = launcher ? opendir("/proc") : nullptr;
  bool known = all;
  while (dirent *entry = all ? readdir(all) : nullptr) {
    const int pid = atoi(entry->d_name);
    Stat s;
    if (pid <= 0 || !read_stat(pid, &s) || s.parent != launcher || s.state == 'Z') continue;
    int rank;
    const Relation kind = kind_of(pid, &rank);
    // A hidden process may be any of them, unless it has ended meanwhile.
    if (kind == hidden && access(("/proc/" + std::string(entry->d_name)).c_str(), F_OK) == 0)
      known = false;
    for (int i = 0; i < n && kind == of_job; i++)
      if (pes[i] == rank) seen[size_t(i)] = now;
  }
  if (all) closedir(all);
  int found = -1;
  for (int i = 0; i < n; i++) {
    if (!known || come(pes[i])) seen[size_t(i)] = now;
    if (found < 0 && now - seen[size_t(i)] >= patience) found = pes[i];
  }
  return found;
}

} // namespace shmem::bootstrap

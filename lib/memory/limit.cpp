// SPDX-License-Identifier: MIT
#include "limit.hpp"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace shmem {

size_t memory_limit() {
  size_t limit = size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGESIZE));
  // A line is "0::/path" for version 2 of control groups, "4:memory:/path" for version 1. Groups
  // nest, and each may have a limit. In a container the path may be one of the host's; the top of
  // what is mounted is then the container's own group.
  FILE *groups = fopen("/proc/thread-self/cgroup", "re");
  char line[4096], name[4200];
  while (groups && fgets(line, sizeof line, groups)) {
    line[strcspn(line, "\n")] = '\0';
    char *kind = strchr(line, ':'), *path = kind ? strchr(kind + 1, ':') : nullptr;
    if (!path) continue;
    *path++ = '\0';
    const bool v1 = strcmp(kind + 1, "memory") == 0;
    if (!v1 && kind[1]) continue;
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
      *end = '\0';
      snprintf(name, sizeof name, "/sys/fs/cgroup%s%s/%s", v1 ? "/memory" : "", path,
               v1 ? "memory.limit_in_bytes" : "memory.max");
      FILE *file = fopen(name, "re");
      if (!file) continue;
      unsigned long long max;
      if (fscanf(file, "%llu", &max) == 1) limit = std::min<size_t>(limit, max); // or "max"
      fclose(file);
    }
  }
  if (groups) fclose(groups);
  return limit;
}

} // namespace shmem

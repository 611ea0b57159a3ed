// SPDX-License-Identifier: MIT
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace shmem {

// What mlock has of this process, in KiB.
inline long locked_kib() {
  char text[4096];
  const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  text[n < 0 ? 0 : n] = '\0';
  const char *line = strstr(text, "\nVmLck:");
  return line ? strtol(line + 7, nullptr, 10) : 0;
}

// Maps memory of a file that is mostly not used: a dump of the process leaves it out (a dump's read
// of a hole would allocate it: 868 MiB of two heaps that nobody had touched, 2026-11-25), and after
// mlockall(MCL_FUTURE) a page comes when it is touched, and is locked then.
inline void *map_lazily(void *at, size_t bytes, int flags, int fd, off_t offset) {
  const long before = locked_kib();
  void *p = mmap(at, bytes, PROT_NONE, flags, fd, offset);
  if (p == MAP_FAILED) return p;
  madvise(p, bytes, MADV_DONTDUMP);
  if (locked_kib() > before && mlock2(p, bytes, MLOCK_ONFAULT) < 0) munlock(p, bytes);
  mprotect(p, bytes, PROT_READ | PROT_WRITE);
  return p;
}

} // namespace shmem

// SPDX-License-Identifier: MIT
// Marks of an allocation that a process has exported, for other processes: locks on bytes of the
// memfd that it lies in, which end with the process. One on its first byte says that it lives, one
// on its second that a process has it mapped.
#pragma once
#include <cstdint>
#include <fcntl.h>
#include <unistd.h>

namespace amdgpu {

enum class Mark : int64_t { lives, mapped };

inline void mark(int fd, int64_t place, Mark which, bool on = true) {
  struct flock lock = {};
  lock.l_type = short(!on ? F_UNLCK : which == Mark::lives ? F_WRLCK : F_RDLCK);
  lock.l_whence = SEEK_SET;
  lock.l_start = place + int64_t(which), lock.l_len = 1;
  fcntl(fd, F_OFD_SETLK, &lock);
}
// By another descriptor than this one.
inline bool marked(int fd, int64_t place, Mark which) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = place + int64_t(which), lock.l_len = 1;
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

} // namespace amdgpu

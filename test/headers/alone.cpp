// SPDX-License-Identifier: MIT
// One header alone, in C++: plainly, then inside extern "C", as programs for older headers have it.
#ifdef WRAPPED
extern "C" {
#endif
#include HEADER
#ifdef WRAPPED
}
#endif

int header_alone();
int header_alone() {
  static double target;
  shmem_p(&target, 1.0, shmem_my_pe());
  shmem_double_p(&target, 1.0, 0);
  return SHMEM_TEAM_WORLD == SHMEM_TEAM_INVALID;
}

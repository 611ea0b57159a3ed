/* SPDX-License-Identifier: MIT
 * One header alone, twice; and one name of each kind, so that it does not compile when the header
 * is empty. */
#include HEADER
#include HEADER

int header_alone(void);
int header_alone(void) {
  static double target;
  shmem_double_p(&target, 1.0, shmem_my_pe());
  return SHMEM_TEAM_WORLD == SHMEM_TEAM_INVALID;
}

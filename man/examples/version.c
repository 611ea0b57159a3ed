// SPDX-License-Identifier: MIT
#include <shmem.h>
#include <stdio.h>

int main(void) {
  int major, minor;
  char name[SHMEM_MAX_NAME_LEN];
  shmem_info_get_version(&major, &minor);
  shmem_info_get_name(name);
  printf("%s, OpenSHMEM %d.%d\n", name, major, minor);
  return 0;
}
// With 1 PEs: libshmem, OpenSHMEM 1.6

/* SPDX-License-Identifier: MIT */
#include <shmem.h>
#include <stdio.h>

extern int scale_on_device(void);

int main(void) {
  int class = 0; /* not C++ */
  shmem_init();
  printf("%d: mixed%.*s\n", scale_on_device(), class, "x");
  shmem_finalize();
}

// SPDX-License-Identifier: MIT
// Closes all descriptors after init, as daemons do, and forks: for closed.py.
#include <shmem.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int value = 42;

int main(void) {
  shmem_init();
  shmem_barrier_all();
  syscall(SYS_close_range, 3, ~0U, 0);
  const pid_t child = fork();
  if (child == 0) _exit(value);
  int status = 0;
  waitpid(child, &status, 0);
  printf("the child of PE %d saw %d\n", shmem_my_pe(), WEXITSTATUS(status));
  fflush(stdout);
  shmem_barrier_all();
  shmem_finalize();
  return 0;
}

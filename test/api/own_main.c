// SPDX-License-Identifier: MIT
// A program that uses the words that the library only exports for something of its own.
#include <mpp/shmem.h>
#include <mpp/shmemx.h>
#include <pshmem.h>
#include <stdio.h>

int my_pe, num_pes;
static int udcflushed;
void shmem_udcflush(double);
void shmem_udcflush(double x) {
  udcflushed += x == 0.5;
}

int main(void) {
  shmem_init();
  my_pe = -1;
  shmem_barrier_all();
  shmem_p(&my_pe, shmem_my_pe(), (shmem_my_pe() + 1) % shmem_n_pes());
  num_pes = _num_pes();
  shmem_udcflush(0.5);
  shmem_barrier_all();
  const int bad =
      num_pes != pshmem_n_pes() || udcflushed != 1 || my_pe != (_my_pe() + num_pes - 1) % num_pes;
  if (bad) fprintf(stderr, "my_pe %d, num_pes %d\n", my_pe, num_pes);
  shmem_finalize();
  return bad;
}

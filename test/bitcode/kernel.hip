// SPDX-License-Identifier: MIT
// A kernel whose compiler sees no header of this library nor of HIP: the names are in the bitcode
// that it is linked with, as for a kernel from Triton or Julia.
extern "C" {
#define DEVICE __attribute__((device))
DEVICE int shmem_my_pe(void);
DEVICE int shmem_n_pes(void);
DEVICE void shmemx_putmem_signal_wg(void *dest, const void *source, unsigned long nelems,
                                    unsigned long *sig_addr, unsigned long signal, int sig_op,
                                    int pe);
DEVICE unsigned long shmem_signal_wait_until(unsigned long *sig_addr, int cmp, unsigned long value);

// Puts `n` ints of a round into the next PE's row by a workgroup, and signals; waits for the other
// neighbour's.
__attribute__((global)) void exchange(int *dest, int *source, unsigned long *signal,
                                      unsigned long n, unsigned long round, int set, int ge) {
  const int next = (shmem_my_pe() + 1) % shmem_n_pes();
  shmemx_putmem_signal_wg(dest, source, n * sizeof(int), signal, round, set, next);
  if (__builtin_amdgcn_workitem_id_x() == 0) shmem_signal_wait_until(signal, ge, round);
  __builtin_amdgcn_s_barrier();
}
}

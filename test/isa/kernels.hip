// SPDX-License-Identifier: MIT
// Kernels of one call each, for a look at the instructions: expect.py says what they should be.
#include <shmem/device/shmem.hpp>

#define KERNEL extern "C" __global__ void

KERNEL p(long *dest, long value, int pe) {
  shmem_long_p(dest, value, pe);
}
KERNEL p_short(short *dest, short value, int pe) {
  shmem_short_p(dest, value, pe);
}
KERNEL g(long *to, const long *source, int pe) {
  *to = shmem_long_g(source, pe);
}
KERNEL put(long *dest, const long *source, size_t n, int pe) {
  shmem_long_put(dest, source, n, pe);
}
KERNEL putmem_wave(void *dest, const void *source, size_t n, int pe) {
  shmemx_putmem_wave(dest, source, n, pe);
}
KERNEL put_wg(long *dest, const long *source, size_t n, int pe) {
  shmemx_long_put_wg(dest, source, n, pe);
}
KERNEL put_nbi_wg(long *dest, const long *source, size_t n, int pe) {
  shmemx_long_put_nbi_wg(dest, source, n, pe);
}
KERNEL get_wg(long *dest, const long *source, size_t n, int pe) {
  shmemx_long_get_wg(dest, source, n, pe);
}
KERNEL put_signal_wg(long *dest, const long *source, size_t n, uint64_t *signal, int pe) {
  shmemx_long_put_signal_wg(dest, source, n, signal, 1, SHMEM_SIGNAL_SET, pe);
}
KERNEL signal_add(uint64_t *signal, int pe) {
  shmem_signal_add(signal, 1, pe);
}
KERNEL fence(long *dest, long value, int pe) {
  shmem_long_p(dest, value, pe);
  shmem_fence();
  shmem_long_p(dest + 1, value, pe);
}
KERNEL quiet(long *dest, long value, int pe) {
  shmem_long_p(dest, value, pe);
  shmem_quiet();
  dest[2] = dest[1];
}
KERNEL wait_until(long *ivar) {
  shmem_long_wait_until(ivar, SHMEM_CMP_GE, 7);
  ivar[2] = ivar[1];
}
KERNEL test(long *ivar) {
  if (shmem_long_test(ivar, SHMEM_CMP_EQ, 7)) ivar[2] = ivar[1];
}
KERNEL atomic_add(long *dest, int pe) {
  shmem_long_atomic_add(dest, 7, pe);
}
KERNEL atomic_fetch_add(long *dest, int pe) {
  dest[1] = shmem_long_atomic_fetch_add(dest, 7, pe);
}
KERNEL atomic_swap(float *dest, int pe) {
  dest[1] = shmem_float_atomic_swap(dest, 7, pe);
}
KERNEL atomic_compare_swap(int *dest, int pe) {
  dest[1] = shmem_int_atomic_compare_swap(dest, 7, 8, pe);
}
KERNEL barrier_all(long *dest, int pe) {
  shmem_long_p(dest, 1, pe);
  shmem_barrier_all();
  dest[2] = dest[1];
}
KERNEL barrier_all_wg(long *dest, int pe) {
  shmem_long_p(dest + threadIdx.x, 1, pe);
  shmemx_barrier_all_wg();
  dest[2] = dest[1];
}
KERNEL team_sync_wg(shmem_team_t team) {
  shmemx_team_sync_wg(team);
}
KERNEL sum_reduce_wg(shmem_team_t team, float *dest, const float *source, size_t n) {
  shmemx_float_sum_reduce_wg(team, dest, source, n);
}
KERNEL fcollect_wg(shmem_team_t team, long *dest, const long *source, size_t n) {
  shmemx_long_fcollect_wg(team, dest, source, n);
}

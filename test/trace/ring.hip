// SPDX-License-Identifier: MIT
// Kernels that record more than there is room for: `ring ROUNDS EACH PAUSE` makes ROUNDS times EACH
// marks, numbered from 0, and between two rounds waits for the host, which sleeps for PAUSE
// milliseconds. Where it does, a call begins before each of the first rounds that waits until the
// last one is done.
#define SHMEM_TRACE_KERNELS
#include <cstdio>
#include <cstdlib>
#include <shmem/device/shmem.hpp>
#include <unistd.h>

__global__ void wait(unsigned rounds, uint64_t *done) {
  shmem_signal_wait_until(done, SHMEM_CMP_GE, rounds);
}

__global__ void marks(unsigned rounds, unsigned each, uint64_t *go, uint64_t *done) {
  for (unsigned r = 0; r < rounds; r++) {
    if (threadIdx.x == 0) shmem_signal_wait_until(go, SHMEM_CMP_GE, r + 1);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < each; i += blockDim.x) shmemx_trace_event(r * each + i);
    __syncthreads();
    if (threadIdx.x == 0) shmem_signal_set(done, r + 1, shmem_my_pe());
  }
}

int main(int, char **argv) {
  const unsigned rounds = unsigned(atoi(argv[1])), each = unsigned(atoi(argv[2]));
  const unsigned pause = unsigned(atoi(argv[3])) * 1000;
  shmem_init();
  auto *const words = static_cast<uint64_t *>(shmem_malloc_with_hints(256, SHMEMX_MALLOC_DEVICE));
  if (!words) shmem_global_exit(77);
  if (hipMemset(words, 0, 256) != hipSuccess || hipDeviceSynchronize() != hipSuccess) return 1;
  hipLaunchKernelGGL(marks, dim3(1), dim3(32), 0, nullptr, rounds, each, words, words + 16);
  hipStream_t streams[4] = {};
  for (unsigned r = 0; r < rounds; r++) {
    if (pause && r < 4) {
      if (hipStreamCreateWithFlags(&streams[r], hipStreamNonBlocking) != hipSuccess) return 1;
      hipLaunchKernelGGL(wait, dim3(1), dim3(1), 0, streams[r], rounds, words + 16);
      usleep(pause);
    }
    shmem_uint64_p(words, pause ? r + 1 : rounds, shmem_my_pe());
    shmem_uint64_wait_until(words + 16, SHMEM_CMP_GE, r + 1);
    if (pause) usleep(pause);
  }
  if (hipDeviceSynchronize() != hipSuccess) fprintf(stderr, "the kernel failed\n");
  for (hipStream_t stream : streams)
    if (stream && hipStreamDestroy(stream) != hipSuccess) return 1;
  shmem_finalize();
}

// SPDX-License-Identifier: MIT
// Calls on two streams, for trace.py, which knows their events.
#include <cstdio>
#include <cstdlib>
#include <hip/hip_runtime_api.h>
#include <shmem.h>
#include <shmemx.h>
#include <unistd.h>

#define HIP(call)                                                                                  \
  do {                                                                                             \
    if (const hipError_t error = (call); error != hipSuccess) {                                    \
      fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(error));                                \
      shmem_global_exit(1);                                                                        \
    }                                                                                              \
  } while (0)

int main() {
  shmem_init();
  const int me = shmem_my_pe(), next = (me + 1) % shmem_n_pes();
  hipStream_t a, b;
  HIP(hipStreamCreateWithFlags(&a, hipStreamNonBlocking));
  HIP(hipStreamCreateWithFlags(&b, hipStreamNonBlocking));
  auto *const data = static_cast<long *>(shmem_malloc_with_hints(1 << 16, SHMEMX_MALLOC_DEVICE));
  auto *const flag = static_cast<uint64_t *>(shmem_malloc_with_hints(8, SHMEMX_MALLOC_DEVICE));
  if (!data || !flag) shmem_global_exit(77);
  HIP(hipMemset(flag, 0, 8));
  HIP(hipDeviceSynchronize());
  shmem_barrier_all();

  for (int i = 0; i < 3; i++) shmemx_putmem_on_stream(data, data + 4096, 4096, next, a);
  shmemx_long_p_on_stream(data, 5, next, a);
  shmemx_barrier_all_on_stream(a);
  HIP(hipStreamSynchronize(a));
  shmemx_long_sum_reduce_on_stream(SHMEM_TEAM_WORLD, data, data + 4096, 100, b);
  HIP(hipStreamSynchronize(b));

  // One that waits for as long as the host does, and ends when the other stream says so. The host's
  // time begins when the stream has come to it: under ASan, with the cores taken, that was up to
  // 7 ms after the call (2026-11-27).
  hipEvent_t come;
  HIP(hipEventCreate(&come));
  HIP(hipEventRecord(come, a));
  shmemx_signal_wait_until_on_stream(flag, SHMEM_CMP_EQ, 1, a);
  HIP(hipEventSynchronize(come));
  usleep(30000);
  shmemx_trace_event(1);
  shmemx_signal_set_on_stream(flag, 1, me, b);
  HIP(hipStreamSynchronize(a));
  shmemx_trace_event(2);
  HIP(hipEventDestroy(come));

  // While a is captured, of which no event is to become part, b goes on. Long enough for the clock
  // to be set anew.
  hipGraph_t graph;
  hipGraphExec_t exec;
  HIP(hipStreamBeginCapture(a, hipStreamCaptureModeGlobal));
  usleep(1100000);
  shmemx_putmem_on_stream(data, data + 4096, 16, next, a);
  shmemx_putmem_on_stream(data + 8, data + 4096, 32, next, b);
  HIP(hipStreamEndCapture(a, &graph));
  size_t nodes = 0;
  HIP(hipGraphGetNodes(graph, nullptr, &nodes));
  if (nodes != 1) fprintf(stderr, "the graph has %zu nodes\n", nodes);
  HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  for (int i = 0; i < 2; i++) HIP(hipGraphLaunch(exec, a));
  HIP(hipStreamSynchronize(a));
  HIP(hipGraphExecDestroy(exec));
  HIP(hipGraphDestroy(graph));

  shmemx_trace_stop();
  shmemx_quiet_on_stream(a);
  shmemx_trace_start();
  for (int i = 0; i < 200; i++) shmemx_long_atomic_add_on_stream(data, 1, next, b);
  HIP(hipDeviceSynchronize());
  HIP(hipStreamDestroy(a));
  HIP(hipStreamDestroy(b));
  shmem_finalize();
}

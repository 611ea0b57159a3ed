// SPDX-License-Identifier: MIT
// Memory of hipMalloc's that is registered, at kernels that run on several GPUs and wait for each
// other there: on a gfx90a another GPU's is kept by the L2, which nothing but a release empties.
// Usage: coarse [ATOMIC], see coarse.py: one that cannot be had there. Says "refused" or "had".
#include "objects.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hip/hip_runtime.h>
#include <shmem/device/shmem.hpp>

namespace {

int me, npes, next, left;
hipStream_t stream;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "PE %d: %s:%d: %s\n", me, __FILE__, __LINE__, #condition);                   \
      shmem_global_exit(1);                                                                        \
    }                                                                                              \
  } while (0)
#define OK(call) CHECK((call) == hipSuccess)

template <class T> T *on_gpu() {
  void *const p = device_memory(0, false);
  CHECK(p);
  OK(hipMemset(p, 0, 2 << 20));
  OK(hipDeviceSynchronize());
  return static_cast<T *>(p);
}

constexpr int rounds = 6, length = 200; // of a message
struct Objects {
  uint64_t *sig;     // of a round each
  long *in, *out;    // messages, of a round each
  long *flag, *told; // one each
  int *wrong;        // of this PE alone
};
__device__ long value(int pe, int round, int i) {
  return pe * 1000000L + round * 1000 + i;
}
__device__ void expect(const Objects &o, bool right) {
  if (!right) atomicAdd(o.wrong, 1);
}

// A message of each round goes round, by a thread, a wave and all, into memory that was read
// before.
__global__ void send_signals(Objects o, int next, int left) {
  const int me = shmem_my_pe(), t = int(threadIdx.x), n = int(blockDim.x);
  for (int r = 0; r < rounds; r++) {
    long *const to = o.in + r * length, *const from = o.out + r * length;
    for (int i = t; i < length; i += n) expect(o, to[i] >= 0), from[i] = value(me, r, i);
    __syncthreads();
    if (r % 3 == 0 && t == 0)
      shmem_long_put_signal(to, from, length, o.sig + r, 7, SHMEM_SIGNAL_SET, next);
    if (r % 3 == 1 && t < 64)
      shmemx_long_put_signal_wave(to, from, length, o.sig + r, 7, SHMEM_SIGNAL_SET, next);
    if (r % 3 == 2)
      shmemx_long_put_signal_wg(to, from, length, o.sig + r, 7, SHMEM_SIGNAL_SET, next);
    if (t == 0) shmem_signal_wait_until(o.sig + r, SHMEM_CMP_EQ, 7);
    __syncthreads();
    for (int i = t; i < length; i += n) expect(o, to[i] == value(left, r, i));
  }
}
// A number is passed on by p, without a quiet, as programs do; and by signals.
__global__ void pass_numbers(Objects o, int next) {
  const int me = shmem_my_pe();
  for (long r = 1; r <= rounds; r++) {
    if (me) shmem_long_wait_until(o.flag, SHMEM_CMP_EQ, r);
    shmem_long_p(o.flag, r, next);
    if (!me) shmem_long_wait_until(o.flag, SHMEM_CMP_EQ, r);
  }
  for (int r = 1; r <= rounds; r++) {
    if (me) shmem_signal_wait_until(o.sig + rounds, SHMEM_CMP_EQ, uint64_t(r));
    shmem_signal_set(o.sig + rounds, uint64_t(r), next);
    if (!me) shmem_signal_wait_until(o.sig + rounds, SHMEM_CMP_EQ, uint64_t(r));
  }
}
// Reads a word that the PE before stores in its own memory and releases, over and over until it is
// there.
__global__ void look(Objects o, long *private_to, int left) {
  const int me = shmem_my_pe();
  for (long r = 1; r <= rounds; r++) {
    for (int i = 0; i < length; i++) o.told[1 + i] = value(me, int(r), i);
    shmem_fence();
    shmem_long_p(o.told, r, me);
    shmem_fence();
    while (shmem_long_g(o.told, left) < r) {
    }
    shmem_long_get(private_to, o.told + 1, length, left);
    expect(o, private_to[length - 1] >= value(left, int(r), length - 1));
    shmem_long_iget(private_to, o.told + 1, 1, 3, length / 3, left);
    expect(o, private_to[length / 3 - 1] >= value(left, int(r), length / 3 * 3 - 3));
  }
}
// One atomic on PE pe's object at p.
__global__ void one_atomic(const char *which, long *p, int pe) {
  auto *const sig = reinterpret_cast<uint64_t *>(p);
  const long none = 0;
  switch (which[0]) {
  case 'a':
    return shmem_long_atomic_add(p, 5, pe);
  case 's':
    return shmem_signal_add(sig, 5, pe);
  case 'p':
    return shmem_long_put_signal(p + 1, &none, 1, sig, 5, SHMEM_SIGNAL_ADD, pe);
  default:
    p[2] = shmem_long_atomic_fetch(p, pe);
  }
}

// The same on streams, where a release comes with the stream's end, not with the kernel's.
__global__ void store_all(Objects o, int round) {
  for (int i = int(threadIdx.x); i < length; i += int(blockDim.x))
    o.told[1 + i] = value(shmem_my_pe(), round, i);
}
__global__ void compare_all(Objects o, const long *got, int left, int round) {
  for (int i = int(threadIdx.x); i < length; i += int(blockDim.x))
    expect(o, got[i] == value(left, round, i));
}
void on_streams(const Objects &o) {
  uint64_t *const sig = o.sig + rounds + 1;
  long *const got = on_gpu<long>();
  for (int r = 1; r <= rounds; r++) {
    shmemx_signal_set_on_stream(sig, uint64_t(r), next, stream);
    shmemx_signal_wait_until_on_stream(sig, SHMEM_CMP_GE, uint64_t(r), stream);
    shmemx_uint64_p_on_stream(sig + 1, uint64_t(r), next, stream);
    shmemx_signal_wait_until_on_stream(sig + 1, SHMEM_CMP_GE, uint64_t(r), stream);
    hipLaunchKernelGGL(store_all, dim3(1), dim3(64), 0, stream, o, r);
    shmemx_barrier_all_on_stream(stream);
    shmemx_long_get_on_stream(got, o.told + 1, length, left, stream);
    hipLaunchKernelGGL(compare_all, dim3(1), dim3(64), 0, stream, o, got, left, r);
    shmemx_long_put_signal_on_stream(o.in, o.told + 1, length, sig + 2, uint64_t(r),
                                     SHMEM_SIGNAL_SET, next, stream);
    shmemx_signal_wait_until_on_stream(sig + 2, SHMEM_CMP_GE, uint64_t(r), stream);
    hipLaunchKernelGGL(compare_all, dim3(1), dim3(64), 0, stream, o, o.in, left, r);
    shmemx_barrier_all_on_stream(stream);
  }
  OK(hipStreamSynchronize(stream));
  OK(hipFree(got));
}

// By PE 1, on PE 0's object.
int atomic(const char *which, long *p) {
  puts(atomics_on_coarse() ? "had" : "refused");
  fflush(stdout);
  shmem_barrier_all();
  const auto is = [&](const char *name) { return !strcmp(which, name); };
  if (me == 1) {
    auto *const sig = reinterpret_cast<uint64_t *>(p);
    if (is("host add")) shmem_long_atomic_add(p, 5, 0);
    if (is("host fetch")) (void)shmem_long_atomic_fetch(p, 0);
    if (is("host signal")) shmem_signal_add(sig, 5, 0);
    if (is("host lock")) shmem_set_lock(p), shmem_clear_lock(p);
    if (is("stream add")) shmemx_long_atomic_add_on_stream(p, 5, 0, stream);
    if (is("stream signal")) shmemx_signal_add_on_stream(sig, 5, 0, stream);
    if (!strncmp(which, "kernel ", 7)) {
      char *name = on_gpu<char>();
      OK(hipMemcpy(name, which + 7, 1, hipMemcpyHostToDevice));
      OK(hipDeviceSynchronize());
      hipLaunchKernelGGL(one_atomic, dim3(1), dim3(1), 0, stream, name, p, 0);
    }
    (void)hipStreamSynchronize(stream);
    shmem_quiet();
  }
  shmem_barrier_all();
  long seen;
  OK(hipMemcpy(&seen, p, sizeof seen, hipMemcpyDeviceToHost));
  CHECK(me || strstr(which, "fetch") || strstr(which, "lock") || seen == 5);
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  shmem_init();
  me = shmem_my_pe(), npes = shmem_n_pes(), next = (me + 1) % npes, left = (me + npes - 1) % npes;
  OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  long *const memory = on_gpu<long>(), *const more = on_gpu<long>();
  shmemx_buffer_t handle;
  shmemx_buffer_register(memory, 2 << 20, &handle);
  int status = 0;
  if (argc > 1) {
    status = atomic(argv[1], memory);
  } else {
    Objects o;
    o.sig = reinterpret_cast<uint64_t *>(memory), o.flag = memory + 100, o.told = memory + 200;
    o.in = memory + 1000, o.out = o.in + rounds * length, o.wrong = on_gpu<int>();
    hipLaunchKernelGGL(send_signals, dim3(1), dim3(128), 0, stream, o, next, left);
    OK(hipStreamSynchronize(stream));
    shmem_barrier_all();
    hipLaunchKernelGGL(pass_numbers, dim3(1), dim3(1), 0, stream, o, next);
    OK(hipStreamSynchronize(stream));
    shmem_barrier_all();
    hipLaunchKernelGGL(look, dim3(1), dim3(1), 0, stream, o, more, left);
    OK(hipStreamSynchronize(stream));
    shmem_barrier_all();
    OK(hipMemset(o.told, 0, sizeof(long)));
    OK(hipDeviceSynchronize());
    on_streams(o);
    int wrong;
    OK(hipMemcpy(&wrong, o.wrong, sizeof wrong, hipMemcpyDeviceToHost));
    CHECK(wrong == 0);
    shmem_barrier_all();
  }
  shmemx_buffer_unregister(handle);
  OK(hipStreamDestroy(stream));
  shmem_finalize();
  return status;
}

// SPDX-License-Identifier: MIT
// Litmus tests of the strict machine, by the GPU's own instructions: with the waits and cache
// operations that LLVM's memory model asks for, the forbidden is never seen; without one of them it
// is, with a seed that makes all late. litmus [ROUNDS]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hip/hip_runtime.h>

#define HIP(call)                                                                                  \
  do {                                                                                             \
    const hipError_t error_ = (call);                                                              \
    if (error_ != hipSuccess) {                                                                    \
      printf("%s: %s\n", #call, hipGetErrorString(error_));                                        \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

constexpr int line = 64,
              words = 4; // a line of 256 bytes; words that a message has, each in its own

// LOAD_BITS, STORE_BITS, WRITE_BACK, DRAIN and ACQUIRE of this GPU, for which test/isa/expect.py
// looks in the library's code.
#include "words.h"
#if defined __gfx942__ || defined __gfx950__
#define EMPTY_L1 "buffer_inv sc0"
#else
#define EMPTY_L1 "buffer_wbinvl1_vol"
#endif

enum Release { no_release, wait, write_back, released };
enum Acquire { no_acquire, empty_l1, empty_l2, acquired };

__device__ void release(int how) {
  if (how == wait) asm volatile(DRAIN ::: "memory");
  if (how == write_back) asm volatile(WRITE_BACK "\n\t" DRAIN ::: "memory");
  if (how == released) __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
}
__device__ void acquire(int how) {
  if (how == empty_l1) asm volatile(EMPTY_L1 ::: "memory");
  if (how == empty_l2) asm volatile(ACQUIRE ::: "memory");
  if (how == acquired) __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
}
__device__ uint32_t load(const uint32_t *p) {
  uint32_t v;
  asm volatile("global_load_dword %0, %1, off\n\ts_waitcnt vmcnt(0)" : "=v"(v) : "v"(p) : "memory");
  return v;
}
__device__ uint32_t load_beyond(const uint32_t *p) {
  uint32_t v;
  asm volatile("global_load_dword %0, %1, off" LOAD_BITS "\n\ts_waitcnt vmcnt(0)"
               : "=v"(v)
               : "v"(p)
               : "memory");
  return v;
}
__device__ void store(uint32_t *p, uint32_t v) {
  asm volatile("global_store_dword %0, %1, off" ::"v"(p), "v"(v) : "memory");
}
__device__ void store_beyond(uint32_t *p, uint32_t v) {
  asm volatile("global_store_dword %0, %1, off" STORE_BITS ::"v"(p), "v"(v) : "memory");
}
__device__ void until(const uint32_t *p, uint32_t v) {
  while (load_beyond(p) < v) __builtin_amdgcn_s_sleep(1);
}

struct Mail {
  uint32_t *data, *flag, *answer, *seen;
};
// Message passing. Each thread of the sender has its own words; one of them tells.
__device__ void send(Mail m, uint32_t r, int before, int how) {
  for (int k = 0; k < words; k++) store(m.data + (threadIdx.x / 64 * words + k) * line, r);
  release(before);
  asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory");
  if (threadIdx.x == 0) {
    release(how);
    store_beyond(m.flag, r);
    until(m.answer, r);
  }
  asm volatile("s_barrier" ::: "memory");
}
__device__ void receive(Mail m, uint32_t r, int waves, int how) {
  for (int k = 0; k < waves * words; k++) (void)load(m.data + k * line); // as it was before
  until(m.flag, r);
  acquire(how);
  for (int k = waves * words - 1; k >= 0; k--)
    if (load(m.data + k * line) != r) *m.seen = r;
  asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
  store_beyond(m.answer, r);
}
// who: 0 sends and receives in two workgroups, 1 sends, 2 receives.
__global__ void messages(Mail m, int who, int rounds, int waves, int before, int how, int then) {
  const bool sends = who ? who == 1 : blockIdx.x == 0;
  for (int r = 1; r <= rounds; r++)
    if (sends)
      send(m, uint32_t(r), before, how);
    else if (threadIdx.x == 0)
      receive(m, uint32_t(r), waves, then);
}

// All workgroups begin a round together.
__device__ void together(uint32_t *count, uint32_t r) {
  atomicAdd(count, 1u);
  until(count, r * gridDim.x);
}
// Store buffering: each of two stores its own and loads the other's.
__global__ void buffering(uint32_t *x, uint32_t *y, uint32_t *saw, uint32_t *count, int rounds,
                          int how) {
  for (int r = 0; r < rounds; r++) {
    together(count, uint32_t(r + 1));
    const bool first = blockIdx.x == 0;
    store_beyond((first ? x : y) + r * line, 1);
    release(how);
    store(saw + 2 * r + blockIdx.x, load_beyond((first ? y : x) + r * line));
  }
}
// Two writers of a word each, and two readers that load both in different order.
__global__ void readers(uint32_t *x, uint32_t *y, uint32_t *saw, uint32_t *count, int rounds,
                        bool waits) {
  for (int r = 0; r < rounds; r++) {
    together(count, uint32_t(r + 1));
    if (blockIdx.x < 2) {
      store_beyond((blockIdx.x ? y : x) + r * line, 1);
      continue;
    }
    const uint32_t *p = (blockIdx.x == 2 ? x : y) + r * line,
                   *q = (blockIdx.x == 2 ? y : x) + r * line;
    uint32_t a, b;
    if (waits)
      a = load_beyond(p), b = load_beyond(q);
    else
      asm volatile("global_load_dword %0, %2, off" LOAD_BITS "\n\t"
                   "global_load_dword %1, %3, off" LOAD_BITS "\n\ts_waitcnt vmcnt(0)"
                   : "=&v"(a), "=&v"(b)
                   : "v"(p), "v"(q)
                   : "memory");
    store(saw + 2 * r + blockIdx.x - 2, a && !b);
  }
}

__global__ void count(uint32_t *p, int rounds) {
  for (int r = 0; r < rounds; r++)
    __hip_atomic_fetch_add(p, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

// A word that its own GPU has stored, and then another one, has the other's.
__global__ void hand_over(Mail m, bool own, int rounds) {
  for (int r = 1; r <= rounds; r++) {
    if (!own) {
      until(m.flag, uint32_t(r));
      store(m.data, 2 * uint32_t(r));
      release(write_back);
      store_beyond(m.answer, uint32_t(r));
      continue;
    }
    store(m.data, 1);
    release(wait);
    store_beyond(m.flag, uint32_t(r));
    until(m.answer, uint32_t(r));
    acquire(empty_l1);
    if (load(m.data) != 2 * uint32_t(r)) *m.seen = uint32_t(r);
  }
}

static int rounds = 60, failed;
static hipStream_t streams[2];

static uint32_t *room(size_t count, bool fine) {
  void *p;
  HIP(hipExtMallocWithFlags(&p, count * 4,
                            fine ? hipDeviceMallocFinegrained : hipDeviceMallocDefault));
  HIP(hipMemset(p, 0, count * 4));
  HIP(hipDeviceSynchronize());
  return static_cast<uint32_t *>(p);
}
static void finish() {
  for (int d = 0; d < 2; d++) HIP(hipStreamSynchronize(streams[d]));
}
static void judge(const char *what, bool seen, bool wanted) {
  printf("%-50s %s%s\n", what, seen ? "seen" : "never seen",
         seen == wanted ? "" : ", which is WRONG");
  failed += seen != wanted;
}

static void message(const char *what, bool across, bool fine, int waves, int before, int how,
                    int then, bool wanted) {
  HIP(hipSetDevice(0));
  Mail m = {room(size_t(waves) * words * line, fine), room(3 * line, true), nullptr, nullptr};
  m.answer = m.flag + line, m.seen = m.answer + line;
  uint32_t seen = 0;
  for (int turn = 0; turn < (wanted ? 20 : 1) && !seen; turn++) { // it is a matter of chance
    HIP(hipSetDevice(0));
    HIP(hipMemset(m.data, 0, size_t(waves) * words * line * 4));
    HIP(hipMemset(m.flag, 0, 3 * line * 4));
    HIP(hipDeviceSynchronize());
    hipLaunchKernelGGL(messages, dim3(across ? 1 : 2), dim3(64 * waves), 0, streams[0], m, across,
                       rounds, waves, before, how, then);
    HIP(hipSetDevice(1));
    if (across)
      hipLaunchKernelGGL(messages, dim3(1), dim3(64), 0, streams[1], m, 2, rounds, waves, before,
                         how, then);
    finish();
    HIP(hipMemcpy(&seen, m.seen, 4, hipMemcpyDeviceToHost));
  }
  judge(what, seen != 0, wanted);
  HIP(hipFree(m.flag));
  HIP(hipFree(m.data));
}
// Of two GPUs at one word: some are lost.
static void atomics(const char *what, bool fine, bool wanted) {
  bool lost = false;
  for (int turn = 0; turn < (wanted ? 20 : 1) && !lost; turn++) { // where both are there at once
    HIP(hipSetDevice(0));
    uint32_t *p = room(1, fine), sum;
    for (int d = 0; d < 2; d++) {
      HIP(hipSetDevice(d));
      hipLaunchKernelGGL(count, dim3(1), dim3(1), 0, streams[d], p, 10 * rounds);
    }
    finish();
    HIP(hipMemcpy(&sum, p, 4, hipMemcpyDeviceToHost));
    HIP(hipFree(p));
    lost = sum != uint32_t(20 * rounds);
  }
  judge(what, lost, wanted);
}
static void undone(const char *what, bool fine, bool wanted) {
  HIP(hipSetDevice(0));
  Mail m = {room(line, fine), room(3 * line, true), nullptr, nullptr};
  m.answer = m.flag + line, m.seen = m.answer + line;
  for (int d = 0; d < 2; d++) {
    HIP(hipSetDevice(d));
    hipLaunchKernelGGL(hand_over, dim3(1), dim3(1), 0, streams[d], m, d == 0, rounds);
  }
  finish();
  uint32_t seen, last;
  HIP(hipMemcpy(&seen, m.seen, 4, hipMemcpyDeviceToHost));
  HIP(hipMemcpy(&last, m.data, 4, hipMemcpyDeviceToHost));
  judge(what, seen || last != 2 * uint32_t(rounds), wanted);
  HIP(hipFree(m.flag));
  HIP(hipFree(m.data));
}
static void race(const char *what, bool four, int how, bool wanted) {
  const int rounds = (four ? 100 : 10) * ::rounds; // all at once is rare
  HIP(hipSetDevice(0));
  const size_t count = size_t(rounds) * line;
  uint32_t *x = room(count, false), *y = room(count, false), *saw = room(2 * size_t(rounds), false),
           *n = room(1, true);
  if (four)
    hipLaunchKernelGGL(readers, dim3(4), dim3(1), 0, streams[0], x, y, saw, n, rounds, how == wait);
  else
    hipLaunchKernelGGL(buffering, dim3(2), dim3(1), 0, streams[0], x, y, saw, n, rounds, how);
  finish();
  uint32_t *seen = static_cast<uint32_t *>(malloc(8 * size_t(rounds)));
  HIP(hipMemcpy(seen, saw, 8 * size_t(rounds), hipMemcpyDeviceToHost));
  int any = 0;
  for (int r = 0; r < rounds; r++)
    any += four ? seen[2 * r] && seen[2 * r + 1] : !seen[2 * r] && !seen[2 * r + 1];
  judge(what, any, wanted);
  free(seen);
  for (uint32_t *p : {x, y, saw, n}) HIP(hipFree(p));
}

int main(int argc, char **argv) {
  if (argc > 1) rounds = atoi(argv[1]);
  int gpus;
  HIP(hipGetDeviceCount(&gpus));
  if (gpus < 2) return 77;
  for (int d = 0; d < 2; d++) {
    HIP(hipSetDevice(d));
    HIP(hipSetDeviceFlags(hipDeviceScheduleBlockingSync)); // the cores are the GPU's
    HIP(hipDeviceEnablePeerAccess(1 - d, 0));
    HIP(hipStreamCreate(&streams[d]));
  }
  hipDeviceProp_t properties;
  HIP(hipGetDeviceProperties(&properties, 0));
  const bool seen = getenv("AMDGPU_STRICT") != nullptr, never = false;
  // The L2s of gfx942 keep fine-grained memory as well, and those of its dies know nothing of each
  // other.
  const bool gfx90a = !strncmp(properties.gcnArchName, "gfx90a", 6), kept = gfx90a ? never : seen;
  message("one GPU: nothing", false, false, 1, no_release, no_release, no_acquire, seen);
  message("one GPU: wait for the stores", false, false, 1, no_release, wait, no_acquire, seen);
  message("one GPU: empty the L1", false, false, 1, no_release, no_release, empty_l1, seen);
  message("one GPU: wait, empty the L1", false, false, 1, no_release, wait, empty_l1, kept);
  message("one GPU: the compiler's fences", false, false, 1, no_release, released, acquired, never);
  message("fine-grained: wait for the stores", true, true, 1, no_release, wait, no_acquire, seen);
  message("fine-grained: empty the L1", true, true, 1, no_release, no_release, empty_l1, seen);
  message("fine-grained: wait, empty the L1", true, true, 1, no_release, wait, empty_l1, kept);
  message("fine-grained: the compiler's fences", true, true, 1, no_release, released, acquired,
          never);
  message("coarse-grained: wait, empty the L1", true, false, 1, no_release, wait, empty_l1, seen);
  message("coarse-grained: write back, empty the L1", true, false, 1, no_release, write_back,
          empty_l1, seen);
  message("coarse-grained: wait, empty L2 and L1", true, false, 1, no_release, wait, empty_l2,
          seen);
  message("coarse-grained: write back, empty L2 and L1", true, false, 1, no_release, write_back,
          empty_l2, never);
  message("coarse-grained: the compiler's fences", true, false, 1, no_release, released, acquired,
          never);
  // Those of gfx90a are done in the L2 of the GPU that asks, where that keeps the line.
  atomics("fine-grained: atomics of two GPUs are lost", true, never);
  atomics("coarse-grained: atomics of two GPUs are lost", false, gfx90a ? seen : never);
  // A gfx90a's L2 lets go of a line of its own GPU's memory that another GPU writes to.
  if (gfx90a) {
    undone("fine-grained: another GPU's store is undone", true, never);
    undone("coarse-grained: another GPU's store is undone", false, never);
  }
  // A barrier of the workgroup does not end what its other waves have stored.
  message("four waves: barrier, one releases", true, true, 4, no_release, released, acquired, seen);
  message("four waves: wait, barrier, one releases", true, true, 4, wait, released, acquired,
          never);
  race("store buffering: nothing", false, no_release, seen);
  race("store buffering: wait for the store", false, wait, never);
  race("independent reads: nothing", true, no_release, seen);
  race("independent reads: wait for each", true, wait, never);
  return failed != 0;
}

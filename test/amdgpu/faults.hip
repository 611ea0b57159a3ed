// SPDX-License-Identifier: MIT
// A kernel that does what it must not: faults WHAT.
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <hip/hip_runtime.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

__global__ void wild(int *p) {
  if (threadIdx.x == 5) p[1ull << 44] = 1;
}
__global__ void trap(int *) {
  __builtin_trap();
}
__global__ void lds(int *p) {
  extern __shared__ int shared[];
  shared[threadIdx.x * 1000] = *p;
}
__global__ void misaligned(int *p) {
  __hip_atomic_fetch_add(reinterpret_cast<int *>(reinterpret_cast<char *>(p) + 1), 1,
                         __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
__global__ void unknown(int *p) {
  int v;
  asm volatile("ds_nop\n\tds_append %0" : "=v"(v));
  *p = v;
}
// Mistakes that only the strict machine sees: the plain one has no late results.
#if defined __gfx90a__
#define NEXT "" // to the last wait state in which a store of more than 8 bytes reads its registers
#else
#define NEXT "s_nop 0\n\t"
#endif
__global__ void early(int *p) {
  int v;
  asm volatile("global_load_dword %0, %1, off\n\tv_add_u32 %0, 1, %0\n\ts_waitcnt vmcnt(0)"
               : "=&v"(v)
               : "v"(p)
               : "memory");
  *p = v;
}
__global__ void early_scalar(int *p) {
  int v;
  asm volatile("s_load_dword %0, %1, 0x0\n\ts_add_u32 %0, %0, 1\n\ts_waitcnt lgkmcnt(0)"
               : "=&s"(v)
               : "s"(p)
               : "memory", "scc");
  *p = v;
}
__global__ void early_lds(int *p) {
  int v;
  asm volatile(
      "ds_read_b32 %0, %1\n\ts_waitcnt vmcnt(0)\n\tv_add_u32 %0, 1, %0\n\ts_waitcnt lgkmcnt(0)"
      : "=&v"(v)
      : "v"(0)
      : "memory");
  *p = v;
}
__global__ void overwritten(int *p) {
  asm volatile("global_store_dwordx4 %0, v[8:11], off\n\t" NEXT "v_mov_b32 v9, 0" ::"v"(p)
               : "memory", "v8", "v9", "v10", "v11");
}
__global__ void fine(int *p) {
  atomicAdd(p, 1);
}

// Arrays of 2 and of 16 KiB that each lane has in memory.
template <int bytes> __device__ void fill(int *p) {
  constexpr int n = bytes / 4;
  volatile int mine[n];
  for (int i = 0; i < n; i++) mine[(i * 7 + threadIdx.x) % n] = i;
  int wrong = 0;
  for (int i = 0; i < n; i += 101) wrong += mine[(i * 7 + threadIdx.x) % n] != i;
  atomicAdd(p, wrong ? 1000 : 1);
}
__global__ void stack(int *p) {
  fill<2048>(p);
}
__global__ void tall(int *p) {
  fill<16384>(p);
}
__global__ void endless(int *p) {
  while (__hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) >= 0)
    __builtin_amdgcn_s_sleep(1);
}
// All wait for the last workgroup, which gets no place if there are more than the compute units
// hold.
__device__ void wait_for_last(int *p) {
  if (blockIdx.x == gridDim.x - 1)
    __hip_atomic_store(p, 384, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  while (!__hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT))
    __builtin_amdgcn_s_sleep(1);
}

__global__ void crowd(int *p) {
  wait_for_last(p);
}
// With all registers of a SIMD, of which a compute unit has four, and with a granule more than half
// of them.
__global__ void __launch_bounds__(256) tight(int *p) {
  asm volatile("" ::: "v255", "a255");
  wait_for_last(p);
}
__global__ void __launch_bounds__(256) half(int *p) {
  asm volatile("" ::: "v255", "a7");
  wait_for_last(p);
}

hsa_queue_t *make_queue(void (*told)(hsa_status_t, hsa_queue_t *, void *)) {
  static hsa_agent_t gpu;
  const auto look = [](hsa_agent_t agent, void *) {
    hsa_device_type_t type;
    (void)hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
    if (type != HSA_DEVICE_TYPE_GPU) return HSA_STATUS_SUCCESS;
    gpu = agent;
    return HSA_STATUS_INFO_BREAK;
  };
  hsa_queue_t *queue = nullptr;
  if (hsa_iterate_agents(look, nullptr) == HSA_STATUS_INFO_BREAK)
    (void)hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_SINGLE, told, nullptr, 0, 0, &queue);
  return queue;
}

// Queues are made while kernels begin.
int queues() {
  int *p, seen = -1;
  if (hipMalloc(&p, 64) != hipSuccess || hipMemset(p, 0, 64) != hipSuccess) return 3;
  bool done = false, good = true;
  std::thread other([&] {
    for (int k = 0; k < 100; k++) good &= make_queue(nullptr) != nullptr;
    __atomic_store_n(&done, true, __ATOMIC_RELEASE);
  });
  int begun = 0;
  for (; !__atomic_load_n(&done, __ATOMIC_ACQUIRE); begun++) {
    hipLaunchKernelGGL(fine, dim3(1), dim3(1), 0, nullptr, p);
    if (begun % 16 == 0) (void)hipDeviceSynchronize();
  }
  other.join();
  const hipError_t error = hipMemcpy(&seen, p, sizeof seen, hipMemcpyDeviceToHost);
  if (error != hipSuccess || !good) return 4;
  printf("%d\n", seen - begun);
  fflush(stdout);
  _exit(0); // the queues stay: ROCr 5.2 needs more than 25 s to destroy them (2026-11, under load)
}

// One packet in a queue of its own, of a type that GPUs do not have, a call of a function; or of a
// kernel whose workgroup wants more LDS than there is, or more registers, which HIP refuses by
// itself; or of one that wants 1 GiB of stack for each lane, of which the queue's owner is told.
int packet(const char *what) {
  const bool greedy = !strcmp(what, "greedy"), large = !strcmp(what, "large"),
             wide = !strcmp(what, "wide");
  alignas(64) static char descriptor[64] = {};
  descriptor[48] = wide ? 63 : 0; // 512 registers
  if (hsa_init() != HSA_STATUS_SUCCESS) return 5;
  hsa_queue_t *queue = make_queue([](hsa_status_t error, hsa_queue_t *, void *) {
    const char *text = "?";
    (void)hsa_status_string(error, &text);
    fprintf(stderr, "%s\n", text);
    _exit(8);
  });
  if (!queue) return 6;
  auto *slot = static_cast<hsa_kernel_dispatch_packet_t *>(queue->base_address);
  slot->workgroup_size_x = wide ? 320 : 64, slot->workgroup_size_y = slot->workgroup_size_z = 1;
  slot->grid_size_x = 64, slot->grid_size_y = slot->grid_size_z = 1;
  slot->private_segment_size = greedy ? 1u << 30 : 0;
  slot->group_segment_size = large ? 1u << 20 : 0;
  slot->kernel_object = reinterpret_cast<uint64_t>(descriptor);
  __atomic_store_n(&slot->header,
                   uint16_t(greedy || large || wide ? HSA_PACKET_TYPE_KERNEL_DISPATCH
                                                    : HSA_PACKET_TYPE_AGENT_DISPATCH),
                   __ATOMIC_RELEASE);
  hsa_queue_store_write_index_relaxed(queue, 1);
  hsa_signal_store_screlease(queue->doorbell_signal, 0);
  for (;;) (void)hsa_queue_load_read_index_scacquire(queue);
}

// A peer frees what it has exported, and takes and fills as much again, before this process's
// kernel adds to what it has mapped: no fault, and none of the peer's new numbers, because the
// kernel's driver keeps a buffer for all that have imported it.
int freed() {
  int to[2], from[2], seen = -1;
  char turn = 0;
  hipIpcMemHandle_t handle;
  const auto take = [&](auto &what) { return read(from[0], &what, sizeof what) == sizeof what; };
  if (pipe(to) || pipe(from)) return 9;
  const pid_t peer = fork(); // before HIP's runtime has threads
  if (!peer) {
    int *p, *again;
    if (hipMalloc(&p, 4096) != hipSuccess || hipMemset(p, 1, 4096) != hipSuccess ||
        hipIpcGetMemHandle(&handle, p) != hipSuccess ||
        write(from[1], &handle, sizeof handle) != sizeof handle || read(to[0], &turn, 1) != 1 ||
        hipFree(p) != hipSuccess || hipMalloc(&again, 4096) != hipSuccess ||
        hipMemset(again, 255, 4096) != hipSuccess || hipDeviceSynchronize() != hipSuccess ||
        write(from[1], &turn, 1) != 1 || read(to[0], &turn, 1) != 1)
      _exit(9);
    _exit(0);
  }
  close(from[1]); // a peer that fails is the end of what it says
  void *p;
  if (!take(handle) ||
      hipIpcOpenMemHandle(&p, handle, hipIpcMemLazyEnablePeerAccess) != hipSuccess ||
      write(to[1], &turn, 1) != 1 || !take(turn))
    return 10;
  hipLaunchKernelGGL(fine, dim3(3), dim3(128), 0, nullptr, static_cast<int *>(p));
  if (hipMemcpy(&seen, p, sizeof seen, hipMemcpyDeviceToHost) != hipSuccess) return 11;
  int status = 0;
  if (write(to[1], &turn, 1) != 1 || waitpid(peer, &status, 0) != peer || status) return 12;
  printf("%d\n", seen - 0x01010101);
  return 0;
}

// The driver shares whole allocations: a part of one is refused, by ROCr and below it,
// and HIP's handle of an address within maps all that is around it.
int whole() {
  constexpr size_t bytes = 4 << 20, in = 1 << 20;
  int from[2], end[2];
  char turn = 0;
  hipIpcMemHandle_t handle;
  if (pipe(from) || pipe(end)) return 9;
  const pid_t peer = fork(); // before HIP's runtime has threads
  if (!peer) {
    char *p;
    if (hipMalloc(&p, bytes) != hipSuccess || hipMemset(p, 1, in) != hipSuccess ||
        hipMemset(p + in, 2, bytes - in) != hipSuccess || hipDeviceSynchronize() != hipSuccess)
      _exit(13);
    hsa_amd_ipc_memory_t part;
    if (hsa_amd_ipc_memory_create(p + in, in, &part) == HSA_STATUS_SUCCESS ||
        hsa_amd_ipc_memory_create(p, in, &part) == HSA_STATUS_SUCCESS)
      _exit(14);
    // Of a library of its own; from ROCr 6.3 on what is asked for is an allocation, by its number.
    using Share = int (*)(void *, uint64_t, void *);
    uint32_t place[8];
    if (const auto share = reinterpret_cast<Share>(dlsym(RTLD_DEFAULT, "hsaKmtShareMemory")))
      if (!share(p + in, in, place) || !share(p, in, place) || share(p, bytes, place)) _exit(15);
    if (hipIpcGetMemHandle(&handle, p + in) != hipSuccess ||
        write(from[1], &handle, sizeof handle) != sizeof handle)
      _exit(16);
    close(end[1]);
    (void)!read(end[0], &turn, 1); // until the other one is done with it
    _exit(0);
  }
  close(from[1]);
  void *p = nullptr;
  unsigned first = 0, last = 0;
  const auto load = [](unsigned &to, char *at) {
    return hipMemcpy(&to, at, sizeof to, hipMemcpyDeviceToHost) == hipSuccess;
  };
  bool good = read(from[0], &handle, sizeof handle) == sizeof handle &&
              hipIpcOpenMemHandle(&p, handle, hipIpcMemLazyEnablePeerAccess) == hipSuccess &&
              load(first, static_cast<char *>(p));
  char *const base =
      static_cast<char *>(p) - (first == 0x02020202 ? in : 0); // HIP 5.2 opens the base
  good = good && load(first, base) && load(last, base + bytes - sizeof last);
  int status = 0;
  close(end[0]), close(end[1]);
  if (waitpid(peer, &status, 0) != peer || status) return WEXITSTATUS(status);
  if (!good) return 17;
  printf("%x %x\n", first, last);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "freed")) return freed();
  if (argc == 2 && !strcmp(argv[1], "whole")) return whole();
  if (argc == 2 && !strcmp(argv[1], "queues")) return queues();
  for (const char *name : {"packet", "greedy", "large", "wide"})
    if (argc == 2 && !strcmp(argv[1], name)) return packet(name);
  const struct {
    const char *name;
    void (*kernel)(int *);
    unsigned groups = 3, threads = 128, groups_a_unit = 0;
  } kernels[] = {{"wild", wild},
                 {"trap", trap},
                 {"lds", lds},
                 {"misaligned", misaligned},
                 {"unknown", unknown},
                 {"fine", fine},
                 {"endless", endless},
                 {"seated", crowd},
                 {"crowd", crowd, 2000},
                 {"seated_tight", tight, 0, 256, 1},
                 {"crowd_tight", tight, 1, 256, 1},
                 {"seated_half", half, 0, 64, 4},
                 {"crowd_half", half, 1, 64, 4},
                 {"stack", stack},
                 {"tall", tall},
                 {"early", early},
                 {"early_scalar", early_scalar},
                 {"early_lds", early_lds},
                 {"overwritten", overwritten}};
  for (const auto &k : kernels) {
    if (argc != 2 || strcmp(argv[1], k.name)) continue;
    int *p, seen = -1;
    if (hipMalloc(&p, 64) != hipSuccess || hipMemset(p, 0, 64) != hipSuccess) return 3;
    int units = 0;
    if (hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, 0) != hipSuccess)
      return 3;
    hipLaunchKernelGGL(k.kernel, dim3(k.groups + k.groups_a_unit * unsigned(units)),
                       dim3(k.threads), 64, nullptr, p);
    if (const hipError_t error = hipGetLastError(); error != hipSuccess) {
      fprintf(stderr, "%s\n", hipGetErrorName(error));
      return 7;
    }
    if (hipMemcpy(&seen, p, sizeof seen, hipMemcpyDeviceToHost) != hipSuccess) return 4;
    printf("%d\n", seen);
    return 0;
  }
  return 2;
}

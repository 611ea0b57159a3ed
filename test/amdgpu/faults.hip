// SPDX-License-Identifier: MIT
// A kernel that does what it must not: faults WHAT.
#include <cstdio>
#include <cstring>
#include <hip/hip_runtime.h>
#include <hsa/hsa.h>

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
__global__ void fine(int *p) {
  atomicAdd(p, 1);
}

__global__ void endless(int *p) {
  while (__hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) >= 0)
    __builtin_amdgcn_s_sleep(1);
}

// A packet of a type that GPUs do not have: a call of a function.
int packet() {
  if (hsa_init() != HSA_STATUS_SUCCESS) return 5;
  hsa_queue_t *queue = nullptr;
  const auto make = [](hsa_agent_t agent, void *made) {
    hsa_device_type_t type;
    (void)hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
    if (type != HSA_DEVICE_TYPE_GPU) return HSA_STATUS_SUCCESS;
    (void)hsa_queue_create(agent, 64, HSA_QUEUE_TYPE_SINGLE, nullptr, nullptr, 0, 0,
                           static_cast<hsa_queue_t **>(made));
    return HSA_STATUS_INFO_BREAK;
  };
  (void)hsa_iterate_agents(make, &queue);
  if (!queue) return 6;
  auto *slot = static_cast<hsa_agent_dispatch_packet_t *>(queue->base_address);
  __atomic_store_n(&slot->header, uint16_t(HSA_PACKET_TYPE_AGENT_DISPATCH), __ATOMIC_RELEASE);
  hsa_queue_store_write_index_relaxed(queue, 1);
  hsa_signal_store_screlease(queue->doorbell_signal, 0);
  for (;;) (void)hsa_queue_load_read_index_scacquire(queue);
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "packet")) return packet();
  const struct {
    const char *name;
    void (*kernel)(int *);
  } kernels[] = {
      {"wild", wild},       {"trap", trap}, {"lds", lds},        {"misaligned", misaligned},
      {"unknown", unknown}, {"fine", fine}, {"endless", endless}};
  for (const auto &k : kernels) {
    if (argc != 2 || strcmp(argv[1], k.name)) continue;
    int *p, seen = -1;
    if (hipMalloc(&p, 64) != hipSuccess || hipMemset(p, 0, 64) != hipSuccess) return 3;
    hipLaunchKernelGGL(k.kernel, dim3(3), dim3(128), 64, nullptr, p);
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

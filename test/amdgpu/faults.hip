// SPDX-License-Identifier: MIT
// A kernel that does what it must not: faults WHAT.
#include <cstdio>
#include <cstring>
#include <hip/hip_runtime.h>

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

int main(int argc, char **argv) {
  const struct {
    const char *name;
    void (*kernel)(int *);
  } kernels[] = {{"wild", wild},       {"trap", trap}, {"lds", lds}, {"misaligned", misaligned},
                 {"unknown", unknown}, {"fine", fine}};
  for (const auto &k : kernels) {
    if (argc != 2 || strcmp(argv[1], k.name)) continue;
    int *p, seen = -1;
    if (hipMalloc(&p, 64) != hipSuccess || hipMemset(p, 0, 64) != hipSuccess) return 3;
    hipLaunchKernelGGL(k.kernel, dim3(3), dim3(128), 64, nullptr, p);
    if (hipMemcpy(&seen, p, sizeof seen, hipMemcpyDeviceToHost) != hipSuccess) return 4;
    printf("%d\n", seen);
    return 0;
  }
  return 2;
}

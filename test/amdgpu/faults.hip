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

int main(int argc, char **argv) {
  const struct {
    const char *name;
    void (*kernel)(int *);
  } kernels[] = {{"wild", wild},
                 {"trap", trap},
                 {"lds", lds},
                 {"misaligned", misaligned},
                 {"unknown", unknown},
                 {"fine", fine},
                 {"early", early},
                 {"early_scalar", early_scalar},
                 {"early_lds", early_lds},
                 {"overwritten", overwritten}};
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

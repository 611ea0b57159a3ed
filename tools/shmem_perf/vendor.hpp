// SPDX-License-Identifier: MIT
// What a user would call instead: the vendor's product of matrices and its collectives, by their C
// interfaces, where they are found at run time. Nothing of them is needed to build this.
#pragma once
#include "nccl.hpp"
#include <cstdio>

struct Vendor {
  bool product = false, collectives = false; // on all PEs
  const char *blas = "";                     // the library's file
  Nccl nccl;

  // arch is what HIP calls the GPU: gfx90a, sm_90, cpu.
  void find(const char *arch, hipStream_t s) {
    stream = s;
    rocm = strncmp(arch, "gfx", 3) == 0;
    if (!rocm && strncmp(arch, "sm_", 3) != 0) return;
    find_product();
    collectives = nccl.open(shmem_my_pe(), shmem_n_pes());
  }

  // C = A B in bf16, all by rows without gaps. The libraries count by columns: C^T = B^T A^T.
  void multiply(size_t m, size_t n, size_t k, const void *a, const void *b, void *c) {
    const float one = 1, zero = 0;
    const int mm = int(m), nn = int(n), kk = int(k);
    if (rocm)
      must("rocblas_gemm_ex", roc_gemm(handle, 111, 111, nn, mm, kk, &one, b, 168, nn, a, 168, kk,
                                       &zero, c, 168, nn, c, 168, nn, 151, 0, 0, 0));
    else
      must("cublasGemmEx",
           cu_gemm(handle, 0, 0, nn, mm, kk, &one, b, 14, nn, a, 14, kk, &zero, c, 14, nn, 68, -1));
  }
  static void must(const char *what, int status) {
    if (!status) return;
    fprintf(stderr, "error: PE %d: %s: status %d\n", shmem_my_pe(), what, status);
    shmem_global_exit(1);
  }
  ~Vendor() {
    if (collectives) nccl.destroy(nccl.comm);
  }

private:
  bool rocm = false;
  hipStream_t stream = nullptr;
  void *handle = nullptr;
  int (*cu_gemm)(void *, int, int, int, int, int, const void *, const void *, int, int,
                 const void *, int, int, const void *, void *, int, int, int, int);
  int (*roc_gemm)(void *, int, int, int, int, int, const void *, const void *, int, int,
                  const void *, int, int, const void *, const void *, int, int, void *, int, int,
                  int, int, int32_t, uint32_t);
  static bool on_all(bool mine) {
    static int here, all;
    here = mine;
    shmem_barrier_all();
    shmem_int_min_reduce(SHMEM_TEAM_WORLD, &all, &here, 1);
    return all != 0;
  }
  template <size_t n> static void *open(const char *const (&names)[n], const char **found) {
    for (const char *name : names)
      if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return *found = name, library;
    return nullptr;
  }

  void find_product() {
    int (*create)(void **), (*set_stream)(void *, hipStream_t);
    void *p = rocm ? open({"librocblas.so.5", "librocblas.so.4", "librocblas.so.3"}, &blas)
                   : open({"libcublas.so.13", "libcublas.so.12"}, &blas);
    const bool here = p &&
                      (rocm ? Nccl::find(p, "rocblas_create_handle", &create) &&
                                  Nccl::find(p, "rocblas_set_stream", &set_stream) &&
                                  Nccl::find(p, "rocblas_gemm_ex", &roc_gemm)
                            : Nccl::find(p, "cublasCreate_v2", &create) &&
                                  Nccl::find(p, "cublasSetStream_v2", &set_stream) &&
                                  Nccl::find(p, "cublasGemmEx", &cu_gemm)) &&
                      create(&handle) == 0 && set_stream(handle, stream) == 0;
    product = on_all(here);
  }
};

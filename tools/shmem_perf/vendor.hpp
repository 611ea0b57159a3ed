// SPDX-License-Identifier: MIT
// The vendor's product of matrices and its collectives, which a user would call instead, by their C
// interfaces, where they are found at run time. Nothing of them is needed to build this.
#pragma once
#include "nccl.hpp"
#include <cstdio>
#include <vector>

// hipBLASLt, as its public header hipblaslt.h of ROCm 6.0 to 7 declares it; the numbers are those
// of its enumerations.
struct HipBlasLt {
  struct Algorithm {
    uint8_t data[16];
    size_t most_workspace;
  };
  struct Heuristic {
    Algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
  };
  static constexpr int bf16 = 14, fp32 = 0, compute_fp32 = 2, preference_workspace = 1;
  static constexpr size_t workspace_bytes = size_t(64) << 20;
  void *handle = nullptr, *product = nullptr, *workspace = nullptr;
  int (*create)(void **), (*create_product)(void **, int, int);
  int (*create_layout)(void **, int, uint64_t, uint64_t, int64_t);
  int (*create_preference)(void **), (*set_preference)(void *, int, const void *, size_t);
  int (*choose)(void *, void *, void *, void *, void *, void *, void *, int, Heuristic *, int *);
  int (*matmul)(void *, void *, const void *, const void *, void *, const void *, void *,
                const void *, const void *, void *, void *, void *, const Algorithm *, void *,
                size_t, hipStream_t);

  // The objects of a shape; made at its first product, which is checked and not timed.
  struct Plan {
    size_t m, n, k;
    void *a, *b, *c;
    Algorithm algorithm;
  };
  std::vector<Plan> plans;

  bool open(void *library) {
    return Nccl::find(library, "hipblasLtCreate", &create) &&
           Nccl::find(library, "hipblasLtMatmulDescCreate", &create_product) &&
           Nccl::find(library, "hipblasLtMatrixLayoutCreate", &create_layout) &&
           Nccl::find(library, "hipblasLtMatmulPreferenceCreate", &create_preference) &&
           Nccl::find(library, "hipblasLtMatmulPreferenceSetAttribute", &set_preference) &&
           Nccl::find(library, "hipblasLtMatmulAlgoGetHeuristic", &choose) &&
           Nccl::find(library, "hipblasLtMatmul", &matmul) && create(&handle) == 0 &&
           create_product(&product, compute_fp32, fp32) == 0 &&
           hipMalloc(&workspace, workspace_bytes) == hipSuccess;
  }
  // By columns; 0, or a status. A product that hipBLASLt has no kernel for is -1.
  int plan(size_t m, size_t n, size_t k) {
    Plan p = {m, n, k, nullptr, nullptr, nullptr, {}};
    void *preference = nullptr;
    const uint64_t most = workspace_bytes;
    Heuristic best;
    int status, found = 0;
    if ((status = create_layout(&p.a, bf16, m, k, int64_t(m))) ||
        (status = create_layout(&p.b, bf16, k, n, int64_t(k))) ||
        (status = create_layout(&p.c, bf16, m, n, int64_t(m))) ||
        (status = create_preference(&preference)) ||
        (status = set_preference(preference, preference_workspace, &most, sizeof most)) ||
        (status = choose(handle, product, p.a, p.b, p.c, p.c, preference, 1, &best, &found)))
      return status;
    p.algorithm = best.algorithm;
    plans.push_back(p);
    return found ? 0 : -1;
  }
  int multiply(size_t m, size_t n, size_t k, const void *a, const void *b, void *c,
               hipStream_t stream) {
    const float one = 1, zero = 0;
    const Plan *p = nullptr;
    for (const Plan &known : plans)
      if (known.m == m && known.n == n && known.k == k) p = &known;
    if (!p) {
      if (const int status = plan(m, n, k)) return status;
      p = &plans.back();
    }
    return matmul(handle, product, &one, a, p->a, b, p->b, &zero, c, p->c, c, p->c, &p->algorithm,
                  workspace, workspace_bytes, stream);
  }
};

struct Vendor {
  bool product = false, collectives = false; // on all PEs
  const char *blas = "";                     // the library's file
  Nccl nccl;

  // All PEs take the same library, the first that works with their GPUs.
  void find(hipStream_t s) {
    stream = s;
    product = on_all(find_hipblaslt()) || on_all(find_rocblas()) || on_all(find_cublas());
    collectives = nccl.open(shmem_my_pe(), shmem_n_pes());
  }

  // C = A B in bf16, all by rows without gaps. The libraries count by columns: C^T = B^T A^T.
  void multiply(size_t m, size_t n, size_t k, const void *a, const void *b, void *c) {
    const float one = 1, zero = 0;
    const int mm = int(m), nn = int(n), kk = int(k);
    if (kind == hipblaslt)
      must("hipblasLtMatmul", lt.multiply(n, m, k, b, a, c, stream));
    else if (kind == rocblas)
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
  enum { hipblaslt, rocblas, cublas } kind = cublas;
  hipStream_t stream = nullptr;
  void *handle = nullptr;
  HipBlasLt lt;
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
  template <size_t n> void *open(const char *const (&names)[n]) {
    for (const char *name : names)
      if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return blas = name, library;
    return nullptr;
  }

  bool find_hipblaslt() {
    kind = hipblaslt;
    void *p = open({"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"});
    return p && lt.open(p) && lt.plan(256, 256, 256) == 0; // it may lack kernels for this GPU
  }
  bool find_rocblas() {
    kind = rocblas;
    int (*create)(void **), (*set_stream)(void *, hipStream_t);
    void *p = open({"librocblas.so.5", "librocblas.so.4", "librocblas.so.3", "librocblas.so"});
    return p && Nccl::find(p, "rocblas_create_handle", &create) &&
           Nccl::find(p, "rocblas_set_stream", &set_stream) &&
           Nccl::find(p, "rocblas_gemm_ex", &roc_gemm) && create(&handle) == 0 &&
           set_stream(handle, stream) == 0;
  }
  bool find_cublas() {
    kind = cublas;
    int (*create)(void **), (*set_stream)(void *, hipStream_t);
    void *p = open({"libcublas.so.13", "libcublas.so.12"});
    return p && Nccl::find(p, "cublasCreate_v2", &create) &&
           Nccl::find(p, "cublasSetStream_v2", &set_stream) &&
           Nccl::find(p, "cublasGemmEx", &cu_gemm) && create(&handle) == 0 &&
           set_stream(handle, stream) == 0;
  }
};

// SPDX-License-Identifier: MIT
// What a user would call instead: the vendor's product of matrices and its collectives, by their C
// interfaces, where they are found at run time. Nothing of them is needed to build this.
#pragma once
#include <cstdio>
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>
#include <shmem.h>

struct Vendor {
  bool product = false, collectives = false; // on all PEs
  const char *blas = "", *ccl = "";          // names of the libraries

  // arch is what HIP calls the GPU: gfx90a, sm_90, cpu.
  void find(const char *arch, hipStream_t s) {
    stream = s;
    rocm = strncmp(arch, "gfx", 3) == 0;
    if (!rocm && strncmp(arch, "sm_", 3) != 0) return;
    find_product();
    find_collectives();
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
  // Of n elements in bf16; what all_gather sends, and what each gets of reduce_scatter.
  void all_reduce(void *c, size_t n) {
    must("ncclAllReduce", nccl_all_reduce(c, c, n, 9, 0, comm, stream));
  }
  void reduce_scatter(const void *from, void *to, size_t n) {
    must("ncclReduceScatter", nccl_reduce_scatter(from, to, n, 9, 0, comm, stream));
  }
  void all_gather(const void *from, void *to, size_t n) {
    must("ncclAllGather", nccl_all_gather(from, to, n, 9, comm, stream));
  }
  ~Vendor() {
    if (comm) nccl_destroy(comm);
  }

private:
  struct Id {
    char bytes[128];
  };
  bool rocm = false;
  hipStream_t stream = nullptr;
  void *handle = nullptr, *comm = nullptr;
  int (*cu_gemm)(void *, int, int, int, int, int, const void *, const void *, int, int,
                 const void *, int, int, const void *, void *, int, int, int, int);
  int (*roc_gemm)(void *, int, int, int, int, int, const void *, const void *, int, int,
                  const void *, int, int, const void *, const void *, int, int, void *, int, int,
                  int, int, int32_t, uint32_t);
  int (*nccl_id)(Id *);
  int (*nccl_init)(void **, int, Id, int);
  int (*nccl_destroy)(void *);
  int (*nccl_all_reduce)(const void *, void *, size_t, int, int, void *, hipStream_t);
  int (*nccl_reduce_scatter)(const void *, void *, size_t, int, int, void *, hipStream_t);
  int (*nccl_all_gather)(const void *, void *, size_t, int, void *, hipStream_t);

  static bool on_all(bool mine) {
    static int here, all;
    here = mine;
    shmem_barrier_all();
    shmem_int_min_reduce(SHMEM_TEAM_WORLD, &all, &here, 1);
    return all != 0;
  }
  static void must(const char *what, int status) {
    if (!status) return;
    fprintf(stderr, "error: PE %d: %s: status %d\n", shmem_my_pe(), what, status);
    shmem_global_exit(1);
  }
  template <class F> static bool get(void *library, const char *name, F *f) {
    *f = reinterpret_cast<F>(dlsym(library, name));
    return *f != nullptr;
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
    const bool here =
        p &&
        (rocm
             ? get(p, "rocblas_create_handle", &create) &&
                   get(p, "rocblas_set_stream", &set_stream) && get(p, "rocblas_gemm_ex", &roc_gemm)
             : get(p, "cublasCreate_v2", &create) && get(p, "cublasSetStream_v2", &set_stream) &&
                   get(p, "cublasGemmEx", &cu_gemm)) &&
        create(&handle) == 0 && set_stream(handle, stream) == 0;
    product = on_all(here);
  }
  void find_collectives() {
    static Id id;
    void *p = rocm ? open({"librccl.so.1"}, &ccl) : open({"libnccl.so.2"}, &ccl);
    bool here =
        p && get(p, "ncclGetUniqueId", &nccl_id) && get(p, "ncclCommInitRank", &nccl_init) &&
        get(p, "ncclCommDestroy", &nccl_destroy) && get(p, "ncclAllReduce", &nccl_all_reduce) &&
        get(p, "ncclReduceScatter", &nccl_reduce_scatter) &&
        get(p, "ncclAllGather", &nccl_all_gather);
    if (here && shmem_my_pe() == 0) here = nccl_id(&id) == 0;
    if (!on_all(here)) return;
    shmem_broadcastmem(SHMEM_TEAM_WORLD, &id, &id, sizeof id, 0);
    shmem_barrier_all(); // the id is here before it is read; it says when it may change
    // It wants a GPU for each PE.
    collectives = on_all(nccl_init(&comm, shmem_n_pes(), id, shmem_my_pe()) == 0);
  }
};

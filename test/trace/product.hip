// SPDX-License-Identifier: MIT
// `product M N K CALLS` sums the PEs' products of bfloat16 and gives all the sum: by the library's
// own kernels, of which nothing is recorded, and then compiled with SHMEM_TRACE_KERNELS. With more
// than one call of each it says how long one took.
#define SHMEM_TRACE_KERNELS
#include <shmem/device/gemm/fused.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define HIP(call)                                                                                  \
  do {                                                                                             \
    if (const hipError_t error = (call); error != hipSuccess) {                                    \
      fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(error));                                \
      shmem_global_exit(1);                                                                        \
    }                                                                                              \
  } while (0)

namespace {

struct Nothing {
  SHMEM_D_ void operator()(unsigned, unsigned, unsigned, float (&)[8]) const {}
};
constexpr uint16_t one = 0x3f80;

uint16_t *ones(size_t n) {
  const std::vector<uint16_t> here(n, one);
  uint16_t *there = nullptr;
  HIP(hipMalloc(reinterpret_cast<void **>(&there), n * sizeof one));
  HIP(hipMemcpy(there, here.data(), n * sizeof one, hipMemcpyHostToDevice));
  return there;
}

template <class Call> void run(const char *what, int calls, const Call &call) {
  double begin = 0;
  for (int i = 0; i < calls; i++) {
    if (i == 1) {
      HIP(hipDeviceSynchronize());
      shmem_barrier_all();
      begin = shmemx_wtime();
    }
    call();
  }
  HIP(hipDeviceSynchronize());
  if (calls > 1 && shmem_my_pe() == 0)
    printf("%s: %.1f us a call\n", what, (shmemx_wtime() - begin) * 1e6 / (calls - 1));
}

} // namespace

int main(int, char **argv) {
  shmem_init();
  shmemx_matmul_t call{};
  call.type = call.out = SHMEMX_BF16;
  call.m = size_t(atoi(argv[1])), call.n = size_t(atoi(argv[2])), call.k = size_t(atoi(argv[3]));
  const int calls = atoi(argv[4]);
  call.lda = call.k, call.ldb = call.ldc = call.n;
  call.a = ones(call.m * call.k), call.b = ones(call.k * call.n);
  call.c = shmem_malloc_with_hints(call.m * call.n * sizeof one, SHMEMX_MALLOC_DEVICE);
  if (!call.c) shmem_global_exit(77);
  call.algorithm = SHMEMX_MATMUL_FUSED;
  const auto workspace =
      shmemx_matmul_workspace_create(SHMEM_TEAM_WORLD, SHMEMX_MATMUL_ALL_REDUCE, &call);
  run("the library's own", calls,
      [&] { shmemx_matmul_all_reduce_on_stream(workspace, &call, nullptr); });
  run("with SHMEM_TRACE_KERNELS", calls, [&] {
    using namespace shmem::gemm;
    matmul_all_reduce<Bfloat16>(workspace, call, Nothing{}, nullptr);
  });
  std::vector<uint16_t> c(call.m * call.n);
  HIP(hipMemcpy(c.data(), call.c, c.size() * sizeof one, hipMemcpyDeviceToHost));
  const float sum = float(call.k) * float(shmem_n_pes()); // a power of two times one, for the test
  for (const uint16_t v : c)
    if (const uint32_t bits = uint32_t(v) << 16; memcmp(&bits, &sum, sizeof sum) != 0) {
      fprintf(stderr, "a wrong sum: %04x\n", v);
      shmem_global_exit(1);
    }
  shmemx_matmul_workspace_destroy(workspace);
  shmem_finalize();
}

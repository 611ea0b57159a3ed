// SPDX-License-Identifier: MIT
// Loads the code object that argv[1] names, whose kernel knows the library by its bitcode only, and
// runs it. With "early", shmem_init has not been called.
#include <cstdio>
#include <cstring>
#include <hip/hip_runtime_api.h>
#include <nvshmemx.h>
#include <shmem.h>
#include <shmemx.h>
#include <vector>

namespace {
#define GOOD(call)                                                                                 \
  do {                                                                                             \
    if (hipError_t e = (call); e != hipSuccess) {                                                  \
      fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(e));                                    \
      shmem_global_exit(1);                                                                        \
    }                                                                                              \
  } while (0)
} // namespace

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  if (argc > 2 && !strcmp(argv[2], "early")) return shmemx_module_init(nullptr), 0;
  shmem_init();
  const int me = shmem_my_pe(), n = shmem_n_pes(), from = (me + n - 1) % n;
  hipModule_t module;
  hipFunction_t exchange;
  GOOD(hipModuleLoad(&module, argv[1]));
  if (n > 1) // as it is called elsewhere
    nvshmemx_cumodule_init(module);
  else
    shmemx_module_init(module);
  GOOD(hipModuleGetFunction(&exchange, module, "exchange"));

  constexpr size_t most = 1021;
  auto *dest =
           static_cast<int *>(shmem_malloc_with_hints(most * sizeof(int), SHMEMX_MALLOC_DEVICE)),
       *source =
           static_cast<int *>(shmem_malloc_with_hints(most * sizeof(int), SHMEMX_MALLOC_DEVICE));
  auto *signal =
      static_cast<uint64_t *>(shmem_malloc_with_hints(sizeof(uint64_t), SHMEMX_MALLOC_DEVICE));
  uint64_t zero = 0;
  GOOD(hipMemcpy(signal, &zero, sizeof zero, hipMemcpyHostToDevice));
  shmem_barrier_all();
  std::vector<int> sent(most), got(most);
  unsigned long round = 0;
  for (unsigned long words : {0ul, 1ul, 64ul, 1021ul}) {
    round++;
    for (size_t i = 0; i < most; i++)
      sent[i] = me * 100000 + int(round) * 2000 + int(i), got[i] = -1;
    GOOD(hipMemcpy(source, sent.data(), most * sizeof(int), hipMemcpyHostToDevice));
    GOOD(hipMemcpy(dest, got.data(), most * sizeof(int), hipMemcpyHostToDevice));
    shmem_barrier_all();
    int set = SHMEM_SIGNAL_SET, ge = SHMEM_CMP_GE;
    void *args[] = {&dest, &source, &signal, &words, &round, &set, &ge};
    GOOD(hipModuleLaunchKernel(exchange, 1, 1, 1, 128, 1, 1, 0, nullptr, args, nullptr));
    GOOD(hipDeviceSynchronize());
    GOOD(hipMemcpy(got.data(), dest, most * sizeof(int), hipMemcpyDeviceToHost));
    for (size_t i = 0; i < most; i++) {
      const int want = i < words ? from * 100000 + int(round) * 2000 + int(i) : -1;
      if (got[i] != want) {
        fprintf(stderr, "PE %d, %lu words: [%zu] is %d, not %d\n", me, words, i, got[i], want);
        shmem_global_exit(1);
      }
    }
    shmem_barrier_all();
  }
  GOOD(hipModuleUnload(module));
  shmem_finalize();
  return 0;
}

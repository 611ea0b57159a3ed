// SPDX-License-Identifier: MIT
// Random access: a table of 64-bit words over the memory of all GPUs, and updates that xor a random
// number into a random word of it, each an atomic of one thread. Done twice the updates cancel, so
// a table that has changed has lost one.
#include "gpu.hpp"

static const char help[] = "usage: gups_hip [--words N] [--updates N] [--workgroups N]\n"
                           "  --words N       of the table on each PE, a power of 2 (default 64k)\n"
                           "  --updates N     of each PE (default 4 x words)\n"
                           "  --workgroups N  of 256 threads (default 16)\n";

__host__ __device__ inline uint64_t bits(uint64_t stream, uint64_t n) { // random_bits of util.h
  uint64_t z = (stream + 1) * 0xd1342543de82ef95u + n * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

__global__ void update(uint64_t *table, uint64_t words, uint64_t updates) {
  const uint64_t me = uint64_t(shmem_my_pe()), npes = uint64_t(shmem_n_pes());
  const uint64_t threads = uint64_t(gridDim.x) * blockDim.x;
  for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < updates; i += threads) {
    const uint64_t r = bits(me, i);
    // Of 22 bits: by AMD's approximate reciprocal compilers divide 24 bits wrongly (LLVM 201186, of
    // 2026).
    shmem_uint64_atomic_xor(table + (r & (words - 1)), r, int((r >> 42) % npes));
  }
  shmem_quiet(); // or the atomics of this thread could be on their way when the kernel has ended
}

int main(int argc, char **argv) {
  shmem_init();
  long words = 64 << 10, updates = -1, workgroups = 16;
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--words")))
      words = parse_number("--words", value, 1, 1L << 38);
    else if ((value = option_value(argc, argv, &i, "--updates")))
      updates = parse_number("--updates", value, 0, 1L << 50);
    else if ((value = option_value(argc, argv, &i, "--workgroups")))
      workgroups = parse_number("--workgroups", value, 1, 65535);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  if (words & (words - 1)) usage_error("--words: %ld is not a power of 2", words);
  if (updates < 0) updates = 4 * words;
  const uint64_t me = uint64_t(shmem_my_pe()), n = uint64_t(words);
  uint64_t *table = on_device<uint64_t>(n, "the table");
  auto *host = static_cast<uint64_t *>(private_memory(n * sizeof(uint64_t), "the table"));
  for (uint64_t i = 0; i < n; ++i) host[i] = me * n + i;
  HIP(hipMemcpy(table, host, n * sizeof(uint64_t), hipMemcpyHostToDevice));

  const auto run = [&] {
    hipLaunchKernelGGL(update, dim3(unsigned(workgroups)), dim3(256), 0, nullptr, table, n,
                       uint64_t(updates));
  };
  const double seconds = timed(run);
  HIP(hipMemcpy(host, table, n * sizeof(uint64_t), hipMemcpyDeviceToHost));
  long changed = 0, errors = 0;
  for (uint64_t i = 0; i < n; ++i) changed += host[i] != me * n + i;
  errors += changed == 0 && updates >= words; // the first run did something
  timed(run);
  HIP(hipMemcpy(host, table, n * sizeof(uint64_t), hipMemcpyDeviceToHost));
  for (uint64_t i = 0; i < n; ++i) errors += host[i] != me * n + i;

  if (me == 0)
    printf("%ld updates of %ld words on each of %d PEs: %.3f ms, %.4f GUPS together\n", updates,
           words, shmem_n_pes(), seconds * 1e3, double(updates) * shmem_n_pes() / seconds * 1e-9);
  free(host);
  shmem_free(table);
  return finish("gups_hip", errors);
}

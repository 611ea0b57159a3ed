// SPDX-License-Identifier: MIT
// The transpose of a matrix whose rows are split over the PEs: an all-to-all in one kernel. Each
// workgroup transposes tiles through its own memory into a staging block for a peer; the last
// workgroup done with a peer's block sends it, with a signal, and then all wait for the blocks of
// the peers. PEs begin with different peers, so that no link gets all of them at once.
#include "gpu.hpp"

static const char help[] = "usage: all_to_all_hip [--block N] [--repeat N]\n"
                           "  --block N   the matrix has (N x PEs) rows and columns (default 96)\n"
                           "  --repeat N  transposes (default 5)\n";

constexpr unsigned tile = 16;

struct Transpose {
  size_t block, size; // of a block, and of the matrix
  const float *in;    // [block][size]: my rows
  float *staged;      // [PEs][block][block]: the blocks for the peers
  float *out;         // symmetric, [PEs][block][block]: the blocks of the peers
  uint64_t *signals;  // symmetric, [PEs]: transposes that came from each
  unsigned *done;     // [PEs]: workgroups that are done with the staged block
};

// Workgroups are dealt out to the peers; gridDim.x is a multiple of their number.
__global__ void transpose(Transpose t, uint64_t round) {
  __shared__ float rows[tile][tile + 1];
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  const int peer = (me + 1 + int(blockIdx.x)) % npes;
  const unsigned each = gridDim.x / unsigned(npes), mine = blockIdx.x / unsigned(npes);
  float *block = t.staged + size_t(peer) * t.block * t.block;

  const size_t tiles = (t.block + tile - 1) / tile;
  for (size_t i = mine; i < tiles * tiles; i += each) {
    const size_t y = i / tiles * tile, x = i % tiles * tile;
    const size_t r = threadIdx.x / tile, c = threadIdx.x % tile;
    if (y + r < t.block && x + c < t.block)
      rows[r][c] = t.in[(y + r) * t.size + size_t(peer) * t.block + x + c];
    __syncthreads();
    if (x + r < t.block && y + c < t.block) block[(x + r) * t.block + y + c] = rows[c][r];
    __syncthreads();
  }

  // The last workgroup of those that stage for a peer sends what all of them have staged.
  const bool sends = shmem::last_workgroup(t.done + peer, each * unsigned(round));
  if (sends)
    shmemx_float_put_signal_wg(t.out + size_t(me) * t.block * t.block, block, t.block * t.block,
                               t.signals + me, round, SHMEM_SIGNAL_SET, peer);
  if (blockIdx.x == 0 && threadIdx.x == 0)
    shmem_uint64_wait_until_all(t.signals, size_t(npes), nullptr, SHMEM_CMP_GE, round);
}

static float value(size_t row, size_t column, long round) {
  return float((row * 31 + column * 17 + size_t(round)) % 65536);
}

int main(int argc, char **argv) {
  shmem_init();
  long block = 96, repeat = 5;
  for (int i = 1; i < argc; ++i) {
    const char *v;
    if (is_help(argv[i])) help_and_exit(help);
    if ((v = option_value(argc, argv, &i, "--block")))
      block = parse_number("--block", v, 1, 1 << 15);
    else if ((v = option_value(argc, argv, &i, "--repeat")))
      repeat = parse_number("--repeat", v, 1, 1000000);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  const size_t me = size_t(shmem_my_pe()), npes = size_t(shmem_n_pes()), b = size_t(block);
  const size_t size = b * npes, count = b * size;
  float *in = on_device<float>(count, "the matrix");
  Transpose t = {b,
                 size,
                 in,
                 on_device<float>(count, "the staged blocks"),
                 on_device<float>(count, "the transpose"),
                 on_device<uint64_t>(npes, "the signals"),
                 on_device<unsigned>(npes, "the counters")};
  auto *host = static_cast<float *>(private_memory(count * sizeof(float), "the matrix"));

  long errors = 0;
  double seconds = 0;
  for (long round = 1; round <= repeat; ++round) {
    for (size_t i = 0; i < count; ++i) host[i] = value(me * b + i / size, i % size, round);
    HIP(hipMemcpy(in, host, count * sizeof(float), hipMemcpyHostToDevice));
    seconds += timed([&] {
      hipLaunchKernelGGL(transpose, dim3(unsigned(4 * npes)), dim3(tile * tile), 0, nullptr, t,
                         uint64_t(round));
    });
    HIP(hipMemcpy(host, t.out, count * sizeof(float), hipMemcpyDeviceToHost));
    for (size_t pe = 0; pe < npes; ++pe)
      for (size_t r = 0; r < b; ++r)
        for (size_t c = 0; c < b; ++c)
          errors += host[(pe * b + r) * b + c] != value(pe * b + c, me * b + r, round);
    shmem_barrier_all(); // all have read out before the next round writes to it
  }
  if (me == 0)
    printf("%zu x %zu floats on %zu PEs: %.3f ms a transpose, %.2f GB/s each\n", size, size, npes,
           seconds / double(repeat) * 1e3,
           double(count) * sizeof(float) * double(repeat) / seconds * 1e-9);
  free(host);
  shmem_free(t.done);
  shmem_free(t.signals);
  shmem_free(t.out);
  shmem_free(t.staged);
  shmem_free(in);
  return finish("all_to_all_hip", errors);
}

// SPDX-License-Identifier: MIT
// Integer sort on GPUs, as isx.c on the host: each PE owns a range of the keys. A kernel sorts this
// PE's keys into a box for each owner and sends the boxes, with their sizes, by signals; the next
// counts the keys that came. A box for each pair of PEs needs no exchange of offsets, and no
// atomics over the links.
#include "gpu.hpp"

static const char help[] = "usage: sort_hip [--keys N] [--max-key N]\n"
                           "  --keys N     of each PE (default 64k)\n"
                           "  --max-key N  keys are below it (default 16k)\n";

struct Sort {
  unsigned keys, max_key, range; // a PE owns range of the keys
  size_t room;                   // of a box
  const unsigned *in;            // [keys]
  unsigned *boxes;               // [PEs][room]: for each owner
  unsigned *filled, *done;       // [PEs], and workgroups that are done
  unsigned *inbox;               // symmetric: [PEs][room]: from each PE
  uint64_t *signals;             // symmetric: [PEs]: 1 + the keys that came from there
  unsigned *counts;              // [range]: how often each of my keys came
};

// Sorts into boxes, then the last workgroup of all sends them.
__global__ void distribute(Sort s) {
  const unsigned me = unsigned(shmem_my_pe()), npes = unsigned(shmem_n_pes());
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < s.keys;
       i += gridDim.x * blockDim.x) {
    const unsigned key = s.in[i], owner = key / s.range;
    s.boxes[owner * s.room + atomicAdd(s.filled + owner, 1u)] = key;
  }
  const bool last = shmem::last_workgroup(s.done, gridDim.x);
  for (unsigned k = 0; last && k < npes; k++) {
    const unsigned pe = (me + k) % npes, n = s.filled[pe];
    shmemx_uint_put_signal_wg(s.inbox + me * s.room, s.boxes + pe * s.room, n, s.signals + me,
                              1 + n, SHMEM_SIGNAL_SET, int(pe));
  }
}
// A workgroup for each PE that sends.
__global__ void count(Sort s) {
  __shared__ uint64_t n;
  const unsigned from = blockIdx.x, lowest = unsigned(shmem_my_pe()) * s.range;
  if (threadIdx.x == 0) n = shmem_signal_wait_until(s.signals + from, SHMEM_CMP_NE, 0) - 1;
  __syncthreads();
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
    atomicAdd(s.counts + (s.inbox[from * s.room + i] - lowest), 1u);
}

static unsigned key_of(uint64_t pe, uint64_t i, unsigned max_key) {
  return unsigned(random_bits(pe, i) % max_key);
}

int main(int argc, char **argv) {
  shmem_init();
  long keys = 64 << 10, max_key = 16 << 10;
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--keys")))
      keys = parse_number("--keys", value, 1, 1 << 28);
    else if ((value = option_value(argc, argv, &i, "--max-key")))
      max_key = parse_number("--max-key", value, 1, 1 << 28);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  Sort s = {};
  s.keys = unsigned(keys), s.max_key = unsigned(max_key);
  s.range = (s.max_key + unsigned(npes) - 1) / unsigned(npes);
  s.room = s.keys; // all of a PE's keys may be one owner's
  const size_t boxes = s.room * size_t(npes);
  unsigned *in = on_device<unsigned>(s.keys, "the keys");
  s.in = in;
  s.boxes = on_device<unsigned>(boxes, "the boxes");
  s.filled = on_device<unsigned>(size_t(npes), "the sizes");
  s.done = on_device<unsigned>(1, "the counter");
  s.inbox = on_device<unsigned>(boxes, "the inbox");
  s.signals = on_device<uint64_t>(size_t(npes), "the signals");
  s.counts = on_device<unsigned>(s.range, "the counts");
  auto *host = static_cast<unsigned *>(private_memory(s.keys * sizeof(unsigned), "the keys"));
  for (unsigned i = 0; i < s.keys; ++i) host[i] = key_of(uint64_t(me), i, s.max_key);
  HIP(hipMemcpy(in, host, s.keys * sizeof(unsigned), hipMemcpyHostToDevice));

  const double seconds = timed([&] {
    hipLaunchKernelGGL(distribute, dim3(64), dim3(256), 0, nullptr, s);
    hipLaunchKernelGGL(count, dim3(unsigned(npes)), dim3(256), 0, nullptr, s);
  });

  // How often each of my keys is among all PEs' keys, counted one by one.
  auto *want = static_cast<unsigned *>(private_memory(s.range * sizeof(unsigned), "the check"));
  auto *seen = static_cast<unsigned *>(private_memory(s.range * sizeof(unsigned), "the check"));
  memset(want, 0, s.range * sizeof(unsigned));
  for (int pe = 0; pe < npes; ++pe)
    for (unsigned i = 0; i < s.keys; ++i) {
      const unsigned key = key_of(uint64_t(pe), i, s.max_key);
      if (key / s.range == unsigned(me)) want[key % s.range]++;
    }
  HIP(hipMemcpy(seen, s.counts, s.range * sizeof(unsigned), hipMemcpyDeviceToHost));
  long errors = 0;
  for (unsigned i = 0; i < s.range; ++i) errors += seen[i] != want[i];
  if (me == 0)
    printf("%u keys below %u on each of %d PEs: %.3f ms, %.1f million keys a second together\n",
           s.keys, s.max_key, npes, seconds * 1e3, double(keys) * npes / seconds * 1e-6);
  shmem_barrier_all();
  free(seen);
  free(want);
  free(host);
  shmem_free(s.counts);
  shmem_free(s.signals);
  shmem_free(s.inbox);
  shmem_free(s.done);
  shmem_free(s.filled);
  shmem_free(s.boxes);
  shmem_free(in);
  return finish("sort_hip", errors);
}

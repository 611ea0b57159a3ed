// SPDX-License-Identifier: MIT
// A ring in kernels. Each PE runs one kernel for the whole program: it waits for a packet from the
// PE on its left, adds its own share to every element, and sends the packet on to the right, lap
// after lap. A packet is a header of four floats, put by one thread, and a payload that the
// workgroup puts with a signal; the signal orders the header too, because a fence stands between
// them.
//
// A packet can only come again after it went round, so one buffer is enough: the packet of lap k +
// 1 was sent after this PE had sent lap k.
#include "gpu.hpp"

static const char help[] = "usage: put_signal_hip [--floats N] [--laps N] [--threads N]\n"
                           "  --floats N   payload (default 16k)\n"
                           "  --laps N     times round the ring (default 50)\n"
                           "  --threads N  of the workgroup (default 256)\n";

struct Packet {
  float *header, *payload; // symmetric: [4] and [n]
  size_t n;
};

// PE pe's share in a lap. Small whole numbers, so that the sums are exact.
__host__ __device__ inline float share(int pe, int lap, size_t i) {
  return float((unsigned(pe) * 7 + unsigned(lap) * 3 + unsigned(i)) % 5);
}

__device__ void pass_on(Packet out, int lap, uint64_t *signal, int right) {
  if (threadIdx.x == 0) {
    shmem_float_p(out.header, float(lap), right); // an array to put from would be private memory
    shmem_float_p(out.header + 1, float(shmem_my_pe()), right);
    shmem_float_p(out.header + 2, float(out.n), right);
    shmem_float_p(out.header + 3, 0.5f, right);
    shmem_fence(); // the header before the signal below, as the payload is
  }
  shmemx_putmem_signal_wg(out.payload, out.payload, out.n * sizeof(float), signal, uint64_t(lap),
                          SHMEM_SIGNAL_SET, right);
}

// wrong counts headers that are not what the left PE sent with this lap.
__global__ void ring(Packet packet, uint64_t *signal, int laps, unsigned *wrong) {
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  const int left = (me + npes - 1) % npes, right = (me + 1) % npes;
  for (int lap = 1; lap <= laps; lap++) {
    const bool starts = me == 0; // a lap begins and ends on PE 0
    if (!starts || lap > 1) {
      const int came = starts ? lap - 1 : lap;
      if (threadIdx.x == 0) {
        shmem_signal_wait_until(signal, SHMEM_CMP_GE, uint64_t(came));
        *wrong += packet.header[0] != float(came) || packet.header[1] != float(left) ||
                  packet.header[2] != float(packet.n) || packet.header[3] != 0.5f;
      }
      __syncthreads(); // the packet that thread 0 waited for is here for the workgroup
    }
    for (size_t i = threadIdx.x; i < packet.n; i += blockDim.x)
      packet.payload[i] += share(me, lap, i);
    __syncthreads();
    pass_on(packet, lap, signal, right);
  }
  if (me == 0 && threadIdx.x == 0) // the last lap comes home
    shmem_signal_wait_until(signal, SHMEM_CMP_GE, uint64_t(laps));
}

int main(int argc, char **argv) {
  shmem_init();
  long floats = 16 << 10, laps = 50, threads = 256;
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--floats")))
      floats = parse_number("--floats", value, 0, 1L << 30);
    else if ((value = option_value(argc, argv, &i, "--laps")))
      laps = parse_number("--laps", value, 1, 1000000);
    else if ((value = option_value(argc, argv, &i, "--threads")))
      threads = parse_number("--threads", value, 1, 1024);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  const int me = shmem_my_pe(), npes = shmem_n_pes();
  const size_t n = size_t(floats);
  Packet packet = {on_device<float>(4, "the header"), on_device<float>(n, "the payload"), n};
  uint64_t *signal = on_device<uint64_t>(1, "the signal");
  unsigned *wrong = on_device<unsigned>(1, "the count of errors");

  const double seconds = timed([&] {
    hipLaunchKernelGGL(ring, dim3(1), dim3(unsigned(threads)), 0, nullptr, packet, signal,
                       int(laps), wrong);
  });

  unsigned count = 0;
  HIP(hipMemcpy(&count, wrong, sizeof count, hipMemcpyDeviceToHost));
  long errors = count;
  if (me == 0) {
    float *seen = static_cast<float *>(private_memory(n * sizeof(float), "the check"));
    HIP(hipMemcpy(seen, packet.payload, n * sizeof(float), hipMemcpyDeviceToHost));
    for (size_t i = 0; i < n; ++i) {
      float want = 0;
      for (int lap = 1; lap <= laps; ++lap)
        for (int pe = 0; pe < npes; ++pe) want += share(pe, lap, i);
      errors += seen[i] != want;
    }
    free(seen);
    const double hops = double(laps) * npes;
    printf("%zu bytes, %ld laps of %d PEs: %.2f us a hop, %.2f GB/s\n", n * sizeof(float), laps,
           npes, seconds / hops * 1e6, double(n) * sizeof(float) * hops / seconds * 1e-9);
  }
  shmem_barrier_all();
  shmem_free(wrong);
  shmem_free(signal);
  shmem_free(packet.payload);
  shmem_free(packet.header);
  return finish("put_signal_hip", errors);
}

// SPDX-License-Identifier: MIT
// Kernels and PEs that they have not mapped: with SHMEM_P2P=0, or on several nodes. Many workgroups
// fill the ring over and over, launches follow each other without a barrier, and one PE is late.
// ring        : the test
// ring speed  : requests a second, and what one takes
#include "../device/device.hpp"
#include <shmemx.h>
#include <unistd.h>

namespace {

constexpr unsigned blocks = 32, threads = 64, puts = 8, launches = 3;
constexpr unsigned all = blocks * threads;
constexpr size_t piece = 100; // bytes: more than a request has room for

struct Shared { // on the device heap of each PE
  uint64_t words[puts][all];
  uint32_t hits[launches * all]; // each ticket is drawn once
  uint64_t sum, ticket, flag, seen[8], product;
  uint16_t halves[all];
  unsigned char bytes[all][piece], back[all][piece];
  uint32_t strided[3 * all];
  uint64_t block[1000], copy[1000];
};

__device__ uint64_t value_of(unsigned launch, unsigned i, unsigned t, int pe) {
  return (uint64_t(launch) << 40) + (uint64_t(i) << 32) + (uint64_t(unsigned(pe)) << 24) + t;
}

__global__ void flood(Shared *s, unsigned launch, int to, unsigned *bad) {
  const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  const int me = shmem_my_pe();
  for (unsigned i = 0; i < puts; i++) {
    shmem_uint64_p(&s->words[i][t], value_of(launch, i, t, me), to);
    shmem_uint64_atomic_add(&s->sum, 1, to);
  }
  shmem_uint16_p(&s->halves[t], uint16_t(t * 7 + launch), to);
  const uint64_t mine = shmem_uint64_atomic_fetch_add(&s->ticket, 1, to);
  if (mine >= launches * all)
    *bad = 1;
  else
    shmem_uint32_atomic_inc(&s->hits[mine], to);
  // A thread's own array, there and back.
  unsigned char own[piece], again[piece];
  for (size_t i = 0; i < piece; i++) own[i] = (unsigned char)(t * 3 + i * 5 + launch);
  shmem_putmem(s->bytes[t], own, piece, to);
  for (size_t i = 0; i < piece; i++) own[i] = 0; // it may be used again at once
  shmem_quiet();
  shmem_getmem(again, s->bytes[t], piece, to);
  for (size_t i = 0; i < piece; i++)
    if (again[i] != (unsigned char)(t * 3 + i * 5 + launch)) *bad = 2;
  // From heap to heap. Lines that were read before are not to stay as they were, for plain loads
  // either.
  const unsigned char old = s->back[t][0];
  if (launch == 0 ? old : old != (unsigned char)(t * 3 + launch - 1)) *bad = 7;
  shmem_getmem_nbi(s->back[t], s->bytes[t], piece, to);
  shmem_quiet();
  for (size_t i = 0; i < piece; i++)
    if (s->back[t][i] != (unsigned char)(t * 3 + i * 5 + launch)) *bad = 3;
  if (shmem_uint64_g(&s->words[3][t], to) != value_of(launch, 3, t, me)) *bad = 4;
  const uint32_t three[3] = {t, t + launch, t * launch};
  if (t % 16 == 0) shmem_uint32_iput(&s->strided[3 * t], three, 1, 1, 3, to);
}

// Data and its signal around the ring of PEs: no PE sees the signal before the data.
__global__ void pass(Shared *s, uint64_t rounds, unsigned *bad) {
  const int me = shmem_my_pe(), n = shmem_n_pes(), to = (me + 1) % n, from = (me + n - 1) % n;
  for (uint64_t r = 1; r <= rounds; r++) {
    for (unsigned i = threadIdx.x; i < 1000; i += blockDim.x)
      shmem::arch::store(&s->block[i], r * 1000 + i);
    shmemx_uint64_put_signal_nbi_wg(s->copy, s->block, 1000, &s->flag, 1, SHMEM_SIGNAL_ADD, to);
    if (threadIdx.x == 0) shmem_signal_wait_until(&s->flag, SHMEM_CMP_GE, r);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < 1000; i += blockDim.x)
      if (shmem::arch::load(&s->copy[i]) != r * 1000 + i) *bad = 5;
    __syncthreads();
    if (threadIdx.x == 0) { // it may send the next
      shmem_quiet();
      shmem_uint64_atomic_set(&s->seen[0], r, from);
      shmem_uint64_wait_until(&s->seen[0], SHMEM_CMP_GE, r);
    }
    __syncthreads();
  }
}

// A flag that a fence puts behind the data.
__global__ void fenced(Shared *s, uint64_t rounds, int to, unsigned *bad) {
  for (uint64_t r = 1; r <= rounds; r++) {
    shmem_uint64_p(&s->seen[1], r, to);
    shmem_fence();
    shmem_uint64_p(&s->seen[2], r, to);
    shmem_uint64_wait_until(&s->seen[2], SHMEM_CMP_GE, r);
    if (shmem::arch::load(&s->seen[1]) < r) *bad = 6;
    shmem_uint64_p(&s->seen[3], r, to);
    shmem_uint64_wait_until(&s->seen[3], SHMEM_CMP_GE, r);
  }
}

__global__ void mapped(const Shared *s, int pe, unsigned *seen) {
  *seen = shmem_ptr(s, pe) != nullptr;
}

__global__ void rate(uint64_t *to, unsigned n, int pe) {
  for (unsigned i = 0; i < n; i++) shmem_uint64_p(to + blockIdx.x, i, pe);
  shmem_quiet();
}
__global__ void rate_nbi(uint64_t *to, const uint64_t *from, unsigned n, int pe) {
  for (unsigned i = 0; i < n; i++) shmem_uint64_put_nbi(to + blockIdx.x, from, 1, pe);
  shmem_quiet();
}
__global__ void latency(uint64_t *to, unsigned n, int pe) {
  for (unsigned i = 0; i < n; i++) {
    shmem_uint64_p(to, i, pe);
    shmem_quiet();
  }
}
__global__ void fetch(uint64_t *to, unsigned n, int pe) {
  for (unsigned i = 0; i < n; i++) shmem_uint64_atomic_fetch_add(to, 1, pe);
}

Shared *shared;
unsigned *bad;

template <class T> T from_device(const T *p) {
  T v;
  HIP(hipMemcpy(&v, p, sizeof v, hipMemcpyDeviceToHost));
  return v;
}

void test() {
  static Shared seen;
  HIP(hipMemset(shared, 0, sizeof *shared));
  HIP(hipMemset(bad, 0, sizeof *bad));
  finish_all();
  const int to = (me + 1) % npes, from = (me + npes - 1) % npes;
  hipLaunchKernelGGL(mapped, dim3(1), dim3(1), 0, stream, shared, to, bad);
  HIP(hipStreamSynchronize(stream));
  const char *p2p = getenv("SHMEM_P2P");
  if (p2p && *p2p == '0' && npes > 1)
    CHECK(!from_device(bad), "shmem_ptr of PE %d is not NULL in a kernel", to);
  HIP(hipMemset(bad, 0, sizeof *bad));
  finish_all();
  if (me == npes - 1) usleep(200000);
  for (unsigned l = 0; l < launches; l++)
    hipLaunchKernelGGL(flood, dim3(blocks), dim3(threads), 0, stream, shared, l, to, bad);
  finish_all(); // no kernel has said quiet after its last put
  CHECK(!from_device(bad), "flood: %u", from_device(bad));
  HIP(hipMemcpy(&seen, shared, sizeof seen, hipMemcpyDeviceToHost));
  CHECK(seen.sum == launches * all * puts, "sum %lu, not %u", (unsigned long)seen.sum,
        launches * all * puts);
  const unsigned last = launches - 1;
  for (unsigned t = 0; t < all; t++) {
    for (unsigned i = 0; i < puts; i++) {
      const uint64_t want =
          (uint64_t(last) << 40) + (uint64_t(i) << 32) + (uint64_t(unsigned(from)) << 24) + t;
      CHECK(seen.words[i][t] == want, "word %u of thread %u is %lx, not %lx", i, t,
            (unsigned long)seen.words[i][t], (unsigned long)want);
    }
    CHECK(seen.halves[t] == uint16_t(t * 7 + last), "half %u is %u", t, seen.halves[t]);
    if (t % 16 == 0)
      CHECK(seen.strided[3 * t] == t && seen.strided[3 * t + 1] == t + last &&
                seen.strided[3 * t + 2] == t * last,
            "strided of thread %u", t);
  }
  for (unsigned i = 0; i < launches * all; i++)
    CHECK(seen.hits[i] == 1, "ticket %u was drawn %u times", i, seen.hits[i]);

  if (me == 0) usleep(100000);
  hipLaunchKernelGGL(pass, dim3(1), dim3(128), 0, stream, shared, uint64_t(30), bad);
  hipLaunchKernelGGL(fenced, dim3(1), dim3(1), 0, stream, shared, uint64_t(100), to, bad);
  finish_all();
  CHECK(!from_device(bad), "pass, fenced: %u", from_device(bad));
}

void speed() {
  const int to = npes - 1;
  auto timed = [&](const char *what, unsigned workgroups, unsigned n, auto launch) {
    shmem_barrier_all();
    if (me == 0) {
      launch();
      HIP(hipStreamSynchronize(stream));
      const double start = shmemx_wtime();
      launch();
      HIP(hipStreamSynchronize(stream));
      const double took = shmemx_wtime() - start, each = took / (double(n) * workgroups);
      printf("%-28s %4u workgroups  %9.3f us each  %9.3f M/s\n", what, workgroups, each * 1e6,
             1e-6 / each);
    }
  };
  uint64_t *const words = shared->words[0];
  for (unsigned w : {1u, 16u, 128u}) {
    const unsigned n = 200000 / w;
    timed("p", w, n, [&] { hipLaunchKernelGGL(rate, dim3(w), dim3(1), 0, stream, words, n, to); });
    timed("put_nbi of 8 bytes", w, n,
          [&] { hipLaunchKernelGGL(rate_nbi, dim3(w), dim3(1), 0, stream, words, words, n, to); });
    timed("fetch_add", w, n / 50,
          [&] { hipLaunchKernelGGL(fetch, dim3(w), dim3(1), 0, stream, words, n / 50, to); });
  }
  timed("p and quiet", 1, 5000,
        [&] { hipLaunchKernelGGL(latency, dim3(1), dim3(1), 0, stream, words, 5000, to); });
  shmem_barrier_all();
  if (me == 0) { // the host's own, for comparison
    const double start = shmemx_wtime();
    for (uint64_t i = 0; i < 5000; i++) {
      shmem_uint64_p(words, i, to);
      shmem_quiet();
    }
    printf("%-28s                  %9.3f us each\n", "the host's p and quiet",
           (shmemx_wtime() - start) / 5000 * 1e6);
  }
  shmem_barrier_all();
}

// PEs that share a machine take its GPUs in turn, nodes of their own or not.
void devices() {
  const char *text = getenv("SHMEM_CPU_DEVICES"), *p2p = getenv("SHMEM_P2P");
  if (!text || !p2p || *p2p != '0') return;
  int mine;
  HIP(hipGetDevice(&mine));
  CHECK(mine == me % atoi(text), "GPU %d, not %d", mine, me % atoi(text));
}

} // namespace

void finish_all(void) {
  HIP(hipDeviceSynchronize());
  shmem_barrier_all();
}

int main(int argc, char **argv) {
  shmem_init();
  me = shmem_my_pe(), npes = shmem_n_pes(); // the harness's
  shared = static_cast<Shared *>(shmem_malloc_with_hints(sizeof *shared, SHMEMX_MALLOC_DEVICE));
  if (!shared) {
    if (me == 0) fprintf(stderr, "no device heap\n");
    shmem_global_exit(77);
  }
  if (hipStreamCreateWithFlags(&stream, hipStreamNonBlocking) != hipSuccess ||
      hipMalloc(&bad, sizeof *bad) != hipSuccess)
    shmem_global_exit(1);
  static const struct pe_test tests[] = {{"ring", test}, {"devices", devices}};
  const struct pe_list list = PE_LIST("", tests);
  int rc = 0;
  if (argc > 1 && strcmp(argv[1], "speed") == 0)
    speed();
  else
    rc = pe_run_tests("ring", &list, 1);
  if (rc) shmem_global_exit(1);
  shmem_finalize();
  return 0;
}

// SPDX-License-Identifier: MIT
// Outcomes that the ordering of the calls forbids, tried thousands of times with one PE late now
// and then: none must ever be seen.
#include "device.hpp"

namespace {

__device__ void be_late(unsigned r, int who) {
  if (shmem_my_pe() != who || r % 64 != 5) return;
  const uint64_t until = shmem::arch::clock() + 3000;
  while (shmem::arch::clock() < until) shmem::arch::pause();
}

constexpr int line = 16; // 64-bit words

// A thread that returns has seen *flag >= r, by each call that looks at one.
enum class Look { wait_until, test, all, any, some, fetch };
__device__ void look(Look how, uint64_t *flag, uint64_t r) {
  size_t at;
  switch (how) {
  case Look::wait_until:
    return shmem_uint64_wait_until(flag, SHMEM_CMP_GE, r);
  case Look::test:
    while (!shmem_uint64_test(flag, SHMEM_CMP_GE, r)) shmem::arch::pause();
    return;
  case Look::all:
    return shmem_uint64_wait_until_all(flag, 1, nullptr, SHMEM_CMP_GE, r);
  case Look::any:
    shmem_uint64_wait_until_any(flag, 1, nullptr, SHMEM_CMP_GE, r);
    return;
  case Look::some:
    shmem_uint64_wait_until_some(flag, 1, &at, nullptr, SHMEM_CMP_GE, r);
    return;
  case Look::fetch:
    while (shmem_signal_fetch(flag) < r) shmem::arch::pause();
  }
}

// Message passing: data by p, fence, then a flag by p. A PE that sees the flag sees the data; the
// answer goes the same way back, so that rounds do not overlap.
__global__ void __launch_bounds__(1024)
    message_passing(uint64_t *data, uint64_t *flag, int peer, int count, int late, Look how,
                    unsigned *bad) {
  const bool first = shmem_my_pe() < peer;
  for (unsigned r = 1; r <= unsigned(count); r++) {
    be_late(r, late);
    for (int turn = 0; turn < 2; turn++)
      if (first == (turn == 0)) {
        for (int k = 0; k < 4; k++) shmem_uint64_p(data + k * line, r, peer);
        how == Look::wait_until ? shmem_fence() : shmem_pe_quiet(&peer, 1);
        shmem_uint64_p(flag, r, peer);
      } else {
        look(how, flag, r);
        for (int k = 0; k < 4; k++)
          if (data[k * line] != r) *bad = r;
      }
  }
}

// Store buffering: each writes its own word at the other, quiets, and gets the other's. At least
// one must see the other's word.
__global__ void __launch_bounds__(1024)
    store_buffering(uint64_t *word, uint64_t *seen, int peer, int count, int late) {
  for (unsigned r = 1; r <= unsigned(count); r++) {
    shmem_sync_all();
    be_late(r, late);
    shmem_uint64_p(word, r, peer);
    shmem_quiet();
    // The peer's store at this PE is read back from the peer's view: its own get of here.
    seen[r - 1] = shmem_uint64_g(word, shmem_my_pe());
  }
}

// Put, then signal, across three PEs: 0 puts to 2 and quiets, then signals 1, which signals 2. A PE
// that sees the second signal sees the put.
__global__ void __launch_bounds__(1024)
    three_pes(uint64_t *data, uint64_t *sig, int role, int pe0, int pe1, int pe2, int count,
              int late, unsigned *bad) {
  for (unsigned r = 1; r <= unsigned(count); r++) {
    be_late(r, late);
    if (role == 0) {
      shmem_uint64_p(data, r, pe2);
      shmem_quiet();
      shmem_signal_set(sig, r, pe1);
      shmem_signal_wait_until(sig, SHMEM_CMP_GE, r); // pe2 has looked
    } else if (role == 1) {
      shmem_signal_wait_until(sig, SHMEM_CMP_GE, r);
      shmem_fence();
      shmem_signal_set(sig, r, pe2);
    } else {
      shmem_signal_wait_until(sig, SHMEM_CMP_GE, r);
      if (*data != r) *bad = r;
      shmem_signal_set(sig, r, pe0);
    }
  }
}

// A put of a whole workgroup, a fence and a signal of one lane, then every lane of the other side
// looks. The buffer is one of two, by turns.
__global__ void __launch_bounds__(1024)
    workgroup_put(uint32_t *dest, uint32_t *source, int n, uint64_t *sig, int peer, int count,
                  int late, int form, unsigned *bad) {
  const bool first = shmem_my_pe() < peer;
  for (unsigned r = 1; r <= unsigned(count); r++) {
    if (threadIdx.x == 0) be_late(r, late);
    uint32_t *d = dest + (r & 1) * n;
    for (int turn = 0; turn < 2; turn++)
      if (first == (turn == 0)) {
        for (int i = int(threadIdx.x); i < n; i += int(blockDim.x))
          source[i] = r * 1000 + unsigned(i);
        if (form == 0) {
          shmemx_uint32_put_signal_wg(d, source, size_t(n), sig, r, SHMEM_SIGNAL_SET, peer);
        } else if (form == 1) {
          shmemx_uint32_put_wg(d, source, size_t(n), peer);
          if (threadIdx.x == 0) {
            shmem_fence();
            shmem_signal_set(sig, r, peer);
          }
        } else { // by hand: each thread its own stores, each quiets, the workgroup meets
          __syncthreads();
          for (int i = int(threadIdx.x); i < n; i += int(blockDim.x))
            shmem_uint32_p(d + i, source[i], peer);
          shmem_quiet();
          __syncthreads();
          if (threadIdx.x == 0) shmem_signal_add(sig, 1, peer);
        }
        __syncthreads();
      } else {
        if (threadIdx.x == 0) shmem_signal_wait_until(sig, SHMEM_CMP_GE, r);
        __syncthreads();
        for (int i = int(threadIdx.x); i < n; i += int(blockDim.x))
          if (d[i] != r * 1000 + unsigned(i)) *bad = r;
        __syncthreads();
      }
  }
}

// A barrier of workgroups: after it, all threads of a PE see all stores of the other PE's threads
// before it; and the other gets this PE's stores to its own memory, or gets and quiets, and loads.
__global__ void __launch_bounds__(1024)
    across_barrier(uint32_t *dest, uint32_t *own, uint32_t *got, int n, int peer, int count,
                   int late, unsigned *bad) {
  for (unsigned r = 1; r <= unsigned(count); r++) {
    if (threadIdx.x == 0) be_late(r, late);
    for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) {
      shmem_uint32_p(dest + i, r * 1000 + unsigned(i), peer);
      own[i] = r * 2000 + unsigned(i);
    }
    shmemx_barrier_all_wg();
    for (int i = int(threadIdx.x); i < n; i += int(blockDim.x))
      if (dest[n - 1 - i] != r * 1000 + unsigned(n - 1 - i)) *bad = r;
    if (r % 2) {
      shmemx_uint32_get_wg(got, own, size_t(n), peer);
    } else {
      shmemx_uint32_get_nbi_wg(got, own, size_t(n), peer);
      shmem_quiet();
      __syncthreads();
    }
    const auto *theirs = static_cast<const uint32_t *>(shmem_ptr(own, peer));
    for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) {
      if (got[n - 1 - i] != r * 2000 + unsigned(n - 1 - i)) *bad = r;
      if (theirs && theirs[n - 1 - i] != r * 2000 + unsigned(n - 1 - i)) *bad = r;
    }
    shmemx_sync_all_wg();
  }
}

// A get sees what a peer has changed, though the getter has seen it before and nothing told it.
__global__ void __launch_bounds__(1024)
    gets(uint32_t *data, uint64_t *sig, int peer, int n, int count, unsigned *bad) {
  for (unsigned r = 1; r <= unsigned(count); r++) {
    if (shmem_my_pe() < peer) {
      be_late(r, shmem_my_pe());
      for (int i = 0; i < n; i++) data[i] = r;
      shmem_quiet();
      shmem_signal_wait_until(sig, SHMEM_CMP_GE, r);
    } else {
      uint32_t seen[28] = {};
      const uint64_t until = shmem::arch::clock() + 1000000000; // 10 s
      while ((seen[0] != r || seen[n - 1] != r) && shmem::arch::clock() < until) {
        shmem_uint32_get(seen, data, size_t(n), peer);
        shmem::arch::pause();
      }
      if (seen[0] != r || seen[n - 1] != r) {
        *bad = r;
        return shmem_signal_set(sig, unsigned(count), peer);
      }
      shmem_signal_set(sig, r, peer);
    }
  }
}
// The same by a wave, into memory here.
__global__ void __launch_bounds__(1024)
    gets_of_wave(uint32_t *data, uint64_t *sig, int peer, int n, int count, unsigned *bad) {
  for (unsigned r = 1; r <= unsigned(count); r++) {
    if (shmem_my_pe() < peer) {
      if (threadIdx.x == 0) {
        be_late(r, shmem_my_pe());
        for (int i = 0; i < n; i++) data[i] = r;
        shmem_quiet();
        shmem_signal_wait_until(sig, SHMEM_CMP_GE, r);
      }
    } else {
      uint32_t *const seen = data + n;
      const uint64_t until = shmem::arch::clock() + 1000000000; // 10 s
      bool all = false;
      while (!all && shmem::arch::clock() < until) {
        shmemx_uint32_get_wave(seen, data, size_t(n), peer);
        all = shmem::arch::load(seen) == r && shmem::arch::load(seen + n - 1) == r;
        shmem::arch::pause();
      }
      if (!all) *bad = r;
      __syncthreads();
      if (threadIdx.x == 0) shmem_signal_set(sig, all ? r : unsigned(count), peer);
      if (!all) return;
    }
    __syncthreads();
  }
}

// A sum of words that all threads stored. All threads look at it, and at all stores of peers' puts
// here.
__global__ void __launch_bounds__(1024)
    sums(int *dest, int *source, int *all, int n, int count, int late, unsigned *bad) {
  for (int r = 1; r <= count; r++) {
    if (threadIdx.x == 0) be_late(unsigned(r), late);
    for (int i = int(threadIdx.x); i < n; i += int(blockDim.x))
      source[i] = (shmem_my_pe() + 1) * r + i;
    shmemx_int_sum_reduce_wg(SHMEM_TEAM_WORLD, dest, source, size_t(n));
    int wanted = 0;
    for (int pe = 0; pe < shmem_n_pes(); pe++) wanted += (pe + 1) * r;
    __syncthreads();
    for (int i = int(threadIdx.x); i < n; i += int(blockDim.x))
      if (dest[n - 1 - i] != wanted + shmem_n_pes() * (n - 1 - i)) *bad = unsigned(r);
    shmemx_int_fcollect_wg(SHMEM_TEAM_WORLD, all, source, size_t(n));
    for (int pe = 0; pe < shmem_n_pes(); pe++)
      for (int i = int(threadIdx.x); i < n; i += int(blockDim.x))
        if (all[pe * n + n - 1 - i] != (pe + 1) * r + n - 1 - i) *bad = unsigned(r);
    __syncthreads();
  }
}

// A broadcast of words that its receivers have looked at before, as they were.
__global__ void __launch_bounds__(1024)
    looked_at(uint32_t *dest, uint32_t *source, int n, int count, int late, unsigned *bad) {
  for (int r = 1; r <= count; r++) {
    if (threadIdx.x == 0) be_late(unsigned(r), late);
    const int root = r % shmem_n_pes();
    const auto *theirs = static_cast<const uint32_t *>(shmem_ptr(source, root));
    for (int i = int(threadIdx.x); i < n; i += int(blockDim.x))
      if (shmem_my_pe() == root)
        source[i] = unsigned(r * 3000 + i);
      else if (theirs && theirs[n - 1 - i] > unsigned(r * 3000 + n - 1 - i))
        *bad = unsigned(r);
    shmemx_uint32_broadcast_wg(SHMEM_TEAM_WORLD, dest, source, size_t(n), root);
    __syncthreads();
    for (int i = int(threadIdx.x); i < n; i += int(blockDim.x))
      if (dest[n - 1 - i] != unsigned(r * 3000 + n - 1 - i)) *bad = unsigned(r);
    shmemx_sync_all_wg();
  }
}

// Workgroups of a GPU: the last one to count sees what all stored, where all threads of each stored
// or one thread did.
__global__ void __launch_bounds__(1024)
    last_one(uint32_t *data, unsigned *done, unsigned round, bool alone, unsigned *bad) {
  const unsigned all = gridDim.x * blockDim.x;
  bool wrong = false; // to be stored at the end, as no other wave releases it
  for (unsigned i = threadIdx.x; i < all; i += blockDim.x) // what was there before
    wrong |= data[i] > round;
  __syncthreads();
  __shared__ bool ends;
  if (alone) {
    for (unsigned i = 0; i < blockDim.x && threadIdx.x == 0; i++)
      data[blockIdx.x * blockDim.x + i] = round;
    if (threadIdx.x == 0)
      ends = shmem::arch::fetch_add<shmem::Order::acq_rel, shmem::Range::device>(done, 1u) ==
             gridDim.x * round - 1;
    __syncthreads();
  } else {
    data[blockIdx.x * blockDim.x + threadIdx.x] = round;
  }
  const bool last = alone ? ends : shmem::last_workgroup(done, gridDim.x * round);
  for (unsigned i = threadIdx.x; i < all && last; i += blockDim.x) wrong |= data[i] != round;
  if (wrong) *bad = round;
}

int rounds(void) {
  return pe_rounds(2000);
}

struct Buffers {
  uint64_t *words, *sig;
  uint32_t *data;
  unsigned *bad;
  Buffers() {
    words = static_cast<uint64_t *>(device_alloc(8 * line * 8, 0));
    sig = static_cast<uint64_t *>(device_alloc(8, 0, true));
    // A collection of 1,500 words of each PE is the most.
    data = static_cast<uint32_t *>(device_alloc((8192 + size_t(npes) * 1500) * 4, 0));
    bad = static_cast<unsigned *>(device_alloc(4, 0));
  }
  void done(const char *what) {
    HIP(hipGetLastError());
    finish_all();
    unsigned failed;
    HIP(hipMemcpy(&failed, bad, 4, hipMemcpyDeviceToHost));
    CHECK(failed == 0, "%s: the forbidden was seen in round %u", what, failed);
    object_free(bad);
    object_free(data);
    object_free(sig);
    object_free(words);
  }
};

bool paired(int *peer) {
  *peer = me ^ 1;
  return *peer < npes;
}

void messages(void) {
  const struct {
    Look how;
    const char *name;
  } looks[] = {{Look::wait_until, "message passing"},
               {Look::test, "message passing, seen by test"},
               {Look::all, "message passing, seen by wait_until_all"},
               {Look::any, "message passing, seen by wait_until_any"},
               {Look::some, "message passing, seen by wait_until_some"},
               {Look::fetch, "message passing, seen by signal_fetch"}};
  for (const auto &l : looks) {
    Buffers b;
    int peer;
    if (paired(&peer))
      hipLaunchKernelGGL(message_passing, dim3(1), dim3(1), 0, stream, b.words, b.sig, peer,
                         l.how == Look::wait_until ? rounds() : rounds() / 4, 1, l.how, b.bad);
    b.done(l.name);
  }
}
void three(void) {
  if (npes < 3) return;
  Buffers b;
  for (int late = 0; late < 3; late++) {
    HIP(hipMemsetAsync(b.sig, 0, 8, stream));
    finish_all();
    if (me < 3)
      hipLaunchKernelGGL(three_pes, dim3(1), dim3(1), 0, stream, b.words, b.sig, me, 0, 1, 2,
                         rounds(), late, b.bad);
    finish_all();
  }
  b.done("put, then signal by way of a third PE");
}
void workgroups(void) {
  int peer;
  for (int form = 0; form < 3; form++)
    for (int n : {3, 257, 2048}) {
      Buffers b;
      if (paired(&peer))
        hipLaunchKernelGGL(workgroup_put, dim3(1), dim3(256), 0, stream, b.data, b.data + 2 * n, n,
                           b.sig, peer, rounds() / 20, form % 2, form, b.bad);
      b.done(form == 0   ? "put with signal of a workgroup"
             : form == 1 ? "put of a workgroup, signal of a lane"
                         : "p of a workgroup");
    }
}
void barriers(void) {
  const int peer = npes % 2 && me == npes - 1 ? me : me ^ 1; // all take part
  for (int n : {5, 700}) {
    Buffers b;
    hipLaunchKernelGGL(across_barrier, dim3(1), dim3(256), 0, stream, b.data, b.data + n,
                       b.data + 2 * n, n, peer, rounds() / 20, 1, b.bad);
    b.done("a barrier of workgroups");
  }
}
void getting(void) {
  int peer;
  for (int n : {16, 28}) { // four words of 16 bytes, and three after them, the last one alone
    Buffers b;
    if (paired(&peer))
      hipLaunchKernelGGL(gets, dim3(1), dim3(1), 0, stream, b.data, b.sig, peer, n, rounds() / 40,
                         b.bad);
    b.done("gets of what changes");
  }
  for (int n : {16, 1500}) { // of 32 lanes: a word of 16 bytes each, and rounds of eight
    Buffers b;
    if (paired(&peer))
      hipLaunchKernelGGL(gets_of_wave, dim3(1), dim3(32), 0, stream, b.data, b.sig, peer, n,
                         rounds() / 40, b.bad);
    b.done("gets of what changes, by a wave");
  }
}
void reducing(void) {
  for (int n : {3, 1500}) {
    Buffers b;
    hipLaunchKernelGGL(sums, dim3(1), dim3(256), 0, stream, reinterpret_cast<int *>(b.data),
                       reinterpret_cast<int *>(b.data) + n, reinterpret_cast<int *>(b.data) + 2 * n,
                       n, rounds() / 20, 0, b.bad);
    b.done("a sum and a collection of workgroups");
  }
}
void broadcasting(void) {
  Buffers b;
  hipLaunchKernelGGL(looked_at, dim3(1), dim3(256), 0, stream, b.data, b.data + 1500, 1500,
                     rounds() / 20, 0, b.bad);
  b.done("a broadcast of what was looked at");
}
void counting(void) {
  Buffers b;
  for (unsigned r = 1; r <= unsigned(rounds()) / 20 + 20; r++)
    hipLaunchKernelGGL(last_one, dim3(8), dim3(256), 0, stream, b.data,
                       reinterpret_cast<unsigned *>(b.sig), r, r % 2 == 0, b.bad);
  b.done("the last workgroup to count");
}
void buffering(void) {
  const int count = rounds();
  uint64_t *word = static_cast<uint64_t *>(device_alloc(8, 0)),
           *seen = static_cast<uint64_t *>(device_alloc(size_t(count) * 8, 0));
  const int peer = npes % 2 && me == npes - 1 ? me : me ^ 1; // all take part in the sync
  hipLaunchKernelGGL(store_buffering, dim3(1), dim3(1), 0, stream, word, seen, peer, count, 0);
  HIP(hipGetLastError());
  finish_all();
  if (peer != me) {
    // The host's get reads what the peer saw.
    uint64_t *mine = static_cast<uint64_t *>(malloc(size_t(count) * 8)),
             *theirs = static_cast<uint64_t *>(malloc(size_t(count) * 8));
    HIP(hipMemcpy(mine, seen, size_t(count) * 8, hipMemcpyDeviceToHost));
    shmem_uint64_get(theirs, seen, size_t(count), peer);
    for (int r = 1; r <= count; r++)
      CHECK(mine[r - 1] == uint64_t(r) || theirs[r - 1] == uint64_t(r),
            "round %d: neither PE saw the other's store", r);
    free(theirs);
    free(mine);
  }
  shmem_barrier_all();
  object_free(seen);
  object_free(word);
}

const struct pe_test tests[] = {{"message passing", messages},
                                {"store buffering", buffering},
                                {"a signal by way of a third PE", three},
                                {"workgroup put, one lane's signal", workgroups},
                                {"across a barrier of workgroups", barriers},
                                {"gets of what changes", getting},
                                {"a sum and a collection of workgroups", reducing},
                                {"a broadcast of what was looked at", broadcasting},
                                {"the last workgroup to count", counting}};

} // namespace

extern "C" {
extern struct pe_list device_litmus_lists[];
extern const size_t device_litmus_count;
struct pe_list device_litmus_lists[] = {PE_LIST("", tests)};
const size_t device_litmus_count = 1;
}

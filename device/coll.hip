// SPDX-License-Identifier: MIT
// The library's kernels that move data on streams.
#include "kernels.hpp"
#include <hip/hip_runtime.h>

#include "coll.hpp"
#include "launch.hpp"
#include "module.hpp"
#include "signal.hpp"
#include "sync.hpp"

namespace shmem::kernels {

namespace {

using device::Slice, device::Stored;

using Way = CollectiveAlgorithm;

struct RootedCall : Call {
  int root;
};
struct StridedCall : Call {
  ptrdiff_t dst, sst;
  size_t unit;
};
struct UnevenCall : Call {
  Uneven uneven;
};
struct Call2d : Call {
  Block2d block;
};
struct TeamCall {
  device::Team team;
  unsigned id;
};
struct SignalCall {
  char *dest;
  const char *source;
  size_t n;
  uint64_t *sig, value;
  int sig_op;
};

// Each way is a kernel: one for both kept 11 to 13 scalars in lanes of a vector register, and 19 to
// 23 where kernels reach other nodes (gfx942, clang 19, 2026-11-28).
// each_meets: every workgroup, whatever their number.
template <bool each_meets = false, Way way = Way::direct, class C, class F>
SHMEM_D_ void run(const char *fn, const C &argument, F f) {
  const C &call = arch::argument(argument);
  const Workgroup scope;
  const bool meets = each_meets || gridDim.x <= device::max_channels;
  device::Channel c =
      device::open(fn, call.id, call.team, meets ? blockIdx.x : 0, call.dest, call.source, scope);
  f(c, Slice{way, blockIdx.x, gridDim.x, meets ? Stored::by_stream : Stored::nothing}, call);
  if (meets) device::close(c, arch::load_anew(call.team.base), scope);
}

// The meetings of a collective whose own kernels have none. Before `leave`, and before each meeting
// of a small wire, a kernel has stored at other members. The fence orders these stores before the
// flag: on NVIDIA the end of a kernel orders them for later kernels of its own GPU only.
SHMEM_D_ device::Channel open(const TeamCall &call) {
  return device::open("a collective on a stream", call.id, call.team, 0, nullptr, nullptr,
                      Workgroup{});
}
__global__ void enter(TeamCall argument) {
  const TeamCall &call = arch::argument(argument);
  device::Channel c = open(call);
  device::enter<Stored::by_scope>(c, Workgroup{});
  device::close(c, arch::load_anew(call.team.base), Workgroup{});
}
__global__ void leave(TeamCall argument) {
  device::leave<Stored::by_scope>(open(arch::argument(argument)), Workgroup{});
}

// Of some kernels nvcc would otherwise take 64 registers, and a stack (sm_90, CUDA 13).
template <Way way>
__global__ void __launch_bounds__(device::max_threads,
                                  way == Way::lines ? arch::one_resident : arch::two_resident)
    broadcast(RootedCall argument) {
  run<false, way>("broadcast on a stream", argument,
                  [](device::Channel &c, const Slice &s, const RootedCall &call) {
                    device::broadcast(c, s, call.dest, call.source, call.n, call.root, Workgroup{});
                  });
}
__global__ void __launch_bounds__(device::max_threads) collect(Call argument) {
  run<true>("collect on a stream", argument,
            [](device::Channel &c, const Slice &s, const Call &call) {
              device::collect(c, s, call.dest, call.source, call.n, Workgroup{});
            });
}
template <Way way> __global__ void __launch_bounds__(device::max_threads) fcollect(Call argument) {
  run<false, way>("fcollect on a stream", argument,
                  [](device::Channel &c, const Slice &s, const Call &call) {
                    device::fcollect(c, s, call.dest, call.source, call.n, Workgroup{});
                  });
}
template <Way way>
__global__ void __launch_bounds__(device::max_threads, arch::one_resident) alltoall(Call argument) {
  run<false, way>("alltoall on a stream", argument,
                  [](device::Channel &c, const Slice &s, const Call &call) {
                    device::alltoall(c, s, call.dest, call.source, call.n, Workgroup{});
                  });
}
__global__ void __launch_bounds__(device::max_threads) alltoalls(StridedCall argument) {
  run("alltoalls on a stream", argument,
      [](device::Channel &c, const Slice &s, const StridedCall &call) {
        device::alltoalls(c, s, call.dest, call.source, call.dst, call.sst, call.n, call.unit,
                          Workgroup{});
      });
}

__global__ void __launch_bounds__(device::max_threads, arch::one_resident)
    alltoallv(UnevenCall argument) {
  run<true>("alltoallv on a stream", argument,
            [](device::Channel &c, const Slice &s, const UnevenCall &call) {
              device::alltoallv(c, s, call.dest, call.source, call.uneven, Workgroup{});
            });
}

__global__ void __launch_bounds__(device::max_threads) alltoall2d(Call2d argument) {
  run<true>("alltoall2d on a stream", argument,
            [](device::Channel &c, const Slice &s, const Call2d &call) {
              device::alltoall2d(c, s, call.dest, call.source, call.block, Workgroup{});
            });
}

template <Remote remote> __global__ void copy(char *dest, const char *source, size_t n) {
  const pattern::Extent e = pattern::part(n, device::cache_line, blockIdx.x, gridDim.x);
  device::copy<remote, 1>(dest + e.from, source + e.from, e.to - e.from, Workgroup{});
}

struct Grid {
  __device__ unsigned rank() const { return blockIdx.x * blockDim.x + threadIdx.x; }
  __device__ unsigned size() const { return gridDim.x * blockDim.x; }
};
// The strides of blocks at the side that a kernel stores to, and at the side that it loads from.
template <Remote remote> SHMEM_D_ constexpr uint64_t dest_stride(const Blocks &b) {
  return remote == Remote::dest ? b.remote_stride : b.local_stride;
}
template <Remote remote> SHMEM_D_ constexpr uint64_t source_stride(const Blocks &b) {
  return remote == Remote::dest ? b.local_stride : b.remote_stride;
}
// Copies blocks that are one word each.
// All arguments are in one line, so to ask for dest is to ask for all. The pointers stay arguments:
// compilers know only of arguments that they are of global memory.
template <Remote remote> __global__ void elements(char *dest, const char *source, Blocks b) {
  (void)arch::argument(dest);
  const auto each = [&](auto word) {
    using W = decltype(word);
    device::copy_words<remote>(reinterpret_cast<W *>(dest), reinterpret_cast<const W *>(source),
                               b.count, Grid{}, dest_stride<remote>(b) / sizeof(W),
                               source_stride<remote>(b) / sizeof(W));
  };
  if (b.bytes == 16) each(device::Pack{});
  if (b.bytes == 8) each(uint64_t{});
  if (b.bytes == 4) each(uint32_t{});
  if (b.bytes == 2) each(uint16_t{});
  if (b.bytes == 1) each(uint8_t{});
}
// Threads that copy a block together; their number, a power of two, divides that of the workgroup.
struct Group {
  unsigned threads;
  __device__ unsigned rank() const { return threadIdx.x & (threads - 1); }
  __device__ unsigned size() const { return threads; }
};
// Copies blocks. The workgroups of one x share each block.
template <Remote remote>
__global__ void blocks(char *dest, const char *source, Blocks b, Group group) {
  const pattern::Extent e = pattern::part(b.bytes, device::cache_line, blockIdx.y, gridDim.y);
  const unsigned step = Grid{}.size() / group.threads;
  for (size_t i = Grid{}.rank() / group.threads; i < b.count; i += step)
    device::copy<remote, 1>(dest + i * dest_stride<remote>(b) + e.from,
                            source + i * source_stride<remote>(b) + e.from, e.to - e.from, group);
}
// Stores the value by one store, so that a waiter never sees half of it.
__global__ void store(void *dest, uint64_t value, int bytes) {
  if (bytes == 8) arch::store(static_cast<uint64_t *>(dest), value);
  if (bytes == 4) arch::store(static_cast<uint32_t *>(dest), uint32_t(value));
  if (bytes == 2) arch::store(static_cast<uint16_t *>(dest), uint16_t(value));
  if (bytes == 1) arch::store(static_cast<uint8_t *>(dest), uint8_t(value));
}
__global__ void put_signal(SignalCall argument) {
  const SignalCall &call = arch::argument(argument);
  const Workgroup scope;
  device::copy<Remote::dest, 1>(call.dest, call.source, call.n, scope);
  device::settle(scope);
  if (scope.rank() != 0) return;
  arch::fence_release(); // the data before the signal
  device::deliver(call.sig, call.value, call.sig_op);
}
__global__ void wait(uint64_t *sig, int cmp, uint64_t value) {
  device::wait_for("shmemx_signal_wait_until_on_stream", "sig_addr", sig, cmp, value);
}
__global__ void quiet() {
  arch::fence_all();
}
__global__ void refresh() {
  arch::fence_release();
  arch::fence_acquire();
}
__global__ void meet(unsigned id) {
  device::meet("a barrier on a stream", arch::argument(id), Workgroup{});
}

} // namespace

hipError_t copy_on_stream(void *dest, const void *source, size_t bytes, Remote remote,
                          unsigned blocks, unsigned threads, hipStream_t stream) {
  return shmem::launch(remote == Remote::source ? copy<Remote::source> : copy<Remote::dest>,
                       dim3(blocks), dim3(threads), 0, stream, static_cast<char *>(dest),
                       static_cast<const char *>(source), bytes);
}
hipError_t strided_on_stream(void *dest, const void *source, const Blocks &b, Remote remote,
                             hipStream_t stream) {
  auto *d = static_cast<char *>(dest);
  auto *s = static_cast<const char *>(source);
  const size_t bytes = b.bytes, n = b.count;
  const uintptr_t all = reinterpret_cast<uintptr_t>(d) | reinterpret_cast<uintptr_t>(s) |
                        b.remote_stride | b.local_stride;
  constexpr size_t most = device::max_channels; // workgroups, as of a copy
  const auto up = [](size_t a, size_t b) { return (a + b - 1) / b; };
  if (bytes <= 16 && (bytes & (bytes - 1)) == 0 && all % bytes == 0) {
    const unsigned threads = n <= 64 ? 64 : 256;
    const size_t grid = up(n, threads * size_t(device::in_flight<uint64_t>));
    return shmem::launch(
        remote == Remote::source ? elements<Remote::source> : elements<Remote::dest>,
        dim3(unsigned(grid < most ? grid : most)), dim3(threads), 0, stream, d, s, b);
  }
  size_t share = up(bytes, 64 << 10); // of a block, where there are not enough of them
  if (share > up(most, n)) share = up(most, n);
  unsigned threads = 1;
  while (threads < 256 && threads * size_t(16) * share < bytes) threads *= 2;
  const unsigned size = n * threads <= 64 ? 64 : 256;
  size_t grid = up(n * threads, size);
  if (grid > up(most, share)) grid = up(most, share);
  return shmem::launch(remote == Remote::source ? blocks<Remote::source> : blocks<Remote::dest>,
                       dim3(unsigned(grid), unsigned(share)), dim3(size), 0, stream, d, s, b,
                       Group{threads});
}
hipError_t store_on_stream(void *dest, uint64_t value, size_t bytes, hipStream_t stream) {
  return shmem::launch(store, dim3(1), dim3(1), 0, stream, dest, value, int(bytes));
}
hipError_t put_signal_on_stream(void *dest, const void *source, size_t bytes, uint64_t *sig,
                                uint64_t value, int sig_op, hipStream_t stream) {
  const unsigned threads = bytes <= 1024 ? 64 : 256;
  return shmem::launch(put_signal, dim3(1), dim3(threads), 0, stream,
                       SignalCall{static_cast<char *>(dest), static_cast<const char *>(source),
                                  bytes, sig, value, sig_op});
}
hipError_t wait_on_stream(uint64_t *sig, int cmp, uint64_t value, hipStream_t stream) {
  return shmem::launch(wait, dim3(1), dim3(1), 0, stream, sig, cmp, value);
}
hipError_t quiet_on_stream(hipStream_t stream) {
  return shmem::launch(quiet, dim3(1), dim3(1), 0, stream);
}
hipError_t refresh_on_stream(hipStream_t stream) {
  return shmem::launch(refresh, dim3(1), dim3(1), 0, stream);
}
hipError_t sync_on_stream(unsigned id, hipStream_t stream) {
  return shmem::launch(meet, dim3(1), dim3(device::max_wave), 0, stream, id);
}

hipError_t enter_on_stream(const device::Team &team, unsigned id, hipStream_t stream) {
  return shmem::launch(enter, dim3(1), dim3(device::max_wave), 0, stream, TeamCall{team, id});
}
hipError_t leave_on_stream(const device::Team &team, unsigned id, hipStream_t stream) {
  return shmem::launch(leave, dim3(1), dim3(device::max_wave), 0, stream, TeamCall{team, id});
}
template <class C> static hipError_t start(void (*kernel)(C), const C &c) {
  return with_meetings(
      c, [&] { return shmem::launch(kernel, dim3(c.blocks), dim3(c.threads), 0, c.stream, c); });
}
hipError_t alltoallv(const Call &c, const Uneven &u) {
  return start(alltoallv, UnevenCall{c, u});
}
hipError_t alltoall2d(const Call &c, const Block2d &b) {
  return start(alltoall2d, Call2d{c, b});
}
hipError_t move(Collective what, const Call &c, int root, const Blocks &elements) {
  const bool lines = c.algorithm == Way::lines;
  switch (what) {
  case Collective::broadcast:
    return start(lines ? broadcast<Way::lines> : broadcast<Way::direct>, RootedCall{c, root});
  case Collective::collect:
    return start(collect, c);
  case Collective::fcollect:
    return start(lines ? fcollect<Way::lines> : fcollect<Way::direct>, c);
  case Collective::alltoall:
    return start(lines ? alltoall<Way::lines> : alltoall<Way::direct>, c);
  case Collective::alltoalls:
    return start(alltoalls, StridedCall{c, ptrdiff_t(elements.remote_stride / elements.bytes),
                                        ptrdiff_t(elements.local_stride / elements.bytes),
                                        size_t(elements.bytes)});
  default:
    return hipErrorInvalidValue;
  }
}

} // namespace shmem::kernels

// SPDX-License-Identifier: MIT
// The members' work beside the product: they meet, send rows to the others, and sum the rows that
// come.
#pragma once
#include <hip/hip_runtime.h>

#include "../copy.hpp"
#include "../launch.hpp"
#include "../module.hpp"
#include "../pattern.hpp"
#include "../runtime.hpp"
#include "epilogue.hpp"

namespace shmem::gemm {

using Which = Flags Signals::*;

// The members wait for each other in one workgroup, which keeps no other from a compute unit.
// Kernels that fill the GPU never wait: those of two calls on two streams could stop each other for
// good. Earlier work of the stream is complete. back: the flags are those of so many calls before.
struct Meeting {
  Which tell, wait; // NULL: none
  uint64_t back;
};
SHMEM_D_ void meet_members(const Members &members, const Meeting &first, const Meeting &second,
                           bool over) {
  SHMEM_TRACED_(Workgroup, trace::meet, 0, -1)
  const uint64_t epoch = epoch_of(members);
  for (const Meeting &m : {first, second}) {
    if (m.tell) tell(members, m.tell, epoch, Workgroup{});
    if (m.wait && epoch > m.back)
      wait_all(members, members.own->*m.wait, epoch - m.back, Workgroup{});
  }
  arch::wg_sync();
  if (!over) return;
  if (arch::thread().x == 0)
    members.own->epoch = epoch,
    members.own->call.begun = members.own->call.ticket = members.own->call.ended = 0;
  for (unsigned i = arch::thread().x; i < max_workers; i += arch::threads().x)
    members.own->call.progress[i] = 0;
}
struct MeetCall {
  Members members;
  Meeting first, second;
  bool over;
  bool begins;        // sets c_delta for the kernels after this one
  const uintptr_t *c; // the deltas of the buffer of C, by PE; NULL: C is on the heap
};
template <int = 0> __global__ void meet(MeetCall argument) {
  const MeetCall &call = arch::argument(argument);
  const Members &members = call.members;
  const int i = int(arch::thread().x);
  if (call.begins && i < members.n) {
    const uintptr_t delta =
        arch::load_global(call.c ? call.c + pe_of(members, i) : &members.own->delta[i]);
    members.own->c_delta[i] = arch::keeps_peers ? delta & ~device::coarse : delta;
  }
  meet_members(members, call.first, call.second, call.over);
}
inline constexpr Meeting no_meeting{}, all_entered{&Signals::entered, &Signals::entered, 0},
    all_arrived{&Signals::arrived, &Signals::arrived, 0},
    all_gathered{&Signals::gathered, &Signals::gathered, 0},
    all_consumed{&Signals::consumed, nullptr, 0};
// The others are done with this PE's rows: of the last call (one_box); or, at the end of a call, so
// that the call after the next (two_boxes), or the next one (same_box), may send to the same place.
inline constexpr Meeting one_box{nullptr, &Signals::consumed, 1},
    two_boxes{&Signals::consumed, &Signals::consumed, 1},
    same_box{&Signals::consumed, &Signals::consumed, 0};

inline hipError_t launch_meet(const Members &members, hipStream_t stream, const Meeting &first,
                              const Meeting &second = no_meeting, bool over = false,
                              bool begins = false, const uintptr_t *c = nullptr) {
  return shmem::launch(meet<>, dim3(1), dim3(device::max_wave), 0, stream,
                       MeetCall{members, first, second, over, begins, c});
}

// Rows here, and the address here of their place at the others. Workgroups take rows and members in
// turn, so that all links carry at the same time.
struct Rows {
  const char *from;
  size_t ld, bytes, n; // bytes: of a row
  char *to;
  size_t pitch;
};
struct SendRowsCall {
  Members members;
  Rows rows;
};
template <int = 0>
__global__ void __launch_bounds__(device::max_threads) send_rows(SendRowsCall argument) {
  const SendRowsCall &call = arch::argument(argument);
  const Members &members = call.members;
  const Rows &rows = call.rows;
  const size_t n = size_t(members.n);
  for (size_t i = arch::block().x; i < rows.n * n; i += arch::blocks().x) {
    const size_t r = i / n;
    const int to = pattern::peer(members.me, int(i % n), members.n);
    device::copy<Remote::dest, 1>(at(members, rows.to + r * rows.pitch, to),
                                  rows.from + r * rows.ld, rows.bytes, Workgroup{});
  }
}
// To a member that is not mapped, from the heap.
template <bool> __global__ void put_rows(Rows rows, int pe) {
  arch::fence_stream(); // what the product stored, before the host reads it
  device::ring::transfer("a product of several PEs", Operation::put, rows.to, rows.from, pe,
                         {rows.bytes, rows.n, rows.pitch, rows.ld});
}
// Copies rows, which the stream has made so far, to `count` members from `first` on. The GPU's copy
// engines do it, which take no compute unit from the product beside them and wait for no peer; or
// the host. delta: of the buffer that the rows go to, by PE; NULL for the heap.
template <bool rings = device::ring_built>
hipError_t start_copies(const Members &members, const Copies &copies, const Rows &rows,
                        const uintptr_t *delta, int first, int count, hipStream_t stream) {
  hipError_t error = hipEventRecord(copies.begin, stream);
  if (!error) error = hipStreamWaitEvent(copies.stream, copies.begin, 0);
  const bool gaps = rows.ld != rows.bytes || rows.pitch != rows.bytes;
  for (int k = 0; k < count && rows.n && rows.bytes && !error; k++) {
    const int i = pattern::peer(first, k, members.n);
    if constexpr (rings) // nvcc 13 warns of the kernel if the function is no template
      if (copies.remote >> i & 1) {
        error =
            shmem::launch(put_rows<rings>, dim3(1), dim3(1), 0, copies.stream, rows, copies.pe[i]);
        continue;
      }
    const uintptr_t further = delta ? delta[copies.pe[i]] & ~device::tags : copies.delta[i];
    char *to = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(rows.to) + further);
    error =
        gaps ? runtime::copy_2d(to, rows.pitch, rows.from, rows.ld, rows.bytes, rows.n,
                                copies.stream)
             : hipMemcpyAsync(to, rows.from, rows.n * rows.bytes, hipMemcpyDefault, copies.stream);
  }
  return error;
}
inline hipError_t end_copies(const Copies &copies, hipStream_t stream) {
  const hipError_t error = hipEventRecord(copies.end, copies.stream);
  return error ? error : hipStreamWaitEvent(stream, copies.end, 0);
}

// Rows start on multiples of 16 bytes, so a chunk comes by one load, or two of floats. By elements
// the sums of 8 members, 3.4 MB in all, took an MI250X 15.5 us in place of 13.0 (computed,
// 2026-11-29).
template <class T> SHMEM_D_ void add_row(float (&sum)[chunk], const char *from) {
  struct alignas(sizeof(T) == 1 ? 8 : 16) Chunk {
    T at[chunk];
  };
  const Chunk in = arch::load_global(reinterpret_cast<const Chunk *>(from));
  SHMEM_UNROLL_
  for (unsigned e = 0; e < chunk; e++) sum[e] += to_float(in.at[e]);
}
SHMEM_D_ void add_as(Type type, float (&sum)[chunk], const char *from) {
  switch (type) {
  case Type::f16:
    return add_row<Half>(sum, from);
  case Type::bf16:
    return add_row<Bfloat16>(sum, from);
  case Type::f8:
    return add_row<Float8>(sum, from);
  default:
    return add_row<float>(sum, from);
  }
}

// This member's own rows and the others' boxes, which lie box_bytes apart, are summed in the
// members' order, so that the sum is the same in every run. `rows` rows of it go to the store, from
// row `first` on.
template <class Finish> struct SumCall {
  Members members;
  const char *own, *boxes;
  size_t box_bytes, pitch, odd; // pitch: in elements
  unsigned first, rows;
  Store<Finish> to;
  Meeting last, second; // at the end, of the last workgroup
};
template <class Finish>
__global__ void __launch_bounds__(device::max_threads) reduce(SumCall<Finish> argument) {
  const SumCall<Finish> &call = arch::argument(argument);
  const Members &members = call.members;
  const Store<Finish> &store = call.to;
  const char *const boxes = call.boxes + (epoch_of(members) % 2 ? call.odd : 0);
  {
    SHMEM_TRACED_(Workgroup, trace::sum, 0, -1)
    const unsigned across = (store.n + chunk - 1) / chunk;
    const size_t each = store.type == Type::f32 ? 4 : store.type == Type::f8 ? 1 : 2;
    for (size_t i = size_t(arch::block().x) * arch::threads().x + arch::thread().x;
         i < size_t(call.rows) * across; i += size_t(arch::blocks().x) * arch::threads().x) {
      const unsigned row = unsigned(i / across), col = unsigned(i % across) * chunk;
      float sum[chunk] = {};
      for (int k = 0; k < members.n; k++)
        add_as(store.type, sum,
               (k == members.me ? call.own : boxes + k * call.box_bytes) +
                   (row * call.pitch + col) * each);
      store.put(call.first + row, col, sum);
    }
  }
  // The last workgroup ends the call for all of them.
  __shared__ bool ends;
  device::settle(Workgroup{});
  if (arch::thread().x == 0) {
    arch::fence_release(); // orders what this workgroup loaded and stored before the count
    ends = arch::fetch_add<Order::acq_rel, Range::device>(&members.own->call.ended, 1u) ==
           arch::blocks().x - 1;
  }
  arch::wg_sync();
  if (ends) meet_members(members, call.last, call.second, true);
}

} // namespace shmem::gemm

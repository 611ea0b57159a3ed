// SPDX-License-Identifier: MIT
#include <hip/hip_runtime.h>

#include "../copy.hpp"
#include "epilogue.hpp"

namespace shmem::gemm {

namespace {

size_t bytes_of(Type type) {
  return type == Type::f32 ? 4 : type == Type::f8 ? 1 : 2;
}
// Rows of boxes start on 16 bytes, whatever the matrix.
size_t padded(size_t elements, Type type) {
  const size_t each = 16 / bytes_of(type);
  return (elements + each - 1) / each * each;
}
size_t rows_of(size_t m, int members) {
  return (m + size_t(members) - 1) / size_t(members);
}

hipError_t compute_units(unsigned *units) {
  int device, count;
  hipError_t error = hipGetDevice(&device);
  if (!error) error = hipDeviceGetAttribute(&count, hipDeviceAttributeMultiprocessorCount, device);
  if (!error) *units = unsigned(count);
  return error;
}

template <class T> Matrices<T> matrices(const Matmul &call) {
  return {static_cast<const T *>(call.a),
          static_cast<const T *>(call.b),
          call.lda,
          call.ldb,
          unsigned(call.m),
          unsigned(call.n),
          unsigned(call.k),
          call.trans_a,
          call.trans_b};
}
// run(core, operands) with what multiplies such matrices best.
template <class Run> hipError_t choose(const Matmul &call, Run run) {
  switch (call.type) {
  case Type::f32:
    return choose(matrices<float>(call), run);
  case Type::f16:
    return choose(matrices<Half>(call), run);
  case Type::bf16:
    return choose(matrices<Bfloat16>(call), run);
  case Type::f8:
    return choose(matrices<Float8>(call), run);
  }
  return hipErrorInvalidValue;
}

// The product of m rows, as the order and the epilogue have it but for what depends on the core.
hipError_t run(const Matmul &call, Shards order, const Store &store, hipStream_t stream) {
  unsigned units;
  if (hipError_t error = compute_units(&units)) return error;
  return choose(call, [&](auto core, const auto &operands) {
    using Core = decltype(core);
    order.high = Core::tile_m * Core::unit;
    order.wide = Core::tile_n;
    const size_t down = (order.rows + order.high - 1) / order.high,
                 across = (call.n + order.wide - 1) / order.wide,
                 blocks = down * across * (order.shards ? order.shards : 1) * Core::unit;
    if (blocks > size_t(1) << 31) return hipErrorInvalidValue; // they are counted in 32 bits
    order.of_shard = unsigned(down * across);
    const unsigned most = units * Core::resident / Core::unit * Core::unit;
    return launch<Core>(operands, blocks < most ? unsigned(blocks) : most, stream, order, store);
  });
}

// Whether the product of a shard and then that of the others take little longer than all at once:
// tiles come in rounds of as many as the GPU has room for, and what is left of a round is lost.
// 8192 x 8192 in 4 shards on an H200: 4 + 12 rounds against 16.
hipError_t splits_well(const Matmul &call, unsigned rows, unsigned shards, bool *well) {
  unsigned units;
  if (hipError_t error = compute_units(&units)) return error;
  return choose(call, [&](auto core, const auto &) {
    using Core = decltype(core);
    const size_t high = Core::tile_m * Core::unit, room = units * Core::resident / Core::unit,
                 tiles = (rows + high - 1) / high * ((call.n + Core::tile_n - 1) / Core::tile_n),
                 one = (tiles + room - 1) / room, others = (tiles * (shards - 1) + room - 1) / room,
                 all = (tiles * shards + room - 1) / room;
    *well = (one + others - all) * 4 <= one;
    return hipSuccess;
  });
}

bool too_large(const Matmul &call) {
  const size_t most = (size_t(1) << 31) - 4096; // a tile beyond the end still counts in 32 bits
  return call.m > most || call.n > most || call.k > most;
}

Shards plain_order(const Matmul &call) {
  Shards order{};
  order.m = order.rows = unsigned(call.m);
  order.n = unsigned(call.n);
  order.group = 8;
  return order;
}
Store plain_store(void *c, size_t ld, Type type, const Matmul &call) {
  Store store{};
  store.c = c;
  store.ld = ld;
  store.n = unsigned(call.n);
  store.wide = (reinterpret_cast<uintptr_t>(c) | ld * bytes_of(type)) % 16 == 0;
  store.finish = {type, call.act, call.bias};
  store.plain = store.wide && !call.bias && call.act == Activation::none ? int(type) : -1;
  return store;
}

// Where members wait for each other: one workgroup, so that it keeps nobody from a compute unit.
// The kernels that fill the GPU never wait: those of two calls on two streams could stop each other
// for good. What came before in the stream is complete. `back`: for the flags of so many calls
// before.
struct Meeting {
  using Flags = Flag[max_members];
  Flags Signals::*tell, Signals::*wait;
  uint64_t back;
};
__global__ void meet(Members members, Meeting first, Meeting second, bool over) {
  const uint64_t epoch = epoch_of(members);
  for (const Meeting &m : {first, second}) {
    if (m.tell) tell(members, m.tell, epoch, threadIdx.x);
    if (m.wait && epoch > m.back)
      wait_all(members, members.own->*m.wait, epoch - m.back, Workgroup{});
  }
  arch::wg_sync();
  if (over && threadIdx.x == 0) members.own->epoch = epoch;
}
constexpr Meeting no_meeting{}, all_entered{&Signals::entered, &Signals::entered, 0},
    all_arrived{&Signals::arrived, &Signals::arrived, 0},
    all_gathered{&Signals::gathered, &Signals::gathered, 0},
    all_consumed{&Signals::consumed, nullptr, 0};
// What this PE sent in the last call, or in the one before, has been used up.
constexpr Meeting one_box{nullptr, &Signals::consumed, 1},
    two_boxes{nullptr, &Signals::consumed, 2};

void launch_meet(const Members &members, hipStream_t stream, const Meeting &first,
                 const Meeting &second = no_meeting, bool over = false) {
  hipLaunchKernelGGL(meet, dim3(1), dim3(64), 0, stream, members, first, second, over);
}

// This PE's rows of A, and their place in a box.
struct Rows {
  const char *from;
  size_t ld, bytes, n; // bytes: of a row
  char *box;
  size_t pitch;
};
__global__ void __launch_bounds__(512) send_rows(Members members, Rows rows) {
  for (size_t r = blockIdx.x; r < rows.n; r += gridDim.x)
    for (int k = 0; k < members.n; k++)
      device::copy<device::Remote::dest, 1>(
          at(members, rows.box + r * rows.pitch, (members.me + k) % members.n),
          rows.from + r * rows.ld, rows.bytes, Workgroup{});
}
// By the GPU's copy engines, which take no compute unit from the product beside them. They wait for
// no peer.
hipError_t start_copies(const Members &members, const Copies &copies, const Rows &rows,
                        hipStream_t stream) {
  hipError_t error = hipEventRecord(copies.begin, stream);
  if (!error) error = hipStreamWaitEvent(copies.stream, copies.begin, 0);
  const bool gaps = rows.ld != rows.bytes || rows.pitch != rows.bytes;
  for (int k = 1; k < members.n && rows.n && !error; k++) {
    char *to = rows.box + copies.delta[(members.me + k) % members.n];
    error =
        gaps ? hipMemcpy2DAsync(to, rows.pitch, rows.from, rows.ld, rows.bytes, rows.n,
                                hipMemcpyDefault, copies.stream)
             : hipMemcpyAsync(to, rows.from, rows.n * rows.bytes, hipMemcpyDefault, copies.stream);
  }
  return error ? error : hipEventRecord(copies.end, copies.stream);
}

template <class T> SHMEM_D_ void add_row(float (&sum)[chunk], const char *from) {
  const T *p = reinterpret_cast<const T *>(from);
  SHMEM_UNROLL_
  for (unsigned e = 0; e < chunk; e++) sum[e] += to_float(p[e]);
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

// The sum of the members' boxes, which lie box_bytes apart, in their order, and so the same
// wherever and whenever it is made. rows x columns of it are the store's, from `first` on.
__global__ void __launch_bounds__(512)
    reduce(Members members, const char *boxes, size_t box_bytes, size_t pitch, size_t odd,
           unsigned first, unsigned rows, Store store) {
  boxes += epoch_of(members) % 2 ? odd : 0;
  const unsigned across = (store.n + chunk - 1) / chunk;
  const size_t each = store.finish.type == Type::f32 ? 4 : store.finish.type == Type::f8 ? 1 : 2;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < size_t(rows) * across;
       i += size_t(gridDim.x) * blockDim.x) {
    const unsigned row = unsigned(i / across), col = unsigned(i % across) * chunk;
    float sum[chunk] = {};
    for (int k = 0; k < members.n; k++)
      add_as(store.finish.type, sum, boxes + k * box_bytes + (row * pitch + col) * each);
    store.put(static_cast<char *>(store.c), first + row, col, sum);
  }
}

void to_all(Store &store, const Members &members) {
  store.members = members;
  store.to = Store::all;
  store.plain = -1;
}

} // namespace

hipError_t matmul(const Matmul &call, hipStream_t stream) {
  if (!call.m || !call.n) return hipSuccess;
  if (too_large(call)) return hipErrorInvalidValue;
  return run(call, plain_order(call), plain_store(call.c, call.ldc, call.out, call), stream);
}

size_t box_bytes(Fused op, const Matmul &shape, int members) {
  if (op == Fused::all_gather) return 0;
  const size_t row = op == Fused::gather_matmul ? padded(shape.k, shape.type) * bytes_of(shape.type)
                                                : padded(shape.n, shape.out) * bytes_of(shape.out);
  return (rows_of(shape.m, members) * size_t(members) * row + 127) / 128 * 128;
}

hipError_t fused(Fused op, const Members &members, char *boxes, const Copies &copies,
                 const Matmul &whole, hipStream_t stream) {
  if (too_large(whole)) return hipErrorInvalidValue;
  const unsigned rows = unsigned(rows_of(whole.m, members.n)), me = unsigned(members.me);
  const unsigned first = me * rows < whole.m ? me * rows : unsigned(whole.m);
  const unsigned own = unsigned(whole.m) - first < rows ? unsigned(whole.m) - first : rows;
  const size_t odd = box_bytes(op, whole, members.n);
  const size_t bytes = bytes_of(whole.out), pitch = padded(whole.n, whole.out);
  const dim3 many(512);
  unsigned units;
  hipError_t error = compute_units(&units);
  if (error) return error;
  Matmul call = whole;
  Shards order = plain_order(call);
  order.members = members;

  if (op == Fused::reduce_scatter || op == Fused::all_reduce) {
    // Each shard of the product to its owner's box for this PE.
    call.bias = nullptr;
    call.act = Activation::none;
    Store send = plain_store(boxes, pitch, call.out, call);
    send.members = members;
    send.to = Store::owner;
    send.shard = rows * pitch * bytes;
    send.c = boxes + me * send.shard;
    send.odd = odd;
    order.rows = rows;
    order.shards = unsigned(members.n);
    launch_meet(members, stream, two_boxes);
    if (whole.m && whole.n) error = run(call, order, send, stream);
    if (error) return error;
    launch_meet(members, stream, all_arrived);
    Store store = plain_store(whole.c, whole.ldc, whole.out, whole);
    const bool all = op == Fused::all_reduce;
    if (all) to_all(store, members);
    hipLaunchKernelGGL(reduce, dim3(units * 2), many, 0, stream, members, boxes,
                       rows * pitch * bytes, pitch, odd, all ? first : 0, own, store);
    launch_meet(members, stream, all_consumed, all ? all_gathered : no_meeting, true);
  } else if (op == Fused::all_gather) {
    launch_meet(members, stream, all_entered);
    call.m = order.m = order.rows = own;
    Store store = plain_store(static_cast<char *>(whole.c) + first * whole.ldc * bytes, whole.ldc,
                              whole.out, whole);
    to_all(store, members);
    if (own && whole.n) error = run(call, order, store, stream);
    if (error) return error;
    launch_meet(members, stream, all_gathered, no_meeting, true);
  } else {
    const size_t a_bytes = bytes_of(whole.type), a_pitch = padded(whole.k, whole.type);
    const Rows mine{static_cast<const char *>(whole.a), whole.lda * a_bytes, whole.k * a_bytes, own,
                    boxes + first * a_pitch * a_bytes,  a_pitch * a_bytes};
    bool beside = false;
    if (whole.m && whole.n && whole.k && members.n > 1)
      error = splits_well(call, rows, unsigned(members.n), &beside);
    if (error) return error;
    launch_meet(members, stream, one_box);
    if (beside) { // the own rows, and meanwhile their copies to the others
      if ((error = start_copies(members, copies, mine, stream))) return error;
      call.m = order.m = order.rows = own;
      if (own)
        error = run(call, order,
                    plain_store(static_cast<char *>(whole.c) + first * whole.ldc * bytes, whole.ldc,
                                whole.out, whole),
                    stream);
      if (!error) error = hipStreamWaitEvent(stream, copies.end, 0);
      if (error) return error;
      order.rows = rows;
      order.shards = unsigned(members.n) - 1;
    } else {
      hipLaunchKernelGGL(send_rows, dim3(units * 2), many, 0, stream, members, mine);
      order.rows = unsigned(whole.m);
    }
    launch_meet(members, stream, all_arrived);
    call.a = boxes;
    call.lda = a_pitch;
    call.m = order.m = unsigned(whole.m);
    if (whole.m && whole.n)
      error = run(call, order, plain_store(whole.c, whole.ldc, whole.out, whole), stream);
    if (error) return error;
    launch_meet(members, stream, all_consumed, no_meeting, true);
  }
  return hipGetLastError();
}

} // namespace shmem::gemm

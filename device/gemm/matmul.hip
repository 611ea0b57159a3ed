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

// The product of m rows, as the order and the epilogue have it but for what depends on the core.
template <class T>
hipError_t run(const Matmul &call, Shards order, const Store &store, hipStream_t stream) {
  const Matrices<T> x{static_cast<const T *>(call.a),
                      static_cast<const T *>(call.b),
                      call.lda,
                      call.ldb,
                      unsigned(call.m),
                      unsigned(call.n),
                      unsigned(call.k),
                      call.trans_a,
                      call.trans_b};
  unsigned units;
  if (hipError_t error = compute_units(&units)) return error;
  return choose(x, [&](auto core, const auto &operands) {
    using Core = decltype(core);
    order.high = Core::tile_m * Core::unit;
    order.wide = Core::tile_n;
    order.of_shard =
        (order.rows + order.high - 1) / order.high * ((x.n + order.wide - 1) / order.wide);
    const size_t blocks =
        size_t(order.of_shard) * (order.all ? size_t(order.members.n) : 1) * Core::unit;
    const unsigned most = units * Core::resident / Core::unit * Core::unit;
    return launch<Core>(operands, blocks < most ? unsigned(blocks) : most, stream, order, store);
  });
}
hipError_t run(const Matmul &call, const Shards &order, const Store &store, hipStream_t stream) {
  switch (call.type) {
  case Type::f32:
    return run<float>(call, order, store, stream);
  case Type::f16:
    return run<Half>(call, order, store, stream);
  case Type::bf16:
    return run<Bfloat16>(call, order, store, stream);
  case Type::f8:
    return run<Float8>(call, order, store, stream);
  }
  return hipErrorInvalidValue;
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
  store.to[0] = c;
  store.ld = ld;
  store.n = unsigned(call.n);
  store.wide = (reinterpret_cast<uintptr_t>(c) | ld * bytes_of(type)) % 16 == 0;
  store.finish = {type, call.act, call.bias};
  store.plain = store.wide && !call.bias && call.act == Activation::none ? int(type) : -1;
  return store;
}

// C in shards here.
Store plain_store_in_shards(const Matmul &call, int members) {
  Store store = plain_store(call.c, call.ldc, call.out, call);
  for (int s = 1; s < members; s++) store.to[s] = call.c;
  return store;
}

// Tells that this PE has come to the call.
__global__ void enter(Members members) {
  members.tell(&Signals::entered, members.epoch(), threadIdx.x);
}

// This PE's rows of A to all members' boxes.
__global__ void __launch_bounds__(512)
    send_rows(Members members, const char *from, size_t ld, size_t row_bytes, size_t rows,
              char *box, size_t pitch) {
  const uint64_t epoch = members.epoch();
  members.wait(members.own->consumed, epoch - 1,
               Workgroup{}); // there is one box: TMA has its place
  for (size_t r = blockIdx.x; r < rows; r += gridDim.x)
    for (int k = 0; k < members.n; k++)
      device::copy<device::Remote::dest, 1>(
          members.at(box + r * pitch, (members.me + k) % members.n), from + r * ld, row_bytes,
          Workgroup{});
  if (members.last()) members.tell(&Signals::arrived, epoch, threadIdx.x);
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
  const uint64_t epoch = members.epoch();
  if (blockIdx.x == 0) members.tell(&Signals::arrived, epoch, threadIdx.x);
  members.wait(members.own->arrived, epoch, Workgroup{});
  boxes += epoch % 2 ? odd : 0;
  const unsigned across = (store.n + chunk - 1) / chunk;
  const size_t each = store.finish.type == Type::f32 ? 4 : store.finish.type == Type::f8 ? 1 : 2;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < size_t(rows) * across;
       i += size_t(gridDim.x) * blockDim.x) {
    const unsigned row = unsigned(i / across), col = unsigned(i % across) * chunk;
    float sum[chunk] = {};
    for (int k = 0; k < members.n; k++)
      add_as(store.finish.type, sum, boxes + k * box_bytes + (row * pitch + col) * each);
    store.put(0, first + row, col, sum);
  }
}

// The end of a call, by one more kernel: the last one's stores are complete.
__global__ void leave(Members members, bool gathers) {
  const uint64_t epoch = members.epoch();
  members.tell(&Signals::consumed, epoch, threadIdx.x);
  if (gathers) {
    members.tell(&Signals::gathered, epoch, threadIdx.x);
    members.wait(members.own->gathered, epoch, Workgroup{});
  }
  arch::wg_sync();
  if (threadIdx.x == 0) members.own->epoch = epoch;
}

// For all members as where the product goes.
void to_all(Store &store, void *c, const Members &members) {
  store.all = true;
  for (int i = 0; i < members.n; i++)
    store.to[i] =
        reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(c) + uintptr_t(members.delta[i]));
}

} // namespace

hipError_t matmul(const Matmul &call, hipStream_t stream) {
  if (!call.m || !call.n) return hipSuccess;
  if (too_large(call)) return hipErrorInvalidValue;
  return run(call, plain_order(call), plain_store(call.c, call.ldc, call.out, call), stream);
}

size_t signal_bytes() {
  return sizeof(Signals);
}
size_t box_bytes(Fused op, Type type, Type out, size_t m, size_t n, size_t k, int members) {
  const size_t rows = rows_of(m, members);
  const size_t bytes =
      op == Fused::gather_matmul ? rows * size_t(members) * padded(k, type) * bytes_of(type)
      : op == Fused::all_gather  ? 0
                                 : rows * size_t(members) * padded(n, out) * bytes_of(out);
  return (bytes + 127) / 128 * 128;
}

hipError_t fused(const Workspace &w, const Matmul &whole, hipStream_t stream) {
  if (too_large(whole)) return hipErrorInvalidValue;
  const Members &members = *w.members;
  const unsigned rows = unsigned(rows_of(whole.m, members.n)), me = unsigned(members.me);
  const unsigned first = me * rows < whole.m ? me * rows : unsigned(whole.m);
  const unsigned own = unsigned(whole.m) - first < rows ? unsigned(whole.m) - first : rows;
  const size_t odd = box_bytes(w.op, whole.type, whole.out, whole.m, whole.n, whole.k, members.n);
  const size_t bytes = bytes_of(whole.out), pitch = padded(whole.n, whole.out);
  const dim3 one(1), few(64), many(512);
  unsigned units;
  hipError_t error = compute_units(&units);
  if (error) return error;
  Matmul call = whole;
  Shards order = plain_order(call);
  order.members = members;

  if (w.op == Fused::reduce_scatter || w.op == Fused::all_reduce) {
    // Each shard of the product to its owner's box for this PE.
    call.bias = nullptr;
    call.act = Activation::none;
    Store send = plain_store(w.boxes, pitch, call.out, call);
    for (unsigned s = 0; s < unsigned(members.n); s++)
      send.to[s] = reinterpret_cast<void *>(
          reinterpret_cast<uintptr_t>(w.boxes) + uintptr_t(members.delta[s]) +
          me * (rows * pitch * bytes) - s * (rows * pitch * bytes));
    send.members = members;
    send.odd = odd;
    send.wait = Store::credit;
    order.rows = rows;
    order.all = true;
    if (whole.m && whole.n) error = run(call, order, send, stream);
    if (error) return error;
    Store store = plain_store(whole.c, whole.ldc, whole.out, whole);
    store.members = members;
    const bool all = w.op == Fused::all_reduce;
    if (all) to_all(store, whole.c, members);
    hipLaunchKernelGGL(reduce, dim3(units * 2), many, 0, stream, members, w.boxes,
                       rows * pitch * bytes, pitch, odd, all ? first : 0, own, store);
    hipLaunchKernelGGL(leave, one, few, 0, stream, members, all);
  } else if (w.op == Fused::all_gather) {
    hipLaunchKernelGGL(enter, one, few, 0, stream, members);
    call.m = order.m = order.rows = own;
    Store store = plain_store(static_cast<char *>(whole.c) + first * whole.ldc * bytes, whole.ldc,
                              whole.out, whole);
    store.members = members;
    store.wait = Store::entry;
    to_all(store, store.to[0], members);
    if (own && whole.n) error = run(call, order, store, stream);
    if (error) return error;
    hipLaunchKernelGGL(leave, one, few, 0, stream, members, true);
  } else {
    const size_t a_bytes = bytes_of(whole.type), a_pitch = padded(whole.k, whole.type);
    hipLaunchKernelGGL(send_rows, dim3(units * 2), many, 0, stream, members,
                       static_cast<const char *>(whole.a), whole.lda * a_bytes, whole.k * a_bytes,
                       size_t(own), w.boxes + first * a_pitch * a_bytes, a_pitch * a_bytes);
    call.a = w.boxes;
    call.lda = a_pitch;
    order.rows = rows;
    order.all = order.own_first = order.waits = true;
    if (whole.m && whole.n)
      error = run(call, order, plain_store_in_shards(call, members.n), stream);
    if (error) return error;
    hipLaunchKernelGGL(leave, one, few, 0, stream, members, false);
  }
  return hipGetLastError();
}

} // namespace shmem::gemm

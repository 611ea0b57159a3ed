// SPDX-License-Identifier: MIT
#include <hip/hip_runtime.h>

#include "../copy.hpp"
#include "epilogue.hpp"
#include <algorithm>

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
          call.trans_b,
          call.small_tiles};
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

// What a call will take, about; by figures of an H200, 2026-11: while others multiply, a workgroup of
// the pool sends 20 GB/s; links take 400 from kernels and 340 from copy engines; a launch costs 5 us.
constexpr double pool_rate = 20e3, link_rate = 400e3, copy_rate = 340e3, launch_us = 5; // bytes/us

// Of the pool, as many workgroups as make a product of so many tiles, and what it sends, end first.
struct Pool {
  unsigned size;
  double us;
};
Pool pool_for(size_t tiles, size_t room, double tile_us, double bytes) {
  Pool best{0, 0};
  for (unsigned size = 0; size <= room / 4; size++) {
    const size_t workers = room - size;
    const double product = double((tiles + workers - 1) / workers) * tile_us,
                 rate = std::min(size * pool_rate, link_rate),
                 us = product + std::max(bytes - (product - tile_us) * rate, 0.0) / link_rate;
    if (!size || us < best.us) best = {size, us};
  }
  return best;
}

// Tiles of m rows, and what they take on a GPU of so many compute units.
template <class Core> struct Work {
  size_t tiles, room;
  double tile_us;
  Work(const Matmul &call, size_t m, unsigned units)
      : tiles((m + Core::tile_m - 1) / Core::tile_m * ((call.n + Core::tile_n - 1) / Core::tile_n)),
        room(std::min(units * Core::resident, max_workers)),
        tile_us(2.0 * Core::tile_m * Core::tile_n * double(call.k) / Core::speed) {}
  size_t rounds(size_t times = 1) const { return (tiles * times + room - 1) / room; }
};

__global__ void __launch_bounds__(512)
    send_tiles(SHMEM_GRID_CONSTANT_ const Shards order, SHMEM_GRID_CONSTANT_ const Push push) {
  push.send(order, Workgroup{});
}

// The product of m rows, as the order and the epilogue have it but for what depends on the core.
hipError_t run(const Matmul &call, Shards order, Store store, hipStream_t stream) {
  unsigned units;
  if (hipError_t error = compute_units(&units)) return error;
  return choose(call, [&](auto core, const auto &operands) {
    using Core = decltype(core);
    const Work<Core> work(call, order.rows, units);
    const size_t tiles = work.tiles * (order.shards ? order.shards : 1);
    if (tiles > size_t(1) << 31) return hipErrorInvalidValue; // they are counted in 32 bits
    order.high = Core::tile_m;
    order.wide = Core::tile_n;
    order.of_shard = unsigned(work.tiles);
    Push push = store.push;
    const unsigned others = push.members.n > 1 ? unsigned(push.members.n) - 1 : 0;
    push.tiles = others ? order.of_shard * (push.owner ? others : 1) : 0;
    unsigned pool = 0;
    store.push = {};
    if (push.tiles && push.waits && push.owner && tiles <= work.room) {
      // All tiles end at once, and there is nothing to go on with.
      push.direct = true;
      push.waits = false;
      push.tiles = 0;
      store.push = push;
    } else if (push.tiles && push.waits) {
      pool = pool_for(tiles, work.room, work.tile_us,
                      double(work.tiles) * others * order.high * order.wide * push.element)
                 .size;
      store.push = push;
    }
    order.workers = unsigned(std::min(tiles, work.room - pool));
    hipError_t error = launch<Core>(operands, order.workers + pool, stream, order, store);
    if (!error && push.tiles && !push.waits) {
      hipLaunchKernelGGL(send_tiles, dim3(units * 2), dim3(512), 0, stream, order, push);
      error = hipGetLastError();
    }
    return error;
  });
}

// Whether the product of a shard and then that of the others take little longer than all at once:
// tiles come in rounds of as many as the GPU has room for, and what is left of a round is lost.
// 8192 x 8192 in 4 shards on an H200: 4 + 12 rounds against 16.
hipError_t splits_well(const Matmul &call, unsigned rows, unsigned shards, bool *well) {
  unsigned units;
  if (hipError_t error = compute_units(&units)) return error;
  return choose(call, [&](auto core, const auto &) {
    const Work<decltype(core)> work(call, rows, units);
    *well = (work.rounds() + work.rounds(shards - 1) - work.rounds(shards)) * 4 <= work.rounds();
    return hipSuccess;
  });
}

// The time of a product of so many shards that its pool sends.
hipError_t pooled(const Matmul &call, unsigned rows, unsigned shards, double bytes, double *us) {
  unsigned units;
  if (hipError_t error = compute_units(&units)) return error;
  return choose(call, [&](auto core, const auto &) {
    const Work<decltype(core)> work(call, rows, units);
    *us = pool_for(work.tiles * shards, work.room, work.tile_us, bytes).us;
    return hipSuccess;
  });
}
// And of one in shards that copy engines send; the last is not sent.
hipError_t copied(const Matmul &call, unsigned rows, unsigned shards, double bytes, double *us) {
  unsigned units;
  if (hipError_t error = compute_units(&units)) return error;
  Matmul shard = call;
  shard.m = rows;
  return choose(shard, [&](auto core, const auto &) {
    const Work<decltype(core)> work(call, rows, units);
    const double one = double(work.rounds()) * work.tile_us + launch_us;
    *us = std::max(shards * one, one + bytes / copy_rate);
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
  Flags Signals::*tell, Signals::*wait;
  uint64_t back;
};
SHMEM_D_ void meet_members(const Members &members, const Meeting &first, const Meeting &second,
                           bool over) {
  const uint64_t epoch = epoch_of(members);
  for (const Meeting &m : {first, second}) {
    if (m.tell) tell(members, m.tell, epoch, threadIdx.x);
    if (m.wait && epoch > m.back)
      wait_all(members, members.own->*m.wait, epoch - m.back, Workgroup{});
  }
  arch::wg_sync();
  if (!over) return;
  if (threadIdx.x == 0)
    members.own->epoch = epoch,
    members.own->call.begun = members.own->call.ticket = members.own->call.ended = 0;
  for (unsigned i = threadIdx.x; i < max_workers; i += blockDim.x)
    members.own->call.progress[i] = 0;
}
__global__ void meet(Members members, Meeting first, Meeting second, bool over) {
  meet_members(members, first, second, over);
}
constexpr Meeting no_meeting{}, all_entered{&Signals::entered, &Signals::entered, 0},
    all_arrived{&Signals::arrived, &Signals::arrived, 0},
    all_gathered{&Signals::gathered, &Signals::gathered, 0},
    all_consumed{&Signals::consumed, nullptr, 0};
// What this PE sent has been used up: in the last call; at the end of a call, so that the one after
// the next or that the next may send to where this one did.
constexpr Meeting one_box{nullptr, &Signals::consumed, 1},
    two_boxes{&Signals::consumed, &Signals::consumed, 1},
    same_box{&Signals::consumed, &Signals::consumed, 0};

void launch_meet(const Members &members, hipStream_t stream, const Meeting &first,
                 const Meeting &second = no_meeting, bool over = false) {
  hipLaunchKernelGGL(meet, dim3(1), dim3(64), 0, stream, members, first, second, over);
}

// Rows here, and where they go to at others, as an address here.
struct Rows {
  const char *from;
  size_t ld, bytes, n; // bytes: of a row
  char *to;
  size_t pitch;
};
__global__ void __launch_bounds__(512) send_rows(Members members, Rows rows) {
  for (size_t r = blockIdx.x; r < rows.n; r += gridDim.x)
    for (int k = 0; k < members.n; k++)
      device::copy<device::Remote::dest, 1>(
          at(members, rows.to + r * rows.pitch, (members.me + k) % members.n),
          rows.from + r * rows.ld, rows.bytes, Workgroup{});
}
// By the GPU's copy engines, which take no compute unit from the product beside them: what the
// stream has made so far. They wait for no peer. To `count` members from `first` on.
hipError_t start_copies(const Members &members, const Copies &copies, const Rows &rows, int first,
                        int count, hipStream_t stream) {
  hipError_t error = hipEventRecord(copies.begin, stream);
  if (!error) error = hipStreamWaitEvent(copies.stream, copies.begin, 0);
  const bool gaps = rows.ld != rows.bytes || rows.pitch != rows.bytes;
  for (int k = 0; k < count && rows.n && !error; k++) {
    char *to = rows.to + copies.delta[(first + k) % members.n];
    error =
        gaps ? hipMemcpy2DAsync(to, rows.pitch, rows.from, rows.ld, rows.bytes, rows.n,
                                hipMemcpyDefault, copies.stream)
             : hipMemcpyAsync(to, rows.from, rows.n * rows.bytes, hipMemcpyDefault, copies.stream);
  }
  return error;
}
hipError_t end_copies(const Copies &copies, hipStream_t stream) {
  const hipError_t error = hipEventRecord(copies.end, copies.stream);
  return error ? error : hipStreamWaitEvent(stream, copies.end, 0);
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

// The sum of this member's own rows and of the others' boxes, which lie box_bytes apart, in the
// members' order, and so the same whenever it is made. rows x columns of it are the store's, from
// `first` on.
__global__ void __launch_bounds__(512)
    reduce(Members members, const char *own, const char *boxes, size_t box_bytes, size_t pitch,
           size_t odd, unsigned first, unsigned rows, Store store, Meeting last, Meeting second) {
  boxes += epoch_of(members) % 2 ? odd : 0;
  const unsigned across = (store.n + chunk - 1) / chunk;
  const size_t each = store.finish.type == Type::f32 ? 4 : store.finish.type == Type::f8 ? 1 : 2;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < size_t(rows) * across;
       i += size_t(gridDim.x) * blockDim.x) {
    const unsigned row = unsigned(i / across), col = unsigned(i % across) * chunk;
    float sum[chunk] = {};
    for (int k = 0; k < members.n; k++)
      add_as(store.finish.type, sum,
             (k == members.me ? own : boxes + k * box_bytes) + (row * pitch + col) * each);
    store.put(first + row, col, sum);
  }
  // The last workgroup ends the call for all of them.
  __shared__ bool ends;
  device::settle(Workgroup{});
  if (threadIdx.x == 0) {
    arch::fence_release(); // orders what this workgroup loaded and stored before the count
    ends = arch::fetch_add<Order::acq_rel, Range::device>(&members.own->call.ended, 1u) ==
           gridDim.x - 1;
  }
  arch::wg_sync();
  if (ends) meet_members(members, last, second, true);
}

} // namespace

hipError_t matmul(const Matmul &call, hipStream_t stream) {
  if (!call.m || !call.n) return hipSuccess;
  if (too_large(call)) return hipErrorInvalidValue;
  return run(call, plain_order(call), plain_store(call.c, call.ldc, call.out, call), stream);
}

// reduce_scatter and all_reduce have the product here, padded, and then the boxes into which the
// members send, twice, for calls of even and of odd number; gather_matmul the rows of all.
size_t workspace_bytes(Fused op, const Matmul &shape, int members) {
  if (op == Fused::all_gather) return 0;
  const size_t all = rows_of(shape.m, members) * size_t(members);
  if (op == Fused::gather_matmul) return all * padded(shape.k, shape.type) * bytes_of(shape.type);
  return 3 * all * padded(shape.n, shape.out) * bytes_of(shape.out);
}

namespace {

// One call of a member.
struct Call {
  const Members &members;
  const Copies &copies;
  const Matmul &whole;
  hipStream_t stream;
  unsigned rows, first, own, units; // of a shard; of the member's one
  int n, me;

  Shards order(unsigned m) const {
    Shards s = plain_order(whole);
    s.members = members;
    s.m = s.rows = m;
    return s;
  }
  // The product of rows of A alone. c is of the first of them.
  hipError_t part(const Matmul &call, unsigned from, unsigned count, char *c, size_t ld) const {
    if (!count || !call.n) return hipSuccess;
    Matmul some = call;
    some.m = count;
    some.a = static_cast<const char *>(call.a) +
             (call.trans_a ? from : from * call.lda) * bytes_of(call.type);
    return run(some, order(count), plain_store(c, ld, call.out, call), stream);
  }

  hipError_t reduced(Algorithm algorithm, char *memory, bool all) const {
    const size_t element = bytes_of(whole.out), pitch = padded(whole.n, whole.out) * element,
                 shard = rows * pitch, boxes_bytes = shard * size_t(n);
    char *const product = memory, *const boxes = product + boxes_bytes;
    Matmul call = whole; // of this member; bias and activation come after the sum
    call.bias = nullptr;
    call.act = Activation::none;
    bool streams = algorithm == Algorithm::streams;
    hipError_t error = hipSuccess;
    if (algorithm == Algorithm::best && whole.m && whole.n && n > 1) {
      double pool, copies_too;
      error = pooled(call, rows, unsigned(n), double(shard) * (n - 1), &pool);
      if (!error) error = copied(call, rows, unsigned(n), double(shard) * (n - 1), &copies_too);
      if (error) return error;
      streams = copies_too < pool;
    }
    if (streams) { // copy engines do not know the call's number, and so have one box for all
      launch_meet(members, stream, one_box);
      for (int k = 1; k <= n && !error; k++) {
        const int to = (me + k) % n;
        const unsigned from =
                           unsigned(to) * rows < whole.m ? unsigned(to) * rows : unsigned(whole.m),
                       count = unsigned(whole.m) - from < rows ? unsigned(whole.m) - from : rows;
        error = part(call, from, count, product + to * shard, pitch / element);
        if (!error && k < n)
          error =
              start_copies(members, copies,
                           {product + to * shard, pitch, pitch, count, boxes + me * shard, pitch},
                           to, 1, stream);
      }
      if (!error && n > 1) error = end_copies(copies, stream);
    } else if (whole.m && whole.n) {
      Shards by_owner = order(unsigned(whole.m));
      by_owner.rows = rows;
      by_owner.shards = unsigned(n);
      Store store = plain_store(product, pitch / element, call.out, call);
      store.push.members = members;
      store.push.waits = algorithm != Algorithm::bulk;
      store.push.owner = true;
      store.push.from = product;
      store.push.to = boxes + me * shard;
      store.push.pitch = store.push.row = pitch;
      store.push.shard = shard;
      store.push.odd = boxes_bytes;
      store.push.element = unsigned(element);
      store.push.lines = pitch < 1 << 27;
      error = run(call, by_owner, store, stream);
    }
    if (error) return error;
    launch_meet(members, stream, all_arrived);
    Store store = plain_store(whole.c, whole.ldc, whole.out, whole);
    if (all) store.members = members;
    const size_t chunks = size_t(own) * ((whole.n + chunk - 1) / chunk),
                 blocks = (chunks + 511) / 512;
    hipLaunchKernelGGL(reduce,
                       dim3(blocks < 1           ? 1
                            : blocks < units * 2 ? unsigned(blocks)
                                                 : units * 2),
                       dim3(512), 0, stream, members,
                       static_cast<const char *>(product + me * shard),
                       static_cast<const char *>(boxes), shard, pitch / element,
                       streams ? 0 : boxes_bytes, all ? first : 0, own, store,
                       streams ? same_box : two_boxes, all ? all_gathered : no_meeting);
    return hipGetLastError();
  }

  hipError_t gathered(Algorithm algorithm) const {
    const size_t element = bytes_of(whole.out), ld = whole.ldc * element;
    char *const c = static_cast<char *>(whole.c) + first * ld;
    hipError_t error = hipSuccess;
    launch_meet(members, stream, all_entered);
    if (algorithm == Algorithm::streams) {
      const unsigned each = ((own + 3) / 4 + 255) / 256 * 256; // whole tiles
      for (unsigned from = 0; from < own && !error; from += each) {
        const unsigned count = own - from < each ? own - from : each;
        error = part(whole, from, count, c + from * ld, whole.ldc);
        if (!error && n > 1 && whole.n)
          error = start_copies(members, copies,
                               {c + from * ld, ld, whole.n * element, count, c + from * ld, ld},
                               me + 1, n - 1, stream);
      }
      if (!error && n > 1 && own && whole.n) error = end_copies(copies, stream);
    } else if (own && whole.n) {
      Matmul call = whole;
      call.m = own;
      if (algorithm != Algorithm::bulk && n > 1) { // with small tiles the first ones go earlier
        const double bytes = double(own) * double(whole.n) * double(element) * (n - 1);
        double small, large;
        error = pooled(call, own, 1, bytes, &large);
        call.small_tiles = true;
        if (!error) error = pooled(call, own, 1, bytes, &small);
        if (error) return error;
        call.small_tiles = small < large;
      }
      Store store = plain_store(c, whole.ldc, whole.out, whole);
      store.push.members = members;
      store.push.waits = algorithm != Algorithm::bulk;
      store.push.from = store.push.to = c;
      store.push.pitch = ld;
      store.push.row = whole.n * element;
      store.push.element = unsigned(element);
      store.push.lines = store.wide && store.push.row % 16 == 0 && ld < 1 << 27;
      error = run(call, order(own), store, stream);
    }
    if (error) return error;
    launch_meet(members, stream, all_gathered, no_meeting, true);
    return hipGetLastError();
  }

  hipError_t gather_matmul(Algorithm algorithm, char *box) const {
    const size_t a_bytes = bytes_of(whole.type), pitch = padded(whole.k, whole.type);
    const Rows mine{static_cast<const char *>(whole.a), whole.lda * a_bytes, whole.k * a_bytes, own,
                    box + first * pitch * a_bytes,      pitch * a_bytes};
    const bool some = whole.m && whole.n && whole.k;
    bool beside = (algorithm == Algorithm::streams || algorithm == Algorithm::fused) && some;
    hipError_t error = hipSuccess;
    if (algorithm == Algorithm::best && some && n > 1)
      error = splits_well(whole, rows, unsigned(n), &beside);
    if (error) return error;
    Matmul call = whole;
    Shards all = order(unsigned(whole.m));
    launch_meet(members, stream, one_box);
    if (beside) { // the own rows, and meanwhile their copies to the others
      error = start_copies(members, copies, mine, me + 1, n - 1, stream);
      if (!error)
        error =
            part(whole, 0, own,
                 static_cast<char *>(whole.c) + first * whole.ldc * bytes_of(whole.out), whole.ldc);
      if (!error) error = end_copies(copies, stream);
      if (error) return error;
      all.rows = rows;
      all.shards = unsigned(n) - 1;
    } else {
      hipLaunchKernelGGL(send_rows, dim3(units * 2), dim3(512), 0, stream, members, mine);
    }
    launch_meet(members, stream, all_arrived);
    call.a = box;
    call.lda = pitch;
    if (whole.m && whole.n && (!beside || n > 1))
      error = run(call, all, plain_store(whole.c, whole.ldc, whole.out, whole), stream);
    if (error) return error;
    launch_meet(members, stream, all_consumed, no_meeting, true);
    return hipGetLastError();
  }
};

} // namespace

hipError_t fused(Fused op, Algorithm algorithm, const Members &members, char *memory,
                 const Copies &copies, const Matmul &whole, hipStream_t stream) {
  if (too_large(whole)) return hipErrorInvalidValue;
  const unsigned m = unsigned(whole.m), rows = unsigned(rows_of(whole.m, members.n)),
                 first = unsigned(members.me) * rows < m ? unsigned(members.me) * rows : m,
                 own = m - first < rows ? m - first : rows;
  unsigned units;
  if (hipError_t error = compute_units(&units)) return error;
  const Call call{members, copies, whole, stream, rows, first, own, units, members.n, members.me};
  switch (op) {
  case Fused::reduce_scatter:
  case Fused::all_reduce:
    return call.reduced(algorithm, memory, op == Fused::all_reduce);
  case Fused::all_gather:
    return call.gathered(algorithm);
  case Fused::gather_matmul:
    return call.gather_matmul(algorithm, memory);
  }
  return hipErrorInvalidValue;
}

} // namespace shmem::gemm

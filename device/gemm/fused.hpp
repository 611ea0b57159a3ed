// SPDX-License-Identifier: MIT
// Products of matrices, of one PE and of several, with a finish that the caller writes (see
// epilogue.hpp). The routines are those of shmemx.h, with the type of A and B as an argument of the
// template: float, Half, Bfloat16 or Float8 of number.hpp.
//
//   struct Twice {
//     SHMEM_D_ void operator()(unsigned row, unsigned col, unsigned n, float (&v)[8]) const {
//       for (float &x : v) x *= 2;
//     }
//   };
//   shmem::gemm::matmul_all_reduce<float>(workspace, call, Twice{}, stream);
#pragma once
#include "exchange.hpp"
#include "plan.hpp"

namespace shmem::gemm {

struct SendTilesCall {
  Shards order;
  Push push;
};
template <int = 0>
__global__ void __launch_bounds__(device::max_threads)
    send_tiles(SHMEM_GRID_CONSTANT_ const SendTilesCall argument) {
  const SendTilesCall &call = arch::argument(argument);
  call.push.send(call.order, Workgroup{});
}

// Starts the product. The order and the epilogue lack only what depends on the core.
template <class T, class Finish>
hipError_t run(const Matmul &call, Shards order, Store<Finish> store, hipStream_t stream) {
  unsigned units;
  if (hipError_t error = compute_units(&units)) return error;
  return choose(matrices<T>(call, order.rows), [&](auto core, const auto &operands) {
    using Core = decltype(core);
    Push push = store.push;
    if (push.owner && order.shards && order.rows < Core::tile_m && order.rows % Push::band == 0) {
      // Shards lower than a tile share tiles: if tiles began anew at each shard, their other rows
      // would be multiplied for nothing (512 rows on 8 H200s: 115 us, the product alone 43;
      // 2026-11).
      push.rows = order.rows;
      order.rows = order.m;
      order.shards = 0;
    }
    const TileWork work = work_of<Core>(call, order.rows, units);
    const size_t tiles = work.tiles * (order.shards ? order.shards : 1);
    if (tiles > size_t(1) << 31) return hipErrorInvalidValue; // they are counted in 32 bits
    order.high = Core::tile_m;
    order.wide = Core::tile_n;
    order.of_shard = unsigned(work.tiles);
    const unsigned others = push.members.n > 1 ? unsigned(push.members.n) - 1 : 0;
    const bool by_shard = push.owner && !push.rows; // a tile goes to one member as a whole
    push.tiles = others ? order.of_shard * (by_shard ? others : 1) : 0;
    unsigned pool = 0;
    store.push = {};
    if (push.tiles && push.waits && by_shard && tiles <= work.room) {
      // All tiles end at once, so no product is left to hide their sending.
      push.direct = true;
      push.waits = false;
      push.tiles = 0;
      store.push = push;
    } else if (push.tiles && push.waits) {
      // How often work.tiles are sent: to each of the others, or, with low shards, all rows but
      // this member's own once.
      const double times = push.rows ? double(others) / (others + 1) : others;
      pool =
          pool_for(tiles, work.room, work.tile_us,
                   double(work.tiles) * times * order.high * order.wide * push.element, call.links)
              .size;
      store.push = push;
    }
    order.workers = unsigned(std::min(tiles, work.room - pool));
    hipError_t error = launch<Core>(operands, order.workers + pool, stream, order, store);
    if (!error && push.tiles && !push.waits) {
      error = shmem::launch(send_tiles<>, dim3(units * 2), dim3(device::max_threads), 0, stream,
                            SendTilesCall{order, push});
    }
    return error;
  });
}

inline Shards plain_order(const Matmul &call) {
  Shards order{};
  order.m = order.rows = unsigned(call.m);
  order.n = unsigned(call.n);
  order.group = 8;
  return order;
}
template <class Finish>
Store<Finish> plain_store(void *c, size_t ld, const Matmul &call, const Finish &finish,
                          bool finishes) {
  Store<Finish> store{c, ld, unsigned(call.n), 0, call.out, false, finishes, false, finish, {}, {}};
  store.wide = (reinterpret_cast<uintptr_t>(c) | ld * bytes_of(call.out)) % 16 == 0;
  store.plain = store.wide && !finishes && call.out == Type::bf16;
  return store;
}

// A call of one member.
template <class T, class Finish> struct FusedCall {
  const Members &members;
  const Copies &copies;
  const Matmul &whole;
  const Finish &finish;
  bool finishes; // there is a finish to do
  hipStream_t stream;
  unsigned units, rows, first, own; // of a GPU; of a shard; of the member's one
  int n, me;

  FusedCall(const Workspace &w, const Matmul &whole, const Finish &finish, bool finishes,
            hipStream_t stream, unsigned units)
      : members(w.members), copies(w.copies), whole(whole), finish(finish), finishes(finishes),
        stream(stream), units(units), n(w.members.n), me(w.members.me) {
    const Shard mine = shard_of(whole.m, n, me);
    rows = unsigned(shard_of(whole.m, n, 0).rows);
    first = unsigned(mine.first), own = unsigned(mine.rows);
  }

  Shards order(unsigned m) const {
    Shards s = plain_order(whole);
    s.members = members;
    s.m = s.rows = m;
    return s;
  }
  Store<Finish> store(void *c, size_t ld, bool finished) const {
    return plain_store(c, ld, whole, finish, finished);
  }
  // The product of some rows of A. The first of them goes to c, and is number `row` for the finish.
  hipError_t product_of(unsigned from, unsigned count, char *c, size_t ld, bool finished,
                        unsigned row) const {
    if (!count || !whole.n) return hipSuccess;
    Matmul some = whole;
    some.m = count;
    some.a = static_cast<const char *>(whole.a) +
             (whole.trans_a ? from : from * whole.lda) * bytes_of(whole.type);
    Store<Finish> to = store(c, ld, finished);
    to.first = row;
    return run<T>(some, order(count), to, stream);
  }

  hipError_t reduced(char *memory, bool all) const {
    const size_t element = bytes_of(whole.out), pitch = padded(whole.n, whole.out) * element,
                 shard = rows * pitch, boxes_bytes = shard * size_t(n);
    char *const product = memory, *const boxes = product + boxes_bytes;
    bool streams = whole.algorithm == Algorithm::streams || copies.remote;
    hipError_t error = hipSuccess;
    if (!streams && whole.algorithm == Algorithm::best && whole.m && whole.n && n > 1)
      error = copies_well<T>(whole, rows, unsigned(n), double(shard) * (n - 1), &streams);
    if (error) return error;
    if (streams) { // copy engines do not know the call's number, and so have one box for all
      error = launch_meet(members, stream, one_box);
      if (error) return error;
      for (int k = 1; k <= n && !error; k++) {
        const int to = pattern::peer(me, k, n);
        const Shard part = shard_of(whole.m, n, to);
        error = product_of(unsigned(part.first), unsigned(part.rows), product + to * shard,
                           pitch / element, false, 0);
        if (!error && k < n)
          error = start_copies(
              members, copies,
              {product + to * shard, pitch, pitch, part.rows, boxes + me * shard, pitch}, nullptr,
              to, 1, stream);
      }
      if (!error && n > 1) error = end_copies(copies, stream);
    } else if (whole.m && whole.n) {
      Shards by_owner = order(unsigned(whole.m));
      by_owner.rows = rows;
      by_owner.shards = unsigned(n);
      Store<Finish> store = this->store(product, pitch / element, false); // it comes after the sum
      store.push.members = members;
      store.push.waits = whole.algorithm != Algorithm::bulk;
      store.push.owner = true;
      store.push.from = product;
      store.push.to = boxes + me * shard;
      store.push.pitch = store.push.row = pitch;
      store.push.shard = shard;
      store.push.odd = boxes_bytes;
      store.push.element = unsigned(element);
      store.push.lines = pitch < 1 << 27;
      error = run<T>(whole, by_owner, store, stream);
    }
    if (error) return error;
    error = meet_for_c(all_arrived);
    if (error) return error;
    Store<Finish> store = this->store(whole.c, whole.ldc, finishes);
    const bool stores = all && !copies.remote; // the sums, at all members
    if (stores) store.members = members;
    const size_t chunks = size_t(own) * ((whole.n + chunk - 1) / chunk),
                 blocks = (chunks + device::max_threads - 1) / device::max_threads;
    error = shmem::launch(
        reduce<Finish>,
        dim3(blocks < 1           ? 1
             : blocks < units * 2 ? unsigned(blocks)
                                  : units * 2),
        dim3(device::max_threads), 0, stream,
        SumCall<Finish>{members, product + me * shard, boxes, shard, pitch / element,
                        streams ? 0 : boxes_bytes, all ? first : 0, own, store,
                        streams ? same_box : two_boxes, stores ? all_gathered : no_meeting});
    if (error || !all || stores) return error;
    // Like a call of its own. All members have come to the call before, so stores to them are
    // allowed.
    error = send_shard(static_cast<char *>(whole.c) + first * whole.ldc * element, 0, own);
    if (!error) error = end_copies(copies, stream);
    return error ? error : launch_meet(members, stream, all_gathered, all_consumed, true);
  }

  // Meets, and tells kernels behind this meeting the deltas from C here to the members' Cs.
  hipError_t meet_for_c(const Meeting &meeting) const {
    return launch_meet(members, stream, meeting, no_meeting, false, true, whole.c_row);
  }
  // Rows of C to all others, whose C is at the same place.
  hipError_t send_shard(char *c, unsigned from, unsigned count) const {
    const size_t element = bytes_of(whole.out), ld = whole.ldc * element;
    return start_copies(members, copies,
                        {c + from * ld, ld, whole.n * element, count, c + from * ld, ld},
                        whole.c_delta, me + 1, n - 1, stream);
  }

  hipError_t gathered() const {
    const size_t element = bytes_of(whole.out), ld = whole.ldc * element;
    char *const c = static_cast<char *>(whole.c) + first * ld;
    hipError_t error = hipSuccess;
    error = meet_for_c(all_entered);
    if (error) return error;
    if (whole.algorithm == Algorithm::streams || copies.remote) {
      const unsigned each = ((own + 3) / 4 + 255) / 256 * 256; // whole tiles
      for (unsigned from = 0; from < own && !error; from += each) {
        const unsigned count = own - from < each ? own - from : each;
        error = product_of(from, count, c + from * ld, whole.ldc, finishes, first + from);
        if (!error && n > 1 && whole.n) error = send_shard(c, from, count);
      }
      if (!error && n > 1 && own && whole.n) error = end_copies(copies, stream);
    } else if (own && whole.n) {
      Matmul call = whole;
      call.m = own;
      if (whole.algorithm != Algorithm::bulk &&
          n > 1) { // with small tiles the first ones go earlier
        const double bytes = double(own) * double(whole.n) * double(element) * (n - 1);
        double small, large;
        error = pooled<T>(call, own, bytes, &large);
        call.small_tiles = true;
        if (!error) error = pooled<T>(call, own, bytes, &small);
        if (error) return error;
        call.small_tiles = small < large;
      }
      Store<Finish> store = this->store(c, whole.ldc, finishes);
      store.first = first;
      store.push.members = members;
      store.push.waits = whole.algorithm != Algorithm::bulk;
      store.push.from = store.push.to = c;
      store.push.pitch = ld;
      store.push.row = whole.n * element;
      store.push.element = unsigned(element);
      store.push.lines = store.wide && store.push.row % 16 == 0 && ld < 1 << 27;
      error = run<T>(call, order(own), store, stream);
    }
    if (error) return error;
    return launch_meet(members, stream, all_gathered, no_meeting, true);
  }

  hipError_t gather_matmul(char *box) const {
    const size_t a_bytes = bytes_of(whole.type), pitch = padded(whole.k, whole.type);
    Rows mine{static_cast<const char *>(whole.a), whole.lda * a_bytes, whole.k * a_bytes, own,
              box + first * pitch * a_bytes,      pitch * a_bytes};
    const bool some = whole.m && whole.n && whole.k;
    bool beside =
        ((whole.algorithm == Algorithm::streams || whole.algorithm == Algorithm::fused) && some) ||
        copies.remote;
    hipError_t error = hipSuccess;
    if (!beside && whole.algorithm == Algorithm::best && some && n > 1)
      error = splits_well<T>(whole, rows, unsigned(n), &beside);
    if (error) return error;
    Matmul call = whole;
    Shards all = order(unsigned(whole.m));
    error = launch_meet(members, stream, one_box);
    if (error) return error;
    if (copies.remote && own && mine.bytes) { // members that are not mapped get rows of the heap
      error = runtime::copy_2d(mine.to, mine.pitch, mine.from, mine.ld, mine.bytes, own, stream);
      if (error) return error;
      mine.from = mine.to;
      mine.ld = mine.pitch;
    }
    if (beside) { // the own rows, and meanwhile their copies to the others
      error = start_copies(members, copies, mine, nullptr, me + 1, n - 1, stream);
      if (!error)
        error = product_of(0, own,
                           static_cast<char *>(whole.c) + first * whole.ldc * bytes_of(whole.out),
                           whole.ldc, finishes, first);
      if (!error) error = end_copies(copies, stream);
      if (error) return error;
      all.rows = rows;
      all.shards = unsigned(n) - 1;
    } else {
      // A thread for each 16 bytes of a row, and as many workgroups as fit beside each other.
      unsigned threads = device::max_wave;
      while (threads < device::max_threads && threads * device::pack_bytes < mine.bytes)
        threads *= 2;
      error = shmem::launch(send_rows<>, dim3(units * 2 * (device::max_threads / threads)),
                            dim3(threads), 0, stream, SendRowsCall{members, mine});
      if (error) return error;
    }
    error = launch_meet(members, stream, all_arrived);
    if (error) return error;
    call.a = box;
    call.lda = pitch;
    if (whole.m && whole.n && (!beside || n > 1))
      error = run<T>(call, all, store(whole.c, whole.ldc, finishes), stream);
    if (error) return error;
    return launch_meet(members, stream, all_consumed, no_meeting, true);
  }
};

// Both kinds of products.
template <class T, class Finish>
hipError_t launch_matmul(const Workspace *w, const Matmul &whole, const Finish &finish,
                         bool finishes, hipStream_t stream) {
  if (too_large(whole)) return hipErrorInvalidValue;
  if (!w) {
    if (!whole.m || !whole.n) return hipSuccess;
    return run<T>(whole, plain_order(whole),
                  plain_store(whole.c, whole.ldc, whole, finish, finishes), stream);
  }
  unsigned units;
  if (hipError_t error = compute_units(&units)) return error;
  const FusedCall<T, Finish> call(*w, whole, finish, finishes, stream, units);
  switch (w->op) {
  case Fused::reduce_scatter:
  case Fused::all_reduce:
    return call.reduced(w->memory, w->op == Fused::all_reduce);
  case Fused::all_gather:
    return call.gathered();
  case Fused::gather_matmul:
    return call.gather_matmul(w->memory);
  case Fused::none:
    break;
  }
  return hipErrorInvalidValue;
}

// The common part of the routines below: the finish stands in for bias and activation.
template <class T, class Finish>
void checked_matmul(const char *fn, Fused op, shmemx_matmul_workspace_t workspace,
                    shmemx_matmul_t call, const Finish &finish, hipStream_t stream) {
  constexpr bool good = std::is_same_v<T, float> || std::is_same_v<T, Half> ||
                        std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float8>;
  static_assert(good, "products of shmem::gemm are of float, Half, Bfloat16 or Float8");
  if constexpr (good) { // otherwise there would be errors from inside, too
    call.type = std::is_same_v<T, float>      ? SHMEMX_F32
                : std::is_same_v<T, Half>     ? SHMEMX_F16
                : std::is_same_v<T, Bfloat16> ? SHMEMX_BF16
                                              : SHMEMX_F8;
    call.bias = nullptr;
    call.activation = SHMEMX_ACTIVATION_NONE;
    const Launch launch = [](const Workspace *w, const Matmul &m, hipStream_t s, const void *f) {
      return launch_matmul<T>(w, m, *static_cast<const Finish *>(f), true, s);
    };
    shmemx_matmul_launch(fn, shared_bytes, op, workspace, &call,
                         reinterpret_cast<shmemx_stream_t>(stream), launch, &finish);
  }
}

// These take no notice of the call's type, bias and activation.
template <class T, class Finish>
void matmul(const shmemx_matmul_t &call, const Finish &finish, hipStream_t stream) {
  checked_matmul<T>("shmem::gemm::matmul", Fused::none, nullptr, call, finish, stream);
}
#define SHMEM_FUSED_(name, op)                                                                     \
  template <class T, class Finish>                                                                 \
  void name(shmemx_matmul_workspace_t workspace, const shmemx_matmul_t &call,                      \
            const Finish &finish, hipStream_t stream) {                                            \
    checked_matmul<T>("shmem::gemm::" #name, Fused::op, workspace, call, finish, stream);          \
  }
SHMEM_FUSED_(matmul_reduce_scatter, reduce_scatter)
SHMEM_FUSED_(matmul_all_reduce, all_reduce)
SHMEM_FUSED_(matmul_all_gather, all_gather)
SHMEM_FUSED_(all_gather_matmul, gather_matmul)
#undef SHMEM_FUSED_

} // namespace shmem::gemm

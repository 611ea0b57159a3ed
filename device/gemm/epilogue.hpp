// SPDX-License-Identifier: MIT
// Bias, activation, and where a product goes: to C here, and from there to members. One order and
// one epilogue serve all of these, because each pair of them is a kernel for each core.
#pragma once
#include "../pattern.hpp"
#include "gemm.hpp"
#include "matmul.hpp"
#include "members.hpp"
#include "push.hpp"
#include <cmath>

namespace shmem::gemm {

// gelu is the exact one, x times the normal distribution's integral.
template <Activation act> SHMEM_D_ float activated(float v) {
  if constexpr (act == Activation::relu) return v > 0 ? v : 0;
  if constexpr (act == Activation::gelu) return 0.5f * v * (1 + arch::erf(v * 0.70710678f));
  return v / (1 + expf(-v));
}
// Two by two, each pair then going to the back: eight at once take more registers than the sums
// leave.
template <Activation act> SHMEM_D_ void activate(float (&v)[chunk]) {
  SHMEM_NO_UNROLL_
  for (unsigned i = 0; i < chunk; i += 2) {
    const float a = activated<act>(v[0]), b = activated<act>(v[1]);
    SHMEM_UNROLL_
    for (unsigned e = 2; e < chunk; e++) v[e - 2] = v[e];
    v[chunk - 2] = a, v[chunk - 1] = b;
  }
}

// Stores the first n elements: if `wide` by words of 16 bytes (8 for a T of one byte), else one by
// one.
template <class T> SHMEM_D_ void store_row(T *to, const float (&v)[chunk], unsigned n, bool wide) {
  struct alignas(sizeof(T) == 1 ? 8 : 16) Row {
    T at[chunk];
  } row;
  Rounding<T>::of(v, row.at);
  if (wide && n >= chunk) {
    arch::store_global(reinterpret_cast<Row *>(to), row);
  } else {
    SHMEM_UNROLL_
    for (unsigned e = 0; e < chunk; e++)
      if (e < n) arch::store_global(to + e, row.at[e]);
  }
}

// A finish is the last step of sums before they are rounded and stored, a copyable object of
//   void operator()(unsigned row, unsigned col, unsigned n, float (&v)[8]) const
// v[e] goes to c[row * ldc + col + e] of the call, for e < n only. A finish reads memory by
// load_global. The library's own, below, looks at the type for each chunk, so that one kernel
// serves all types.
struct BiasActivation {
  Type type;
  Activation act;
  const void *bias; // n elements of the type, or NULL
  template <class T> SHMEM_D_ void add(unsigned col, unsigned n, float (&v)[chunk]) const {
    struct alignas(sizeof(T) == 1 ? 8 : 16) Row {
      T at[chunk];
    } row;
    const T *p = static_cast<const T *>(bias) + col;
    if (n >= chunk && reinterpret_cast<uintptr_t>(p) % alignof(Row) == 0) {
      row = arch::load_global(reinterpret_cast<const Row *>(p));
      SHMEM_UNROLL_
      for (unsigned e = 0; e < chunk; e++) v[e] += to_float(row.at[e]);
    } else {
      SHMEM_NO_UNROLL_
      for (unsigned e = 0; e < chunk; e++) { // the first one, which then goes to the back
        const float a = e < n ? v[0] + to_float(arch::load_global(p + e)) : v[0];
        SHMEM_UNROLL_
        for (unsigned f = 1; f < chunk; f++) v[f - 1] = v[f];
        v[chunk - 1] = a;
      }
    }
  }
  SHMEM_D_ void operator()(unsigned, unsigned col, unsigned n, float (&v)[chunk]) const {
    if (bias) switch (type) {
      case Type::f16:
        add<Half>(col, n, v);
        break;
      case Type::bf16:
        add<Bfloat16>(col, n, v);
        break;
      case Type::f8:
        add<Float8>(col, n, v);
        break;
      default:
        add<float>(col, n, v);
      }
    switch (act) {
    case Activation::relu:
      return activate<Activation::relu>(v);
    case Activation::gelu:
      return activate<Activation::gelu>(v);
    case Activation::silu:
      return activate<Activation::silu>(v);
    default:
      return;
    }
  }
};
SHMEM_D_ void store_as(Type type, void *c, size_t at, const float (&v)[chunk], unsigned n,
                       bool wide) {
  switch (type) {
  case Type::f16:
    return store_row(static_cast<Half *>(c) + at, v, n, wide);
  case Type::bf16:
    return store_row(static_cast<Bfloat16 *>(c) + at, v, n, wide);
  case Type::f8:
    return store_row(static_cast<Float8 *>(c) + at, v, n, wide);
  default:
    return store_row(static_cast<float *>(c) + at, v, n, wide);
  }
}

// C in shards of equally many rows, one for each member. The tiles of a shard go down columns of
// `group` tiles, not along C's rows, so that tiles multiplied at the same time share rows of A and
// columns of B in the L2. The member's own shard comes last, when the others' are on their way.
// Those take turns, because the links to one peer carry less than all links together (370 and 450
// GB/s on an H200, 2026-11).
struct Shards {
  Members members;
  unsigned m, n, rows;      // of C, of a shard
  unsigned high, wide;      // of a tile
  unsigned group, of_shard; // tiles
  unsigned shards;          // how many, from the one after this PE's on; 0: the whole is one
  unsigned workers;

  SHMEM_D_ bool operator()(unsigned at, Tile &tile) const {
    if (at >= of_shard * (shards ? shards : 1)) return false;
    const unsigned others = shards ? unsigned(members.n) - 1 : 0, away = others * of_shard;
    const unsigned step = at < away ? at % others : others,
                   in_shard = at < away ? at / others : at - away;
    tile.shard = shards ? (unsigned(members.me) + 1 + step) % unsigned(members.n) : 0;
    const unsigned tiles_high = (rows + high - 1) / high,
                   of_group = group * ((n + wide - 1) / wide);
    const unsigned first = in_shard / of_group * group, rest = in_shard % of_group,
                   tall = tiles_high - first < group ? tiles_high - first : group;
    tile.row = tile.shard * rows + (first + rest % tall) * high;
    tile.col = rest / tall * wide;
    tile.end = m - tile.shard * rows < rows || tile.shard * rows >= m ? m : (tile.shard + 1) * rows;
    return true;
  }
};

template <class Finish> struct Store {
  void *c; // element (row, col) goes to row * ld + col from there
  size_t ld;
  unsigned n, first; // columns; the row that row 0 is for the finish
  Type type;
  bool wide; // addresses and rows are multiples of 16 bytes
  bool finishes;
  bool plain; // bf16, wide, and nothing to finish
  Finish finish;
  Members members; // to which put stores; none: to C here only
  Push push;       // what becomes of the tiles

  // For the chunks of one tile.
  struct Bound {
    const Store &store;
    void *to;
    SHMEM_D_ void operator()(unsigned row, unsigned col, float (&v)[chunk]) const {
      // The common case comes first and is short, because it runs once a tile, when the instruction
      // cache has lost it.
      const size_t i = row * store.ld + col;
      if (__builtin_expect(store.plain && store.n - col >= chunk, 1))
        return store_row(static_cast<Bfloat16 *>(to) + i, v, chunk, true);
      if (store.finishes) store.finish(store.first + row, col, store.n - col, v);
      store_as(store.type, to, i, v, store.n - col, store.wide);
    }
  };
  SHMEM_D_ void start() const { push.start(); }
  SHMEM_D_ Bound begin(Tile tile) const {
    const bool away = push.direct && tile.shard != unsigned(push.members.me);
    return {*this, away ? push.there(tile) : c};
  }
  template <class Scope> SHMEM_D_ void done(Tile tile, Scope scope) const {
    push.done(tile, scope);
  }
  template <class Order, class Scope> SHMEM_D_ void over(const Order &order, Scope scope) const {
    push.over(order, scope);
  }

  SHMEM_D_ void put(unsigned row, unsigned col, float (&v)[chunk]) const {
    if (finishes) finish(first + row, col, n - col, v);
    const size_t i = row * ld + col;
    const int count = members.n ? members.n : 1;
    // Workgroups do not all begin with the same member, so that all links carry at the same time:
    // the sum of matmul_all_reduce, 3.4 MB on 8 MI250X, takes 8 us less (computed, 2026-11-29).
    int to = int((unsigned(members.me) + arch::block().x) % unsigned(count));
    SHMEM_NO_UNROLL_
    for (int k = 0; k < count; k++) {
      store_as(type, members.n ? at_c(members, c, to) : c, i, v, n - col, wide);
      to = pattern::peer(to, 1, count);
    }
  }
};

} // namespace shmem::gemm

// SPDX-License-Identifier: MIT
// Bias, activation, and where a product goes: to C here, to the members who own its shards, or to
// all of them. One order and one epilogue serve all of these, because each pair of them is a kernel
// for each core.
#pragma once
#include "gemm.hpp"
#include "matmul.hpp"
#include "members.hpp"
#include <cmath>

namespace shmem::gemm {

// gelu is the exact one, x times the normal distribution's integral.
SHMEM_D_ float activate(Activation act, float v) {
  switch (act) {
  case Activation::relu:
    return v > 0 ? v : 0;
  case Activation::gelu:
    return 0.5f * v * (1 + erff(v * 0.70710678f));
  case Activation::silu:
    return v / (1 + expf(-v));
  default:
    return v;
  }
}

// In accesses of 16 bytes, or one of 8 where T has one, if `wide`, else by elements; n of them
// count.
template <class T> SHMEM_D_ void store_row(T *to, const float (&v)[chunk], unsigned n, bool wide) {
  struct alignas(sizeof(T) == 1 ? 8 : 16) Row {
    T at[chunk];
  } row;
  Rounding<T>::of(v, row.at);
  if (wide && n >= chunk) {
    *reinterpret_cast<Row *>(to) = row;
  } else {
    SHMEM_UNROLL_
    for (unsigned e = 0; e < chunk; e++)
      if (e < n) to[e] = row.at[e];
  }
}

// What C is made of, and what becomes of a sum before it is stored. The type is looked at for each
// chunk, so that one kernel serves all of them.
struct Finish {
  Type type;
  Activation act;
  const void *bias; // n elements of the type, or NULL
  SHMEM_D_ static float load(const void *p, Type type, unsigned i) {
    switch (type) {
    case Type::f16:
      return to_float(static_cast<const Half *>(p)[i]);
    case Type::bf16:
      return to_float(static_cast<const Bfloat16 *>(p)[i]);
    case Type::f8:
      return to_float(static_cast<const Float8 *>(p)[i]);
    default:
      return static_cast<const float *>(p)[i];
    }
  }
  SHMEM_D_ void operator()(unsigned col, unsigned n, float (&v)[chunk]) const {
    if (bias) {
      SHMEM_UNROLL_
      for (unsigned e = 0; e < chunk; e++)
        if (e < n) v[e] += load(bias, type, col + e);
    }
    if (act != Activation::none) {
      SHMEM_UNROLL_
      for (unsigned e = 0; e < chunk; e++) v[e] = activate(act, v[e]);
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

// C in shards of as many rows, one for each member; the tiles of a shard in columns of `group`
// units, not along C's rows, so that those of the same time share rows of A and columns of B in the
// L2. The own shard comes last, when the others' are on their way, or first, where A comes from
// them.
struct Shards {
  Members members;
  unsigned m, n, rows;      // of C, of a shard
  unsigned high, wide;      // of a unit
  unsigned group, of_shard; // units
  bool own_first, all;      // all: every member's shard, else the whole is one
  bool waits;               // for the rows of A

  SHMEM_D_ bool operator()(unsigned block, unsigned blocks, unsigned i, Tile &tile) const {
    const unsigned count = all ? unsigned(members.n) : 1;
    const size_t at = size_t(i) * blocks + block;
    if (at >= size_t(of_shard) * count) return false;
    const unsigned step = unsigned(at / of_shard), in_shard = unsigned(at % of_shard);
    tile.shard = all ? (unsigned(members.me) + step + !own_first) % count : 0;
    const unsigned units_high = (rows + high - 1) / high,
                   of_group = group * ((n + wide - 1) / wide);
    const unsigned first = in_shard / of_group * group, rest = in_shard % of_group,
                   tall = units_high - first < group ? units_high - first : group;
    tile.row = tile.shard * rows + (first + rest % tall) * high;
    tile.col = rest / tall * wide;
    tile.end = m - tile.shard * rows < rows || tile.shard * rows >= m ? m : (tile.shard + 1) * rows;
    return true;
  }
  template <class Scope> SHMEM_D_ void ready(Tile tile, Scope scope) const {
    if (!waits) return;
    if (scope.rank() == 0) Members::wait_one(members.own->arrived[tile.shard], members.epoch());
    scope.sync();
  }
};

struct Store {
  Members members;
  // Element (row, col) of shard s goes to to[s] + row * ld + col, or if `all` to each of them.
  void *to[max_members];
  bool all;
  size_t ld;
  size_t odd; // bytes: in calls with odd epochs it goes so much further
  unsigned n;
  bool wide; // addresses and rows are multiples of 16 bytes
  Finish finish;
  int plain; // finish.type if nothing is to be done and wide, else -1
  enum Wait : int { nothing, credit, entry } wait;

  SHMEM_D_ void put(unsigned shard, unsigned row, unsigned col, float (&v)[chunk],
                    size_t further = 0) const {
    const size_t at = row * ld + col;
    // The common case comes first and is short: it runs once a tile, from cold caches of
    // instructions.
    if (__builtin_expect(!all && plain == int(Type::bf16) && n - col >= chunk, 1))
      return store_row(place<Bfloat16>(shard, further) + at, v, chunk, true);
    finish(col, n - col, v);
    const unsigned first = all ? 0 : shard, count = all ? unsigned(members.n) : 1;
    for (unsigned i = first; i < first + count; i++)
      store_as(finish.type, place<char>(i, further), at, v, n - col, wide);
  }
  template <class T> SHMEM_D_ T *place(unsigned shard, size_t further) const {
    return reinterpret_cast<T *>(static_cast<char *>(to[shard]) + further);
  }

  // As it is in the call that runs. A reference: a kernel that changed its argument would copy it.
  struct Bound {
    const Store &store;
    size_t further;
    SHMEM_D_ void operator()(Tile tile, unsigned row, unsigned col, float (&v)[chunk]) const {
      store.put(tile.shard, row, col, v, further);
    }
    template <class Scope> SHMEM_D_ void done(Tile, Scope) const {}
  };
  SHMEM_D_ Bound begin() const {
    if (wait == nothing) return {*this, 0};
    const uint64_t epoch = members.epoch();
    // What was sent in the call before the last one has been used up, as the boxes are two.
    if (wait == credit) members.wait(members.own->consumed, epoch < 2 ? 0 : epoch - 2, Workgroup{});
    if (wait == entry) members.wait(members.own->entered, epoch, Workgroup{});
    return {*this, epoch % 2 ? odd : 0};
  }
};

} // namespace shmem::gemm

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
template <Activation act> SHMEM_D_ void activate(float (&v)[chunk]) {
  SHMEM_UNROLL_
  for (unsigned e = 0; e < chunk; e++)
    if constexpr (act == Activation::relu)
      v[e] = v[e] > 0 ? v[e] : 0;
    else if constexpr (act == Activation::gelu)
      v[e] = 0.5f * v[e] * (1 + erff(v[e] * 0.70710678f));
    else if constexpr (act == Activation::silu)
      v[e] = v[e] / (1 + expf(-v[e]));
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
  template <class T> SHMEM_D_ void add(unsigned col, unsigned n, float (&v)[chunk]) const {
    const T *p = static_cast<const T *>(bias) + col;
    float b[chunk]; // all loads are on their way before the first is used
    SHMEM_UNROLL_
    for (unsigned e = 0; e < chunk; e++) b[e] = to_float(p[e < n ? e : 0]);
    SHMEM_UNROLL_
    for (unsigned e = 0; e < chunk; e++) v[e] += b[e];
  }
  SHMEM_D_ void operator()(unsigned col, unsigned n, float (&v)[chunk]) const {
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

// C in shards of as many rows, one for each member; the tiles of a shard in columns of `group`
// units, not along C's rows, so that those of the same time share rows of A and columns of B in the
// L2. The own shard comes last, when the others' are on their way, or first, where A comes from
// them.
struct Shards {
  Members members;
  unsigned m, n, rows;      // of C, of a shard
  unsigned high, wide;      // of a unit
  unsigned group, of_shard; // units
  bool all;                 // all: every member's shard, else the whole is one

  SHMEM_D_ bool operator()(unsigned block, unsigned blocks, unsigned i, Tile &tile) const {
    const unsigned count = all ? unsigned(members.n) : 1;
    const unsigned at = i * blocks + block;
    if (at >= of_shard * count) return false;
    const unsigned step = at / of_shard, in_shard = at % of_shard;
    tile.shard = all ? (unsigned(members.me) + 1 + step) % count : 0;
    const unsigned units_high = (rows + high - 1) / high,
                   of_group = group * ((n + wide - 1) / wide);
    const unsigned first = in_shard / of_group * group, rest = in_shard % of_group,
                   tall = units_high - first < group ? units_high - first : group;
    tile.row = tile.shard * rows + (first + rest % tall) * high;
    tile.col = rest / tall * wide;
    tile.end = m - tile.shard * rows < rows || tile.shard * rows >= m ? m : (tile.shard + 1) * rows;
    return true;
  }
  template <class Scope> SHMEM_D_ void ready(Tile, Scope) const {}
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
  SHMEM_D_ Bound begin() const { return {*this, odd && epoch_of(members) % 2 ? odd : 0}; }
};

} // namespace shmem::gemm

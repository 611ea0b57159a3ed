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
template <Activation act> SHMEM_D_ float activated(float v) {
  if constexpr (act == Activation::relu) return v > 0 ? v : 0;
  if constexpr (act == Activation::gelu) return 0.5f * v * (1 + erff(v * 0.70710678f));
  return v / (1 + expf(-v));
}
// Two by two, which then go to the back: eight at once take more registers than sums leave.
template <Activation act> SHMEM_D_ void activate(float (&v)[chunk]) {
  SHMEM_NO_UNROLL_
  for (unsigned i = 0; i < chunk; i += 2) {
    const float a = activated<act>(v[0]), b = activated<act>(v[1]);
    SHMEM_UNROLL_
    for (unsigned e = 2; e < chunk; e++) v[e - 2] = v[e];
    v[chunk - 2] = a, v[chunk - 1] = b;
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
  template <class T> SHMEM_D_ void add(unsigned col, unsigned n, float (&v)[chunk]) const {
    struct alignas(sizeof(T) == 1 ? 8 : 16) Row {
      T at[chunk];
    } row;
    const T *p = static_cast<const T *>(bias) + col;
    if (n >= chunk && reinterpret_cast<uintptr_t>(p) % alignof(Row) == 0) {
      row = *reinterpret_cast<const Row *>(p);
      SHMEM_UNROLL_
      for (unsigned e = 0; e < chunk; e++) v[e] += to_float(row.at[e]);
    } else {
      SHMEM_NO_UNROLL_
      for (unsigned e = 0; e < chunk; e++) { // the first one, which then goes to the back
        const float a = e < n ? v[0] + to_float(p[e]) : v[0];
        SHMEM_UNROLL_
        for (unsigned f = 1; f < chunk; f++) v[f - 1] = v[f];
        v[chunk - 1] = a;
      }
    }
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
// L2. The own shard comes last, when the others' are on their way.
struct Shards {
  Members members;
  unsigned m, n, rows;      // of C, of a shard
  unsigned high, wide;      // of a unit
  unsigned group, of_shard; // units
  unsigned shards;          // so many, from the one after this PE's on; 0: the whole is one

  SHMEM_D_ bool operator()(unsigned block, unsigned blocks, unsigned i, Tile &tile) const {
    const unsigned count = shards ? shards : 1;
    const unsigned at = i * blocks + block;
    if (at >= of_shard * count) return false;
    const unsigned step = at / of_shard, in_shard = at % of_shard;
    tile.shard = shards ? (unsigned(members.me) + 1 + step) % unsigned(members.n) : 0;
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
  Members members;                       // none: to C here
  void *c;                               // element (row, col) goes to row * ld + col from there, at
  enum To : int { here, owner, all } to; // this PE, the owner of the tile's shard, or each member
  size_t ld;
  size_t shard; // bytes: owners have their own rows only, those of shard s so much times s before
  size_t odd;   // bytes: in calls of odd number it goes so much further
  unsigned n;
  bool wide; // addresses and rows are multiples of 16 bytes
  Finish finish;
  int plain; // finish.type if nothing is to be done, wide, and not to all; else -1

  // For the chunks of one tile.
  struct Bound {
    const Store &store;
    char *to;
    SHMEM_D_ void operator()(unsigned row, unsigned col, float (&v)[chunk]) const {
      store.put(to, row, col, v);
    }
  };
  SHMEM_D_ Bound begin(Tile tile) const {
    char *p = static_cast<char *>(c);
    if (to == owner) p = at(members, p, int(tile.shard)) - tile.shard * shard;
    if (odd && epoch_of(members) % 2) p += odd;
    return {*this, p};
  }
  template <class Scope> SHMEM_D_ void done(Tile, Scope) const {}

  // The common case comes first and is short: it runs once a tile, from cold caches of
  // instructions.
  SHMEM_D_ void put(char *p, unsigned row, unsigned col, float (&v)[chunk]) const {
    const size_t i = row * ld + col;
    if (__builtin_expect(plain == int(Type::bf16) && n - col >= chunk, 1))
      return store_row(reinterpret_cast<Bfloat16 *>(p) + i, v, chunk, true);
    finish(col, n - col, v);
    const int count = to == all ? members.n : 1;
    SHMEM_NO_UNROLL_
    for (int k = 0; k < count; k++)
      store_as(finish.type, to == all ? at(members, p, k) : p, i, v, n - col, wide);
  }
};

} // namespace shmem::gemm

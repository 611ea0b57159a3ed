// SPDX-License-Identifier: MIT
// Bias, activation, and the plain epilogue, which stores C.
#pragma once
#include "gemm.hpp"
#include "matmul.hpp"
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

struct Store {
  void *c;
  size_t ldc;
  unsigned n;
  bool wide; // the address and the rows are multiples of 16 bytes
  Finish finish;
  int plain; // finish.type if nothing is to be done and wide, else -1
  // The common case comes first and is short: it runs once a tile, with cold caches of
  // instructions.
  SHMEM_D_ void operator()(Tile, unsigned row, unsigned col, float (&v)[chunk]) const {
    const size_t at = row * ldc + col;
    if (__builtin_expect(plain == int(Type::bf16) && n - col >= chunk, 1))
      return store_row(static_cast<Bfloat16 *>(c) + at, v, chunk, true);
    finish(col, n - col, v);
    store_as(finish.type, c, at, v, n - col, wide);
  }
  template <class Scope> SHMEM_D_ void done(Tile, Scope) const {}
};

} // namespace shmem::gemm

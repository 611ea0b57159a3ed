// SPDX-License-Identifier: MIT
// The tile engine: persistent workgroups, each of which takes tiles of C = A B in an order that the
// caller chooses, and hands the sums, in fp32, to an epilogue that the caller writes. Nothing here
// knows where a tile goes.
//
// A core multiplies. It has
//   threads               of a workgroup
//   tile_m  tile_n        rows and columns of a tile
//   resident              workgroups that a compute unit has room for
//   bound                 the second argument of __launch_bounds__ for that
//   speed                 of a workgroup, in operations a microsecond, about
//   Operands              the arrays as it takes them
//   run(operands, order, epilogue)
//                         by all threads of the workgroup, with parts of what arch::argument gave
//   launch(kernel, blocks, stream, call)
//                         by the host
// Simt (simt.hpp) runs everywhere; those for matrix instructions are in platform/*/gemm.hpp.
//
// An order is a copyable object of
//   workers                            how many workgroups multiply: tiles i, i + workers, ...
//   bool operator()(at, Tile &) const  the tile that is the at-th, false after the last
// An epilogue is one of
//   void start() const                 by workgroups that multiply, before their first tile
//   auto begin(Tile) const             a function of (row, col, float (&v)[8]), called once
//                                      for elements col to col + 7 of each row of the tile; element
//                                      col is in C
//   void done(Tile, scope) const       by all threads that had a part in the tile, after the last
//   void over(order, scope) const      by the same ones after the last tile, and by the workgroups
//                                      that do not multiply
#pragma once
#include <hip/hip_runtime.h>

#include "../scope.hpp"
#include "../trace.hpp"
#include "number.hpp"

namespace shmem::gemm {

inline constexpr unsigned chunk = 8; // elements that an epilogue gets at once
using arch::load_global;             // for a finish, too

// The first row and column of a tile, and its number in the order. Rows from `end` on belong to
// another tile or to none. The shard is for the caller.
struct Tile {
  unsigned row, col, end, shard, at;
};

// C is m x n, A m x k, B k x n. Arrays are by rows, ld elements from one to the next; a transposed
// one holds its operand's columns as rows.
template <class T> struct Matrices {
  const T *a, *b;
  size_t lda, ldb;
  unsigned m, n, k;
  bool trans_a, trans_b;
  bool small;         // take small tiles, so that the first ones end early
  unsigned shard = 0; // rows of C, after each of which tiles begin anew; 0: never
};
template <class T> SHMEM_D_ T element_a(const Matrices<T> &x, unsigned row, unsigned k) {
  if (row >= x.m || k >= x.k) return T{};
  return arch::load_global(x.a + (x.trans_a ? k * x.lda + row : row * x.lda + k));
}
template <class T> SHMEM_D_ T element_b(const Matrices<T> &x, unsigned k, unsigned col) {
  if (col >= x.n || k >= x.k) return T{};
  return arch::load_global(x.b + (x.trans_b ? col * x.ldb + k : k * x.ldb + col));
}

// The tiles of a workgroup, one after the other.
template <class Order> class Tiles {
  const Order &order;
  unsigned at;

public:
  SHMEM_D_ explicit Tiles(const Order &o) : order(o), at(arch::block().x) {}
  SHMEM_D_ bool next(Tile &tile) {
    do {
      if (!order(at, tile)) return false;
      tile.at = at;
      at += order.workers;
    } while (tile.row >= tile.end);
    return true;
  }
};

template <class Operands, class Order, class Epilogue> struct MultiplyCall {
  Operands operands;
  Order order;
  Epilogue epilogue;
};

} // namespace shmem::gemm

#include SHMEM_GEMM_

namespace shmem::gemm {

template <class Core, class Order, class Epilogue>
__global__ void __launch_bounds__(Core::threads, Core::bound) multiply(
    SHMEM_GRID_CONSTANT_ const MultiplyCall<typename Core::Operands, Order, Epilogue> argument) {
  const auto &call = arch::argument(argument);
  if (arch::block().x < call.order.workers) {
    call.epilogue.start();
    Core::run(call.operands, call.order, call.epilogue);
  } else {
    call.epilogue.over(call.order, Workgroup{});
  }
}

template <class Core, class Order, class Epilogue>
hipError_t launch(const typename Core::Operands &operands, unsigned blocks, hipStream_t stream,
                  const Order &order, const Epilogue &epilogue) {
  return Core::launch(
      multiply<Core, Order, Epilogue>, blocks, stream,
      MultiplyCall<typename Core::Operands, Order, Epilogue>{operands, order, epilogue});
}

} // namespace shmem::gemm

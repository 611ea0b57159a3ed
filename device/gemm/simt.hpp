// SPDX-License-Identifier: MIT
// The core without matrix instructions, for fp32 on GPUs whose matrix instructions would round it,
// and for all types on the cpu. A thread sums tm x tn elements, in the order of k.
#pragma once
#include "../launch.hpp"
#include "gemm.hpp"

namespace shmem::gemm {

template <class T, unsigned bm, unsigned bn, unsigned bk, unsigned tm, unsigned tn> struct Simt {
  static constexpr unsigned threads = bm / tm * (bn / tn), tile_m = bm, tile_n = bn, resident = 1,
                            bound = 1;
  static constexpr double speed = 2e5;
  static_assert(tn % chunk == 0);
  using Operands = Matrices<T>;
  struct OperandStage {
    float a[bk][bm], b[bk][bn];
  };

  template <class Order, class Epilogue>
  static SHMEM_D_ void run(const Operands &x, const Order &order, const Epilogue &epilogue) {
    auto &[a, b] = arch::workgroup_object<OperandStage>();
    const unsigned me = arch::thread().x, row0 = me / (bn / tn) * tm, col0 = me % (bn / tn) * tn;
    Tiles<Order> tiles(order);
    Tile tile;
    while (tiles.next(tile)) {
      SHMEM_TRACED_(Workgroup, trace::multiply, 0, -1)
      const unsigned m0 = tile.row, n0 = tile.col;
      float sum[tm][tn] = {};
      for (unsigned k0 = 0; k0 < x.k; k0 += bk) {
        // Neighbouring threads load neighbouring addresses.
        for (unsigned e = me; e < bm * bk; e += threads) {
          const unsigned r = x.trans_a ? e % bm : e / bk, k = x.trans_a ? e / bm : e % bk;
          a[k][r] = to_float(element_a(x, m0 + r, k0 + k));
        }
        for (unsigned e = me; e < bn * bk; e += threads) {
          const unsigned c = x.trans_b ? e / bk : e % bn, k = x.trans_b ? e % bk : e / bn;
          b[k][c] = to_float(element_b(x, k0 + k, n0 + c));
        }
        __syncthreads();
        for (unsigned k = 0; k < bk; k++) SHMEM_UNROLL_
        for (unsigned r = 0; r < tm; r++) SHMEM_UNROLL_
        for (unsigned c = 0; c < tn; c++) sum[r][c] += a[k][row0 + r] * b[k][col0 + c];
        __syncthreads();
      }
      const auto put = epilogue.begin(tile);
      // There is one copy of the epilogue's code, but no index of the sums depends on a loop that
      // is not unrolled, which would move the sums to memory.
      SHMEM_NO_UNROLL_
      for (unsigned at = 0; at < tm * tn; at += chunk) {
        float v[chunk];
        SHMEM_UNROLL_
        for (unsigned r = 0; r < tm; r++) {
          SHMEM_UNROLL_
          for (unsigned c = 0; c < tn; c++)
            if (at == r * tn + c / chunk * chunk) v[c % chunk] = sum[r][c];
        }
        const unsigned row = m0 + row0 + at / tn, col = n0 + col0 + at % tn;
        if (row < tile.end && col < x.n) put(row, col, v);
      }
      epilogue.done(tile, Workgroup{});
    }
    epilogue.over(order, Workgroup{});
  }
  template <class Kernel, class Call>
  static hipError_t launch(Kernel kernel, unsigned blocks, hipStream_t stream, const Call &call) {
    return shmem::launch(kernel, dim3(blocks), dim3(threads), arch::launch_bytes<OperandStage>,
                         stream, call);
  }
};

} // namespace shmem::gemm

// SPDX-License-Identifier: MIT
// gfx90a, gfx942 and gfx950: matrices of 32 by 32 by MFMA, the operands from LDS, and the next ones
// on their way in registers meanwhile. All waves do the same: registers are dealt out evenly here.
#pragma once
#include "../../gemm/gemm.hpp"
#include "../../gemm/simt.hpp"
#include <cstring>

#define SHMEM_GRID_CONSTANT_

namespace shmem::gemm {

template <> struct Rounding<Half> {
  static SHMEM_D_ void of(const float (&v)[8], Half (&to)[8]) {
    SHMEM_UNROLL_
    for (unsigned e = 0; e < 8; e++) to[e] = __builtin_bit_cast(Half, static_cast<_Float16>(v[e]));
  }
};

namespace mfma {

using Line = arch::WordOf<16>::type; // along k
typedef float Sums __attribute__((ext_vector_type(16)));

// sums += the products of 32 rows, of which each lane has 16 bytes: lanes 0 to 31 those of the
// first half of k, the others those of the second. Any order of k will do as long as both have it.
template <class T> SHMEM_D_ void multiply(Sums &sums, Line x, Line y) {
  if constexpr (std::is_same<T, float>::value) {
    SHMEM_UNROLL_
    for (int e = 0; e < 4; e++)
      sums = __builtin_amdgcn_mfma_f32_32x32x2f32(__builtin_bit_cast(float, uint32_t(x[e])),
                                                  __builtin_bit_cast(float, uint32_t(y[e])), sums,
                                                  0, 0, 0);
  } else if constexpr (std::is_same<T, Half>::value) {
    typedef _Float16 Eight __attribute__((ext_vector_type(8)));
    const Eight a = __builtin_bit_cast(Eight, x), b = __builtin_bit_cast(Eight, y);
#if defined __gfx950__
    sums = __builtin_amdgcn_mfma_f32_32x32x16_f16(a, b, sums, 0, 0, 0);
#else
    sums = __builtin_amdgcn_mfma_f32_32x32x8f16(__builtin_shufflevector(a, a, 0, 1, 2, 3),
                                                __builtin_shufflevector(b, b, 0, 1, 2, 3), sums, 0,
                                                0, 0);
    sums = __builtin_amdgcn_mfma_f32_32x32x8f16(__builtin_shufflevector(a, a, 4, 5, 6, 7),
                                                __builtin_shufflevector(b, b, 4, 5, 6, 7), sums, 0,
                                                0, 0);
#endif
  } else {
#if defined __gfx950__
    typedef __bf16 Eight __attribute__((ext_vector_type(8)));
    sums = __builtin_amdgcn_mfma_f32_32x32x16_bf16(__builtin_bit_cast(Eight, x),
                                                   __builtin_bit_cast(Eight, y), sums, 0, 0, 0);
#else
    typedef short Eight __attribute__((ext_vector_type(8)));
    const Eight a = __builtin_bit_cast(Eight, x), b = __builtin_bit_cast(Eight, y);
    sums = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(__builtin_shufflevector(a, a, 0, 1, 2, 3),
                                                    __builtin_shufflevector(b, b, 0, 1, 2, 3), sums,
                                                    0, 0, 0);
    sums = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(__builtin_shufflevector(a, a, 4, 5, 6, 7),
                                                    __builtin_shufflevector(b, b, 4, 5, 6, 7), sums,
                                                    0, 0, 0);
#endif
  }
}

} // namespace mfma

// wide: both operands have their rows along k, in whole lines of 16 bytes. Else threads gather.
template <class T, unsigned bm, unsigned bn, unsigned row_bytes, unsigned waves_m, unsigned waves_n,
          unsigned stages, bool wide>
struct Mfma {
  static constexpr unsigned threads = 64 * waves_m * waves_n, tile_m = bm, tile_n = bn, unit = 1;
  static constexpr unsigned bk = row_bytes / sizeof(T), lines = row_bytes / 16,
                            each = 16 / sizeof(T);
  static constexpr unsigned blocks_m = bm / waves_m / 32, blocks_n = bn / waves_n / 32;
  static constexpr unsigned lines_a = bm * lines / threads, lines_b = bn * lines / threads;
  // Where a wave turns 32 rows of 64 sums, so that a lane has eight of a row.
  static constexpr unsigned turn_bytes = 32 * 64 * 4, turns_bytes = turn_bytes * threads / 64,
                            stage_bytes = (bm + bn) * row_bytes,
                            shared_bytes = stages * stage_bytes > turns_bytes ? stages *stage_bytes
                                                                              : turns_bytes;
  static_assert(blocks_n % 2 == 0 && bm * lines % threads == 0 && bn * lines % threads == 0);
  using Operands = Matrices<T>;
  using Line = mfma::Line;

  // Of one operand: what a thread brings of a stage. Rows beyond the end are loaded as the last
  // one, their sums are not handed over.
  template <unsigned n> struct Loader {
    const T *p;
    size_t ld;
    bool along_k;
    unsigned first, rows, k;
    uint32_t offset[n];
    Line line[n];

    SHMEM_D_ Loader(const T *from, size_t distance, bool k_runs, unsigned r0, unsigned count,
                    unsigned depth)
        : p(from), ld(distance), along_k(k_runs), first(r0), rows(count), k(depth) {
      if constexpr (wide) {
        p += r0 * ld;
        SHMEM_UNROLL_
        for (unsigned i = 0; i < n; i++) {
          const unsigned at = threadIdx.x + i * threads, r = at / lines;
          offset[i] =
              uint32_t((r0 + r < rows ? r : rows - 1 - r0) * ld * sizeof(T)) + at % lines * 16;
        }
      }
    }
    SHMEM_D_ void load(unsigned k0) {
      if constexpr (wide) {
        const char *from = reinterpret_cast<const char *>(p + k0);
        SHMEM_UNROLL_
        for (unsigned i = 0; i < n; i++)
          line[i] = *reinterpret_cast<const Line *>(from + offset[i]);
      } else {
        load_some(k0);
      }
    }
    // Of a stage that k ends in.
    SHMEM_D_ void load_some(unsigned k0) {
      SHMEM_UNROLL_
      for (unsigned i = 0; i < n; i++) {
        const unsigned at = threadIdx.x + i * threads;
        if constexpr (wide) {
          line[i] = Line{0, 0, 0, 0};
          if (k0 + at % lines * each < k)
            line[i] =
                *reinterpret_cast<const Line *>(reinterpret_cast<const char *>(p + k0) + offset[i]);
        } else {
          const unsigned height = n * threads / lines;
          const unsigned r = first + (along_k ? at / lines : at % height),
                         from = k0 + (along_k ? at % lines : at / height) * each;
          T v[each] = {};
          SHMEM_UNROLL_
          for (unsigned e = 0; e < each; e++)
            if (r < rows && from + e < k)
              v[e] = p[along_k ? r * ld + from + e : (from + e) * ld + r];
          __builtin_memcpy(&line[i], v, sizeof v);
        }
      }
    }
    SHMEM_D_ void store(char *to) const {
      SHMEM_UNROLL_
      for (unsigned i = 0; i < n; i++) {
        const unsigned at = threadIdx.x + i * threads, height = n * threads / lines;
        const unsigned r = wide || along_k ? at / lines : at % height,
                       c = wide || along_k ? at % lines : at / height;
        *reinterpret_cast<Line *>(to + place(r, c)) = line[i];
      }
    }
  };
  // So that neighbouring lanes, which read neighbouring rows, meet in no bank.
  static SHMEM_D_ unsigned place(unsigned r, unsigned c) {
    return r * row_bytes + (c ^ (lines == 8 ? r : r / 2) % lines) * 16;
  }

  static SHMEM_D_ void multiply_stage(mfma::Sums (&sums)[blocks_m][blocks_n], const char *stage) {
    const unsigned lane = threadIdx.x % 64, wave = threadIdx.x / 64;
    const unsigned row = wave / waves_n * blocks_m * 32 + lane % 32,
                   col = wave % waves_n * blocks_n * 32 + lane % 32;
    SHMEM_UNROLL_
    for (unsigned s = 0; s < lines / 2; s++) {
      Line a[blocks_m], b[blocks_n];
      SHMEM_UNROLL_
      for (unsigned i = 0; i < blocks_m; i++)
        a[i] = *reinterpret_cast<const Line *>(stage + place(row + i * 32, 2 * s + lane / 32));
      SHMEM_UNROLL_
      for (unsigned j = 0; j < blocks_n; j++)
        b[j] = *reinterpret_cast<const Line *>(stage + bm * row_bytes +
                                               place(col + j * 32, 2 * s + lane / 32));
      // The columns first: a lane then has neighbours of one row of C, four at a time.
      SHMEM_UNROLL_
      for (unsigned i = 0; i < blocks_m; i++) SHMEM_UNROLL_
      for (unsigned j = 0; j < blocks_n; j++) mfma::multiply<T>(sums[i][j], b[j], a[i]);
    }
  }

  template <class Order, class Epilogue>
  static SHMEM_D_ void run(const Operands &x, const Order &order, const Epilogue &epilogue) {
    __shared__ __attribute__((aligned(16))) char shared[shared_bytes];
    const Tiles<Mfma, Order> tiles{order};
    Tile tile;
    for (unsigned t = 0; tiles(t, tile); t++) {
      if constexpr (Order::waits) order.ready(tile, Workgroup{});
      mfma::Sums sums[blocks_m][blocks_n] = {};
      Loader<lines_a> a(x.a, x.lda, !x.trans_a, tile.m * bm, x.m, x.k);
      Loader<lines_b> b(x.b, x.ldb, x.trans_b, tile.n * bn, x.n, x.k);
      const unsigned whole = x.k / bk;
      if (whole) {
        a.load(0), b.load(0);
        if constexpr (stages == 2) {
          a.store(shared), b.store(shared + bm * row_bytes);
          __syncthreads();
        }
        for (unsigned i = 0; i < whole; i++) {
          const unsigned next = (i + 1 < whole ? i + 1 : i) * bk; // the last loads twice
          if constexpr (stages == 2) {
            char *const now = shared + i % 2 * stage_bytes,
                        *other = shared + (i + 1) % 2 * stage_bytes;
            a.load(next), b.load(next);
            multiply_stage(sums, now);
            a.store(other), b.store(other + bm * row_bytes);
            __syncthreads();
          } else {
            __syncthreads();
            a.store(shared), b.store(shared + bm * row_bytes);
            __syncthreads();
            a.load(next), b.load(next);
            multiply_stage(sums, shared);
          }
        }
      }
      if (x.k % bk) {
        __syncthreads();
        a.load_some(whole * bk), b.load_some(whole * bk);
        a.store(shared), b.store(shared + bm * row_bytes);
        __syncthreads();
        multiply_stage(sums, shared);
      }
      __syncthreads();
      hand_over(x, shared, tile, sums, epilogue);
      __syncthreads();
      epilogue.done(tile, Workgroup{});
    }
  }

  // A lane has of row lane % 32 four neighbouring sums in every eight, as its half of the wave
  // says.
  template <class Epilogue>
  static SHMEM_D_ void hand_over(const Operands &x, char *shared, Tile tile,
                                 const mfma::Sums (&sums)[blocks_m][blocks_n],
                                 const Epilogue &epilogue) {
    typedef float Four __attribute__((ext_vector_type(4)));
    const unsigned lane = threadIdx.x % 64, wave = threadIdx.x / 64;
    char *const turn = shared + wave * turn_bytes;
    const auto at = [&](unsigned r, unsigned piece) {
      return reinterpret_cast<Four *>(turn + r * 256 + (piece ^ r % 8 ^ piece >> 3) * 16);
    };
    // One copy of the epilogue's code for all blocks.
#pragma unroll 1
    for (unsigned block = 0; block < blocks_m * blocks_n / 2; block++) {
      const unsigned i = block / (blocks_n / 2), j = block % (blocks_n / 2) * 2;
      arch::wave_sync(64);
      SHMEM_UNROLL_
      for (unsigned q = 0; q < blocks_m * blocks_n / 2; q++)
        if (q == block) {
          SHMEM_UNROLL_
          for (unsigned e = 0; e < 8; e++) {
            const mfma::Sums &s = sums[q / (blocks_n / 2)][q % (blocks_n / 2) * 2 + e / 4];
            const unsigned g = e % 4 * 4;
            *at(lane % 32, e * 2 + lane / 32) = Four{s[g], s[g + 1], s[g + 2], s[g + 3]};
          }
        }
      arch::wave_sync(64);
#pragma unroll 1
      for (unsigned s = 0; s < 4; s++) {
        const unsigned r = s * 8 + lane / 8, c = lane % 8;
        const unsigned row = tile.m * bm + (wave / waves_n * blocks_m + i) * 32 + r,
                       col = tile.n * bn + (wave % waves_n * blocks_n + j) * 32 + c * 8;
        float v[chunk];
        SHMEM_UNROLL_
        for (unsigned h = 0; h < 2; h++) {
          const Four four = *at(r, 2 * c + h);
          v[4 * h] = four[0], v[4 * h + 1] = four[1], v[4 * h + 2] = four[2],
                v[4 * h + 3] = four[3];
        }
        if (row < x.m && col < x.n) epilogue(tile, row, col, v);
      }
    }
  }

  template <class Kernel, class Order, class Epilogue>
  static hipError_t launch(Kernel kernel, unsigned blocks, hipStream_t stream, const Operands &x,
                           const Order &order, const Epilogue &epilogue) {
    hipLaunchKernelGGL(kernel, dim3(blocks), dim3(threads), 0, stream, x, order, epilogue);
    return hipGetLastError();
  }
};

// By measure of the study: gfx90a has half the speed of MFMA for the same LDS, a smaller tile will
// do and leaves room for two stages; on gfx942 the tile fills the LDS of 64 KiB.
template <class T, bool wide> using MfmaSmall = Mfma<T, 128, 128, 64, 2, 2, 2, wide>;
template <class T, bool wide> using MfmaLarge = Mfma<T, 256, 256, 128, 2, 4, 1, wide>;

// Nothing here has the OCP's fp8 before gfx950.
template <class Run> hipError_t choose(const Matrices<Float8> &x, Run run) {
  return run(Simt<Float8, 128, 128, 16, 8, 8>{}, x);
}
template <class T, class Run> hipError_t choose(const Matrices<T> &x, Run run) {
  static const bool gfx90a = [] {
    hipDeviceProp_t prop;
    return hipGetDeviceProperties(&prop, 0) == hipSuccess &&
           !std::strncmp(prop.gcnArchName, "gfx90a", 6);
  }();
  const auto lines = [&](const T *p, size_t ld) { // and offsets within a tile fit 32 bits
    return reinterpret_cast<uintptr_t>(p) % 16 == 0 && ld * sizeof(T) % 16 == 0 && ld < 1 << 21;
  };
  const bool wide = !x.trans_a && x.trans_b && lines(x.a, x.lda) && lines(x.b, x.ldb) &&
                    x.k * sizeof(T) % 16 == 0;
  // A large tile for less than half of the 304 CUs of gfx942 would leave most of them idle.
  const size_t large = size_t((x.m + 255) / 256) * ((x.n + 255) / 256);
  if (!wide) return run(MfmaSmall<T, false>{}, x);
  if (gfx90a || large < 152) return run(MfmaSmall<T, true>{}, x);
  return run(MfmaLarge<T, true>{}, x);
}

} // namespace shmem::gemm

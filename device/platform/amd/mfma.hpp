// SPDX-License-Identifier: MIT
// The common part of the cores of gfx90a, gfx942 and gfx950: matrices of 32 by 32 by MFMA, their
// division among the waves of a tile, and the way of their sums to an epilogue.
#pragma once
#include "../../gemm/gemm.hpp"
#include <utility>

namespace shmem::gemm {

template <> struct Rounding<Half> {
  static SHMEM_D_ void of(const float (&v)[8], Half (&to)[8]) {
    SHMEM_UNROLL_
    for (unsigned e = 0; e < 8; e++) to[e] = __builtin_bit_cast(Half, static_cast<_Float16>(v[e]));
  }
};

namespace mfma {

typedef uint32_t Line __attribute__((ext_vector_type(4))); // along k
typedef float Sums __attribute__((ext_vector_type(16)));
typedef float Four __attribute__((ext_vector_type(4)));

// sums += the products of 32 rows, of which each lane has 16 bytes: lanes 0 to 31 those of the
// first half of k, the others those of the second. Any order of k will do, if both operands have
// the same.
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

// Waits until at most `left` reads of LDS are under way. Compilers wait for operands in any case,
// but piece by piece.
template <unsigned left> SHMEM_D_ void wait_reads() {
#if defined __AMDGCN__
  __builtin_amdgcn_s_waitcnt(0xc07f | (left < 15 ? left : 15) << 8);
#endif
}

// For fp8, whose k is that of two lines.
struct Pair {
  Line line[2];
};
template <class T> SHMEM_D_ void multiply(Sums &sums, const Pair &x, const Pair &y) {
#if defined __gfx950__
  typedef int Eight __attribute__((ext_vector_type(8)));
  sums = __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(
      __builtin_bit_cast(Eight, x), __builtin_bit_cast(Eight, y), sums, 0, 0, 0, 0, 0, 0);
#else
  (void)sums, (void)x, (void)y;
#endif
}

} // namespace mfma

// How operands are loaded: by elements, or in whole lines of 16 bytes. Lines run along k; or those
// of A along its rows' dimension (turned_a), those of B along its columns' (turned_b), or both.
enum class Load { elements, lines, turned_b, turned_a, turned };

// How a tile is divided among its waves: each has blocks_m x blocks_n matrices of 32 x 32.
template <class T, unsigned bm, unsigned bn, unsigned waves_m, unsigned waves_n> struct Blocked {
  static constexpr unsigned threads = 64 * waves_m * waves_n, tile_m = bm, tile_n = bn,
                            blocks_m = bm / waves_m / 32, blocks_n = bn / waves_n / 32;
  // Where a wave turns 32 rows of 64 sums, so that a lane has eight of a row.
  static constexpr unsigned turn_bytes = 32 * 64 * 4, turns_bytes = turn_bytes * threads / 64;
  static_assert(blocks_n % 2 == 0);
  // The sums are named by constants, so that they are in registers even before loops are unrolled.
  using Blocks = std::make_integer_sequence<unsigned, blocks_m * blocks_n>;
  using Sums = mfma::Sums[blocks_m * blocks_n];
  using Operands = Matrices<T>;

  // The division in the order runs in vector registers; values that are the same in all lanes
  // belong in scalar ones, from which loads take their base.
  static SHMEM_D_ void to_scalars(Tile &tile) {
    tile.row = __builtin_amdgcn_readfirstlane(tile.row);
    tile.col = __builtin_amdgcn_readfirstlane(tile.col);
    tile.end = __builtin_amdgcn_readfirstlane(tile.end);
    tile.shard = __builtin_amdgcn_readfirstlane(tile.shard);
    tile.at = __builtin_amdgcn_readfirstlane(tile.at);
  }
  // A lane's row of the wave's first block of A, and column of B.
  static SHMEM_D_ unsigned first_row() {
    return arch::thread().x / 64 / waves_n * blocks_m * 32 + arch::thread().x % 32;
  }
  static SHMEM_D_ unsigned first_col() {
    return arch::thread().x / 64 % waves_n * blocks_n * 32 + arch::thread().x % 32;
  }
  // Makes zeros by products of zeros that the compiler does not know to be alike: it would copy one
  // vector of zeros, which takes registers that hold sums.
  static SHMEM_D_ void clear(Sums &sums) {
    mfma::Line zero{0, 0, 0, 0};
    SHMEM_UNROLL_
    for (unsigned q = 0; q < blocks_m * blocks_n; q++) {
      asm volatile("" : "+v"(zero));
      sums[q] = mfma::Sums{};
      mfma::multiply<Bfloat16>(sums[q], zero, zero);
    }
  }
  // The columns first: a lane then has neighbours of one row of C, four at a time.
  template <class Piece, unsigned... q>
  static SHMEM_D_ void multiply_all(Sums &sums, const Piece (&a)[blocks_m],
                                    const Piece (&b)[blocks_n],
                                    std::integer_sequence<unsigned, q...>) {
    (mfma::multiply<T>(sums[q], b[q % blocks_n], a[q / blocks_n]), ...);
  }

  template <unsigned... q, class At>
  static SHMEM_D_ void turn_pair(const Sums &sums, unsigned pair, const At &at,
                                 std::integer_sequence<unsigned, q...>) {
    ((pair == q / 2 ? turn_block<q>(sums[q], at) : void()), ...);
  }
  template <unsigned q, class At>
  static SHMEM_D_ void turn_block(const mfma::Sums &s, const At &at) {
    const unsigned lane = arch::thread().x % 64, piece = q % 2 * 8 + lane / 32;
    SHMEM_UNROLL_
    for (unsigned g = 0; g < 4; g++)
      *at(lane % 32, piece + g * 2) =
          mfma::Four{s[g * 4], s[g * 4 + 1], s[g * 4 + 2], s[g * 4 + 3]};
    // This must not be merged with that for another q, or the sums would go to memory to be chosen
    // there.
    asm volatile("/* sums %0 */" ::"n"(q));
  }
  // A lane has of row lane % 32 four neighbouring sums in every eight, as its half of the wave
  // says.
  template <class Epilogue>
  static SHMEM_D_ void hand_over(const Operands &x, char *shared, Tile tile, const Sums &sums,
                                 const Epilogue &epilogue) {
    using mfma::Four;
    const unsigned lane = arch::thread().x % 64, wave = arch::thread().x / 64;
    char *const turn = shared + wave * turn_bytes;
    const auto put = epilogue.begin(tile);
    const auto at = [&](unsigned r, unsigned piece) {
      return reinterpret_cast<Four *>(turn + r * 256 + (piece ^ r % 8 ^ piece >> 3) * 16);
    };
    // One copy of the epilogue's code for all pairs of blocks.
#pragma unroll 1
    for (unsigned pair = 0; pair < blocks_m * blocks_n / 2; pair++) {
      const unsigned i = pair / (blocks_n / 2), j = pair % (blocks_n / 2) * 2;
      arch::wave_sync(64);
      turn_pair(sums, pair, at, Blocks{});
      arch::wave_sync(64);
#pragma unroll 1
      for (unsigned s = 0; s < 4; s++) {
        const unsigned r = s * 8 + lane / 8, c = lane % 8;
        const unsigned row = tile.row + (wave / waves_n * blocks_m + i) * 32 + r,
                       col = tile.col + (wave % waves_n * blocks_n + j) * 32 + c * 8;
        float v[chunk];
        SHMEM_UNROLL_
        for (unsigned h = 0; h < 2; h++) {
          const Four four = *at(r, 2 * c + h);
          v[4 * h] = four[0], v[4 * h + 1] = four[1], v[4 * h + 2] = four[2],
                v[4 * h + 3] = four[3];
        }
        if (row < tile.end && col < x.n) put(row, col, v);
      }
    }
  }

  template <class Kernel, class Call>
  static hipError_t launch(Kernel kernel, unsigned blocks, hipStream_t stream, const Call &call) {
    return shmem::launch(kernel, dim3(blocks), dim3(threads), 0, stream, call);
  }
};

} // namespace shmem::gemm

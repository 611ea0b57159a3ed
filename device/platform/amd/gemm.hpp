// SPDX-License-Identifier: MIT
// gfx90a, gfx942 and gfx950: matrices of 32 by 32 by MFMA, the operands from LDS, and the next ones
// on their way in registers meanwhile. All waves do the same: registers are dealt out evenly here.
#pragma once
#include "../../gemm/gemm.hpp"
#include "../../gemm/simt.hpp"
#include <cstring>
#include <utility>

#define SHMEM_GRID_CONSTANT_

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

// How operands come: by elements; or in whole lines of 16 bytes, which run along k, but for those of
// A that run along its rows' dimension (turned_a), of B along its columns (turned_b), or both.
enum class Load { elements, lines, turned_b, turned_a, turned };

template <class T, unsigned bm, unsigned bn, unsigned row_bytes, unsigned waves_m, unsigned waves_n,
          unsigned stages, Load how>
struct Mfma {
  static constexpr bool wide = how != Load::elements,
                        turn_a = how == Load::turned_a || how == Load::turned,
                        turn_b = how == Load::turned_b || how == Load::turned;
  static constexpr unsigned threads = 64 * waves_m * waves_n, tile_m = bm, tile_n = bn;
  static constexpr unsigned bound = wide ? 2 : 1; // waves a SIMD
  static constexpr unsigned resident = bound * 256 / threads > 1 ? bound * 256 / threads : 1;
  static constexpr double speed = 4e6 / sizeof(T) / resident; // half of a CU of gfx942
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
  // The sums are named by constants, so that they are in registers before loops are unrolled.
  using Blocks = std::make_integer_sequence<unsigned, blocks_m * blocks_n>;
  using Operands = Matrices<T>;
  using Line = mfma::Line;

  // Of one operand: what a thread brings of a stage. Rows beyond the end are loaded as the last
  // one, their sums are not handed over. turned: lines along the rows' dimension, n of them at
  // following k, so that a thread has n following k of each row.
  template <unsigned n, bool turned = false> struct Loader {
    static constexpr unsigned height = n * threads / lines, across = height / each;
    static_assert(n == 4);
    const T *p;
    size_t ld;
    bool along_k;
    unsigned first, rows, k;
    // Of lines: the stage's place, in scalars, the bytes to the next one's, and each line's from there.
    const char *base;
    uint32_t step, offset[n];
    Line line[n];

    SHMEM_D_ Loader(const T *from, size_t distance, bool k_runs, unsigned r0, unsigned count,
                    unsigned depth)
        : p(from), ld(distance), along_k(k_runs), first(r0), rows(count), k(depth) {
      if constexpr (!wide) return;
      base = reinterpret_cast<const char *>(p + (turned ? r0 : r0 * ld));
      step = uint32_t((turned ? ld : 1) * bk * sizeof(T));
      const unsigned left = (rows - r0 + each - 1) / each, c = arch::thread().x % across;
      SHMEM_UNROLL_
      for (unsigned i = 0; i < n; i++) {
        const unsigned at = arch::thread().x + i * threads, r = at / lines;
        offset[i] = turned ? uint32_t((arch::thread().x / across * n + i) * ld * sizeof(T)) +
                                 (c < left ? c : left - 1) * 16
                           : uint32_t((r0 + r < rows ? r : rows - 1 - r0) * ld * sizeof(T)) +
                                 at % lines * 16;
      }
    }
    // The compiler must see at the access that the offset has 32 bits: or it takes 64 of it out of the
    // loop, and adds them here.
    SHMEM_D_ Line line_at(unsigned i) {
      // Of large tiles of floats there is no register left for those of a turned one.
      const unsigned j = turned && sizeof(T) == 4 ? 0 : i;
      const char *const from = base + (i - j) * ld * sizeof(T);
      asm volatile("" : "+v"(offset[j]));
      return arch::load_global(reinterpret_cast<const Line *>(from + offset[j]));
    }
    // A whole stage: the next one, or the same once more.
    SHMEM_D_ void load(unsigned k0, bool next) {
      if constexpr (wide) {
        base += next ? step : 0;
        SHMEM_UNROLL_
        for (unsigned i = 0; i < n; i++) line[i] = line_at(i);
      } else {
        load_some(k0, next);
      }
    }
    SHMEM_D_ void arrive() { // all at once: one wait
      asm volatile("" : "+v"(line[0]), "+v"(line[1]), "+v"(line[2]), "+v"(line[3]));
    }
    // Of a stage that k ends in.
    SHMEM_D_ void load_some(unsigned k0, bool next) {
      if constexpr (wide) base += next ? step : 0;
      SHMEM_UNROLL_
      for (unsigned i = 0; i < n; i++) {
        const unsigned at = arch::thread().x + i * threads;
        line[i] = Line{0, 0, 0, 0};
        if constexpr (wide) {
          if (k0 + (turned ? arch::thread().x / across * n + i : at % lines * each) < k)
            line[i] = line_at(i);
        } else {
          const unsigned r = first + (along_k ? at / lines : at % height),
                         from = k0 + (along_k ? at % lines : at / height) * each;
          SHMEM_UNROLL_
          for (unsigned e = 0; e < each; e++)
            if (r < rows && from + e < k)
              line[i][e * sizeof(T) / 4] |=
                  uint32_t(arch::to_bits(
                      arch::load_global(p + (along_k ? r * ld + from + e : (from + e) * ld + r))))
                  << e * sizeof(T) % 4 * 8;
        }
      }
    }
    SHMEM_D_ void store(char *to) const {
      if constexpr (turned) {
        // The first row's number is a multiple of `each`, so that those of the others differ from it
        // in bits that it has not.
        const unsigned byte = arch::thread().x / across * unsigned(n * sizeof(T));
        unsigned first = place(arch::thread().x % across * each, byte / 16) + byte % 16;
        // Where sums are many, or all eight would be kept in registers.
        if constexpr (blocks_m * blocks_n > 4) asm volatile("" : "+v"(first));
        SHMEM_UNROLL_
        for (unsigned e = 0; e < each; e++) {
          struct alignas(n * sizeof(T)) {
            uint32_t k[n * sizeof(T) / 4];
          } row;
          SHMEM_UNROLL_
          for (unsigned w = 0; w < n * sizeof(T) / 4; w++)
            row.k[w] = sizeof(T) == 4
                           ? line[w][e % 4]
                           : __builtin_amdgcn_perm(line[2 * w + 1 < n ? 2 * w + 1 : 0][e / 2],
                                                   line[2 * w < n ? 2 * w : 0][e / 2],
                                                   e % 2 ? 0x07060302 : 0x05040100);
          const unsigned at = (first ^ (lines == 8 ? e : e / 2) * 16) + e * row_bytes;
          __builtin_memcpy(__builtin_assume_aligned(to + at, sizeof row), &row, sizeof row);
        }
        return;
      }
      SHMEM_UNROLL_
      for (unsigned i = 0; i < n; i++) {
        const unsigned at = arch::thread().x + i * threads;
        const unsigned r = wide || along_k ? at / lines : at % height,
                       c = wide || along_k ? at % lines : at / height;
        *reinterpret_cast<Line *>(to + place(r, c)) = line[i];
      }
    }
  };
  // So that neighbouring lanes, which read neighbouring rows, meet in no bank; and of those that
  // store to every eighth row, four to one. Blocks of 32 rows are all alike.
  static SHMEM_D_ unsigned place(unsigned r, unsigned c) {
    return r * row_bytes + (c ^ ((lines == 8 ? r : r / 2) ^ r / 8 % 4) % lines) * 16;
  }

  static SHMEM_D_ void multiply_stage(mfma::Sums (&sums)[blocks_m * blocks_n], const char *stage) {
    const unsigned lane = arch::thread().x % 64, wave = arch::thread().x / 64;
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
      multiply_lines(sums, a, b, Blocks{});
    }
  }
  // The columns first: a lane then has neighbours of one row of C, four at a time.
  template <unsigned... q>
  static SHMEM_D_ void multiply_lines(mfma::Sums (&sums)[blocks_m * blocks_n],
                                      const Line (&a)[blocks_m], const Line (&b)[blocks_n],
                                      std::integer_sequence<unsigned, q...>) {
    (mfma::multiply<T>(sums[q], b[q % blocks_n], a[q / blocks_n]), ...);
  }

  template <class Order, class Epilogue>
  static SHMEM_D_ void run(const Operands &operands, const Order &order, const Epilogue &epilogue) {
    __shared__ __attribute__((aligned(16))) char shared[shared_bytes];
    Tiles<Order> tiles(order);
    Tile tile;
    while (tiles.next(tile)) {
      // The division in the order ran in vector registers; what is the same in all lanes belongs in
      // scalar ones, from where loads take their base.
      tile.row = __builtin_amdgcn_readfirstlane(tile.row);
      tile.col = __builtin_amdgcn_readfirstlane(tile.col);
      tile.end = __builtin_amdgcn_readfirstlane(tile.end);
      tile.shard = __builtin_amdgcn_readfirstlane(tile.shard);
      tile.at = __builtin_amdgcn_readfirstlane(tile.at);
      const Operands &x = arch::again(operands);
      mfma::Sums sums[blocks_m * blocks_n] = {};
      Loader<lines_a, turn_a> a(x.a, x.lda, !x.trans_a, tile.row, tile.end, x.k);
      Loader<lines_b, turn_b> b(x.b, x.ldb, x.trans_b, tile.col, x.n, x.k);
      const unsigned whole = x.k / bk;
      if (whole) {
        a.load(0, false), b.load(0, false);
        a.arrive(), b.arrive();
        if constexpr (stages == 2) {
          a.store(shared), b.store(shared + bm * row_bytes);
          __syncthreads();
        }
        for (unsigned i = 0; i < whole; i++) {
          const bool more = i + 1 < whole; // the last loads twice
          const unsigned next = (more ? i + 1 : i) * bk;
          char *const now = shared + i % stages * stage_bytes, *const other =
                                                                   shared +
                                                                   (i + 1) % stages * stage_bytes;
          if constexpr (stages == 1) {
            __syncthreads();
            a.store(now), b.store(now + bm * row_bytes);
            __syncthreads();
          }
          // The loads first, then what hides them; compilers would move them to where they are
          // used.
          a.load(next, more), b.load(next, more);
          __builtin_amdgcn_sched_barrier(0);
          multiply_stage(sums, now);
          __builtin_amdgcn_sched_barrier(0);
          a.arrive(), b.arrive();
          if constexpr (stages == 2) {
            a.store(other), b.store(other + bm * row_bytes);
            __syncthreads();
          }
        }
      }
      if (x.k % bk) {
        __syncthreads();
        a.load_some(whole * bk, whole), b.load_some(whole * bk, whole);
        a.store(shared), b.store(shared + bm * row_bytes);
        __syncthreads();
        multiply_stage(sums, shared);
      }
      __syncthreads();
      hand_over(x, shared, tile, sums, arch::again(epilogue));
      __syncthreads();
      epilogue.done(tile, Workgroup{});
    }
    epilogue.over(order, Workgroup{});
  }

  template <unsigned... q, class At>
  static SHMEM_D_ void turn_pair(const mfma::Sums (&sums)[blocks_m * blocks_n], unsigned pair,
                                 const At &at, std::integer_sequence<unsigned, q...>) {
    ((pair == q / 2 ? turn_block<q>(sums[q], at) : void()), ...);
  }
  template <unsigned q, class At>
  static SHMEM_D_ void turn_block(const mfma::Sums &s, const At &at) {
    const unsigned lane = arch::thread().x % 64, piece = q % 2 * 8 + lane / 32;
    SHMEM_UNROLL_
    for (unsigned g = 0; g < 4; g++)
      *at(lane % 32, piece + g * 2) =
          mfma::Four{s[g * 4], s[g * 4 + 1], s[g * 4 + 2], s[g * 4 + 3]};
    // Not to be merged with that for another q: the sums would go to memory to be chosen there.
    asm volatile("/* sums %0 */" ::"n"(q));
  }
  // A lane has of row lane % 32 four neighbouring sums in every eight, as its half of the wave
  // says.
  template <class Epilogue>
  static SHMEM_D_ void hand_over(const Operands &x, char *shared, Tile tile,
                                 const mfma::Sums (&sums)[blocks_m * blocks_n],
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

  template <class Kernel, class Order, class Epilogue>
  static hipError_t launch(Kernel kernel, unsigned blocks, hipStream_t stream, const Operands &x,
                           const Order &order, const Epilogue &epilogue) {
    return shmem::launch(kernel, dim3(blocks), dim3(threads), 0, stream, x, order, epilogue);
  }
};

// By measure of the study: gfx90a has half the speed of MFMA for the same LDS, and a smaller tile
// will do. Two small tiles or a large one fill the LDS of 64 KiB.
template <class T, Load load> using MfmaSmall = Mfma<T, 128, 128, 128, 2, 2, 1, load>;
template <class T, Load load> using MfmaLarge = Mfma<T, 256, 256, 128, 2, 4, 1, load>;

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
  // Lines of A that run along its rows have to begin where tiles do.
  if (!lines(x.a, x.lda) || !lines(x.b, x.ldb) ||
      (x.trans_a ? x.shard * sizeof(T) : x.k * sizeof(T)) % 16 ||
      (x.trans_b && x.k * sizeof(T) % 16))
    return run(MfmaSmall<T, Load::elements>{}, x);
  // A large tile for less than half of the 304 CUs of gfx942 would leave most of them idle.
  const bool small = gfx90a || x.small || size_t((x.m + 255) / 256) * ((x.n + 255) / 256) < 152;
  const auto sized = [&](auto how) {
    constexpr Load load = decltype(how)::value;
    return small ? run(MfmaSmall<T, load>{}, x) : run(MfmaLarge<T, load>{}, x);
  };
  if (x.trans_a)
    return x.trans_b ? sized(std::integral_constant<Load, Load::turned_a>{})
                     : sized(std::integral_constant<Load, Load::turned>{});
  return x.trans_b ? sized(std::integral_constant<Load, Load::lines>{})
                   : sized(std::integral_constant<Load, Load::turned_b>{});
}

} // namespace shmem::gemm

// SPDX-License-Identifier: MIT
// gfx950: operands go from memory into LDS past the registers, into one of two stages while the
// matrix unit works on the other. Its matrix unit takes half of gfx942's time for the operands that
// LDS gives, so a wave has twice as many blocks of a tile, and reads less for each of them. An
// operand that does not run along k lies in LDS as it does in memory: the read turns it.
#pragma once
#include "mfma.hpp"

namespace shmem::gemm {

#if defined __gfx950__
inline constexpr bool direct = true;
#else
inline constexpr bool direct = false;
#endif

namespace mfma {

inline constexpr unsigned fetched = 8; // lines of a thread, a KiB apart in LDS

// Line i comes from base + offset[i] + i KiB - 4 KiB and goes to `to` + i KiB, 16 bytes further for
// each lane: an instruction adds its offset, from -4 KiB to 4 KiB, on both sides.
#if defined __AMDGCN__
using InLds = uint32_t; // an address plus 4 KiB, in a scalar register
SHMEM_D_ InLds in_lds(char *p) {
  InLds to = uint32_t(uintptr_t((__attribute__((address_space(3))) char *)p)) + 4096;
  to = __builtin_amdgcn_readfirstlane(to);
  asm volatile("" : "+s"(to)); // once, not before each use
  return to;
}
SHMEM_D_ void fetch(const char *base, const uint32_t (&offset)[fetched], InLds to) {
  // M0 has the address; an instruction may read it in the second wait state after it was set, not
  // in the first. It need not be named as clobbered, because compilers set it directly before each
  // use of their own.
  asm volatile("s_mov_b32 m0, %9\n\ts_nop 0\n\t"
               "global_load_lds_dwordx4 %0, %8 offset:-4096\n\t"
               "global_load_lds_dwordx4 %1, %8 offset:-3072\n\t"
               "global_load_lds_dwordx4 %2, %8 offset:-2048\n\t"
               "global_load_lds_dwordx4 %3, %8 offset:-1024\n\t"
               "global_load_lds_dwordx4 %4, %8\n\t"
               "global_load_lds_dwordx4 %5, %8 offset:1024\n\t"
               "global_load_lds_dwordx4 %6, %8 offset:2048\n\t"
               "global_load_lds_dwordx4 %7, %8 offset:3072" ::"v"(offset[0]),
               "v"(offset[1]), "v"(offset[2]), "v"(offset[3]), "v"(offset[4]), "v"(offset[5]),
               "v"(offset[6]), "v"(offset[7]), "s"(base), "s"(to)
               : "memory");
}
#else
using InLds = char *;
SHMEM_D_ InLds in_lds(char *p) {
  return p;
}
SHMEM_D_ void fetch(const char *base, const uint32_t (&offset)[fetched], InLds to) {
  for (unsigned i = 0; i < fetched; i++)
    *reinterpret_cast<Line *>(to + i * 1024 + arch::thread().x % 64 * 16) =
        *reinterpret_cast<const Line *>(base + offset[i] + i * 1024 - 4096);
}
#endif
// 16 lanes read four rows of 16 elements of 16 bits and get a column each, along k if rows follow
// each other: at `first`, and at `second`.
SHMEM_D_ Line turned_line(const char *first, const char *second) {
#if defined __gfx950__
  typedef short Four __attribute__((ext_vector_type(4)));
  typedef __attribute__((address_space(3))) Four *In;
  const Four a = __builtin_amdgcn_ds_read_tr16_b64_v4i16((In)first),
             b = __builtin_amdgcn_ds_read_tr16_b64_v4i16((In)second);
  return __builtin_bit_cast(Line, __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7));
#else
  return (void)first, (void)second, Line{};
#endif
}

// One operand in LDS: two stages of `height` rows or columns, 128 bytes of k each.
template <class T, unsigned height, unsigned threads, bool turned> struct Staged {
  static constexpr unsigned row_bytes = 128, each = 16 / sizeof(T), bytes = height * row_bytes,
                            across =
                                turned ? height / each : row_bytes / 16; // lines in a row of LDS
  static_assert(bytes == fetched * threads * 16 && !(turned && sizeof(T) == 1));
  static constexpr unsigned reads = turned ? 2 : 1; // for 16 bytes
  const char *base;                                 // of the next stage
  uint32_t step, offset[fetched];
  char *lds;
  InLds to[2]; // this wave's part of each stage

  SHMEM_D_ Staged(const T *p, size_t ld, unsigned first, unsigned rows, char *stages)
      : base(reinterpret_cast<const char *>(p + (turned ? first : first * ld)) - 3072),
        step(uint32_t((turned ? ld : 1) * row_bytes)), lds(stages) {
    const unsigned left = rows - first, lines = (left + each - 1) / each;
    SHMEM_UNROLL_
    for (unsigned i = 0; i < 2; i++)
      to[i] = in_lds(lds + i * bytes + arch::thread().x / 64 * fetched * 1024);
    SHMEM_UNROLL_
    for (unsigned i = 0; i < fetched; i++) {
      const unsigned r = row(i), c = line(i);
      // Rows beyond the end are loaded from before it, and their sums are not handed over.
      offset[i] = (turned ? uint32_t(r * ld * sizeof(T)) + (c < lines ? c : lines - 1) * 16
                          : uint32_t((r < left ? r : left - 1) * ld * sizeof(T)) + c * 16) +
                  (fetched - 1 - i) * 1024;
    }
  }
  // Which line of the operand is the i-th that a thread brings: in LDS those of a wave lie
  // together.
  static SHMEM_D_ unsigned place(unsigned i) {
    return (arch::thread().x / 64 * fetched + i) * 64 + arch::thread().x % 64;
  }
  static SHMEM_D_ unsigned row(unsigned i) { return place(i) / across; }
  static SHMEM_D_ unsigned line(unsigned i) { return place(i) % across ^ swizzle(row(i)); }
  // Keeps neighbouring lanes, which read neighbouring rows, in different banks.
  static SHMEM_D_ unsigned swizzle(unsigned r) {
    return !turned ? r % 8 : sizeof(T) == 2 ? r % 4 * 4 : 0;
  }

  SHMEM_D_ void load(unsigned stage) {
    fetch(base, offset, to[stage]);
    base += step;
  }
  // The stage in which k ends goes into the first.
  SHMEM_D_ void load_some(unsigned k) {
    SHMEM_UNROLL_
    for (unsigned i = 0; i < fetched; i++) {
      Line v{0, 0, 0, 0};
      if ((turned ? row(i) : line(i) * each) < k)
        v = arch::load_global(reinterpret_cast<const Line *>(base + offset[i] + i * 1024 - 4096));
      *reinterpret_cast<Line *>(lds + place(i) * 16) = v;
    }
  }
  // 16 bytes along k of the lane's row in the i-th block of its wave: those of the q-th 32 that its
  // half of the wave has. `first` is its row in the first one.
  SHMEM_D_ Line read(unsigned stage, unsigned first, unsigned i, unsigned q) const {
    const char *const from = lds + stage * bytes;
    const unsigned lane = arch::thread().x % 64, half = lane / 32;
    if constexpr (!turned) {
      return *reinterpret_cast<const Line *>(from + (first + i * 32) * row_bytes +
                                             ((2 * q + half) ^ first % 8) * 16);
    } else if constexpr (sizeof(T) == 2) {
      const unsigned k = 16 * q + 8 * half + lane % 16 / 4,
                     c = ((first / 32 + i) * 4 + lane / 16 % 2 * 2 + lane % 4 / 2) ^
                         lane % 16 / 4 * 4;
      const char *const p = from + k * height * 2 + c * 16 + lane % 2 * 8;
      return turned_line(p, p + 4 * height * 2);
    } else {
      Line v;
      SHMEM_UNROLL_
      for (unsigned e = 0; e < 4; e++)
        v[e] = reinterpret_cast<const uint32_t *>(
            from)[(8 * q + 4 * half + e) * height + first + i * 32];
      return v;
    }
  }
};

} // namespace mfma

template <class T, unsigned bm, unsigned bn, unsigned waves_m, unsigned waves_n, Load how>
struct Direct : Blocked<T, bm, bn, waves_m, waves_n> {
  using Shape = Blocked<T, bm, bn, waves_m, waves_n>;
  using Shape::blocks_m, Shape::blocks_n, Shape::threads;
  static constexpr bool turn_a = how == Load::turned_a || how == Load::turned,
                        turn_b = how == Load::turned_b || how == Load::turned;
  using A = mfma::Staged<T, bm, threads, turn_a>;
  using B = mfma::Staged<T, bn, threads, turn_b>;
  static constexpr unsigned shared_bytes = 2 * (A::bytes + B::bytes), bk = A::row_bytes / sizeof(T);
  static constexpr unsigned bound = 1; // waves a SIMD: LDS has room for no more
  static constexpr unsigned resident = 160 * 1024 / shared_bytes;
  static constexpr double speed = 8e6 / sizeof(T) / resident; // half of a CU's peak
  static_assert(shared_bytes >= Shape::turns_bytes && how != Load::elements);
  using Operands = Matrices<T>;

  // The pieces of a step of k that the wave's blocks need.
  static constexpr unsigned lines = sizeof(T) == 1 ? 2 : 1;
  using Piece = std::conditional_t<lines == 2, mfma::Pair, mfma::Line>;
  template <class Operand, unsigned blocks>
  static SHMEM_D_ void read(Piece (&to)[blocks], const Operand &from, unsigned first,
                            unsigned stage, unsigned s) {
    SHMEM_UNROLL_
    for (unsigned i = 0; i < blocks; i++)
      if constexpr (lines == 2)
        to[i] = {{from.read(stage, first, i, 2 * s), from.read(stage, first, i, 2 * s + 1)}};
      else
        to[i] = from.read(stage, first, i, s);
  }
  // The pieces of a step are read while the matrix unit works on the step before.
  static SHMEM_D_ void multiply_stage(typename Shape::Sums &sums, const A &a, const B &b,
                                      unsigned stage) {
    const unsigned row = Shape::first_row(), col = Shape::first_col();
    constexpr unsigned steps = 4 / lines,
                       reads = (blocks_m * A::reads + blocks_n * B::reads) * lines;
    Piece x[2][blocks_m], y[2][blocks_n];
    read(x[0], a, row, stage, 0), read(y[0], b, col, stage, 0);
    SHMEM_UNROLL_
    for (unsigned s = 0; s < steps; s++) {
      if (s + 1 < steps)
        read(x[(s + 1) % 2], a, row, stage, s + 1), read(y[(s + 1) % 2], b, col, stage, s + 1);
      s + 1 < steps ? mfma::wait_reads<reads>() : mfma::wait_reads<0>();
      __builtin_amdgcn_sched_barrier(0);
      Shape::multiply_all(sums, x[s % 2], y[s % 2], typename Shape::Blocks{});
      __builtin_amdgcn_sched_barrier(0);
    }
  }
  // Multiplies a stage whose lines are on their way, after it has started the next one's.
  static SHMEM_D_ void step(typename Shape::Sums &sums, A &a, B &b, unsigned stage, bool more) {
    arch::wait_stores(); // and loads: this wave's lines are in LDS before the others read them,
    __syncthreads();     // and all have read the stage that the next lines overwrite
    if (more) a.load(1 - stage), b.load(1 - stage);
    __builtin_amdgcn_sched_barrier(0);
    multiply_stage(sums, a, b, stage);
    __builtin_amdgcn_sched_barrier(0);
  }

  template <class Order, class Epilogue>
  static SHMEM_D_ void run(const Operands &operands, const Order &order, const Epilogue &epilogue) {
    if constexpr (direct) run_tiles(operands, order, epilogue);
  }
  template <class Order, class Epilogue>
  static SHMEM_D_ void run_tiles(const Operands &x, const Order &order, const Epilogue &epilogue) {
    __shared__ __attribute__((aligned(16))) char shared[shared_bytes];
    Tiles<Order> tiles(order);
    Tile tile;
    while (tiles.next(tile)) {
      SHMEM_TRACED_(Workgroup, trace::multiply, 0, -1)
      Shape::to_scalars(tile);
      typename Shape::Sums sums;
      Shape::clear(sums);
      A a(x.a, x.lda, tile.row, tile.end, shared);
      B b(x.b, x.ldb, tile.col, x.n, shared + 2 * A::bytes);
      // Two stages each time, so that the code names its stage by a constant.
      unsigned left = x.k / bk;
      if (left) {
        a.load(0), b.load(0);
        for (; left > 2; left -= 2) step(sums, a, b, 0, true), step(sums, a, b, 1, true);
        step(sums, a, b, 0, left == 2);
        if (left == 2) step(sums, a, b, 1, false);
      }
      if (x.k % bk) {
        __syncthreads();
        a.load_some(x.k % bk), b.load_some(x.k % bk);
        __syncthreads();
        multiply_stage(sums, a, b, 0);
      }
      __syncthreads();
      Shape::hand_over(x, shared, tile, sums, epilogue);
      __syncthreads();
      epilogue.done(tile, Workgroup{});
    }
    epilogue.over(order, Workgroup{});
  }
};

template <class T, Load load> using DirectSmall = Direct<T, 128, 128, 1, 2, load>;
template <class T, Load load> using DirectLarge = Direct<T, 256, 256, 2, 2, load>;

} // namespace shmem::gemm

// SPDX-License-Identifier: MIT
// gfx90a and gfx942: operands are read from LDS while the next ones are on their way to registers.
// All waves do the same, because these GPUs deal out registers evenly. gfx950 has direct.hpp for
// operands in lines.
#pragma once
#include "../../gemm/simt.hpp"
#include "direct.hpp"
#include "mfma.hpp"
#include <cstring>

#define SHMEM_GRID_CONSTANT_

namespace shmem::gemm {

template <class T, unsigned bm, unsigned bn, unsigned row_bytes, unsigned waves_m, unsigned waves_n,
          Load how>
struct Mfma : Blocked<T, bm, bn, waves_m, waves_n> {
  using Shape = Blocked<T, bm, bn, waves_m, waves_n>;
  using Shape::blocks_m, Shape::blocks_n, Shape::threads;
  static constexpr bool wide = how != Load::elements,
                        turn_a = how == Load::turned_a || how == Load::turned,
                        turn_b = how == Load::turned_b || how == Load::turned;
  static constexpr unsigned bound = wide ? 2 : 1; // waves a SIMD
  static constexpr unsigned resident = bound * 256 / threads > 1 ? bound * 256 / threads : 1;
  static constexpr double speed = 4e6 / sizeof(T) / resident; // half of a gfx942 CU's peak
  static constexpr unsigned bk = row_bytes / sizeof(T), lines = row_bytes / 16,
                            each = 16 / sizeof(T);
  static constexpr unsigned lines_a = bm * lines / threads, lines_b = bn * lines / threads;
  static constexpr unsigned stage_bytes = (bm + bn) * row_bytes,
                            shared_bytes =
                                stage_bytes > Shape::turns_bytes ? stage_bytes : Shape::turns_bytes;
  static constexpr bool many = blocks_m * blocks_n > 4; // sums: no other registers are left
  static_assert(bm * lines % threads == 0 && bn * lines % threads == 0);
  using Operands = Matrices<T>;
  using Line = mfma::Line;

  // A thread's part of one operand for a stage. Rows beyond the end are loaded as the last one, and
  // their sums are not handed over. turned: lines run along the rows' dimension, n of them at
  // successive k, so that a thread has n successive k of each row.
  template <unsigned n, bool turned = false> struct Loader {
    static constexpr unsigned height = n * threads / lines, across = height / each;
    static_assert(n == 4);
    const T *p;
    size_t ld;
    bool along_k;
    unsigned first, rows, k;
    // For lines: the address of the stage, in scalars, the bytes to the next stage, and each line's
    // offset.
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
    // The compiler must see at the access that the offset has 32 bits, or it makes 64 bits of it
    // before the loop and adds these here.
    SHMEM_D_ Line line_at(unsigned i) {
      // Large tiles of floats leave no registers for those of a turned operand.
      const unsigned j = turned && sizeof(T) == 4 ? 0 : i;
      const char *const from = base + (i - j) * ld * sizeof(T);
      asm volatile("" : "+v"(offset[j]));
      return arch::load_global(reinterpret_cast<const Line *>(from + offset[j]));
    }
    // Loads a whole stage: the next one, or the same once more.
    SHMEM_D_ void load(unsigned k0, bool next) {
      if constexpr (wide) {
        base += next ? step : 0;
        SHMEM_UNROLL_
        for (unsigned i = 0; i < n; i++) line[i] = line_at(i);
      } else {
        load_some(k0, next);
      }
    }
    // Loads the stage in which k ends.
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
    // For a turned operand: the part that goes to a row of LDS, and its place.
    struct alignas(n * sizeof(T)) Row {
      uint32_t k[n * sizeof(T) / 4];
    };
    SHMEM_D_ Row row(unsigned e) const {
      Row row;
      SHMEM_UNROLL_
      for (unsigned w = 0; w < n * sizeof(T) / 4; w++)
        row.k[w] = sizeof(T) == 4
                       ? line[w][e % 4]
                       : __builtin_amdgcn_perm(line[2 * w + 1 < n ? 2 * w + 1 : 0][e / 2],
                                               line[2 * w < n ? 2 * w : 0][e / 2],
                                               e % 2 ? 0x07060302 : 0x05040100);
      return row;
    }
    static SHMEM_D_ void put(char *to, Row row) {
      __builtin_memcpy(__builtin_assume_aligned(to, sizeof row), &row, sizeof row);
    }
    static SHMEM_D_ unsigned first_place() {
      const unsigned byte = arch::thread().x / across * unsigned(n * sizeof(T));
      return place(arch::thread().x % across * each, byte / 16) + byte % 16;
    }
    // The first row's number is a multiple of `each`, so the others' numbers differ from it only in
    // bits that are 0 in it.
    static SHMEM_D_ unsigned next_place(unsigned first, unsigned e) {
      return (first ^ (lines == 8 ? e : e / 2) * 16) + e * row_bytes;
    }
    SHMEM_D_ void store(char *to) const {
      if constexpr (turned) {
        unsigned first = first_place();
        // Where there are many sums, or the compiler would keep all eight in registers.
        if constexpr (many) asm volatile("" : "+v"(first));
        SHMEM_UNROLL_
        for (unsigned e = 0; e < each; e++) put(to + next_place(first, e), row(e));
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
  // Keeps neighbouring lanes, which read neighbouring rows, in different banks; of lanes that store
  // to every eighth row, four meet in one. All blocks of 32 rows are alike.
  static SHMEM_D_ unsigned place(unsigned r, unsigned c) {
    return r * row_bytes + (c ^ ((lines == 8 ? r : r / 2) ^ r / 8 % 4) % lines) * 16;
  }

  using A = Loader<lines_a, turn_a>;
  using B = Loader<lines_b, turn_b>;
  // The addresses of both operands' rows, if both are turned. They differ by a constant, so that
  // one instruction stores two, which compilers see only if the address was computed before.
  struct Places {
    unsigned at[each];
    SHMEM_D_ Places() {
      SHMEM_UNROLL_
      for (unsigned e = 0; e < each; e++) at[e] = A::next_place(A::first_place(), e);
    }
  };
  static SHMEM_D_ void store(const A &a, const B &b, Places &places, char *shared) {
    if constexpr (how == Load::turned && lines_a == lines_b) {
      unsigned first = A::first_place();
      if constexpr (many) asm volatile("" : "+v"(first));
      SHMEM_UNROLL_
      for (unsigned e = 0; e < each; e++) {
        unsigned &at = places.at[e];
        if constexpr (many) at = A::next_place(first, e);
        asm volatile("" : "+v"(at));
        A::put(shared + at, a.row(e)), B::put(shared + at + bm * row_bytes, b.row(e));
      }
    } else {
      a.store(shared), b.store(shared + bm * row_bytes);
    }
  }
  static SHMEM_D_ void arrive(A &a, B &b) { // all at once: one wait
    static_assert(lines_a == 4 && lines_b == 4);
    asm volatile(""
                 : "+v"(a.line[0]), "+v"(a.line[1]), "+v"(a.line[2]), "+v"(a.line[3]),
                   "+v"(b.line[0]), "+v"(b.line[1]), "+v"(b.line[2]), "+v"(b.line[3]));
  }

  static SHMEM_D_ void read(Line (&a)[blocks_m], Line (&b)[blocks_n], const char *stage,
                            unsigned s) {
    const unsigned half = arch::thread().x % 64 / 32, row = Shape::first_row(),
                   col = Shape::first_col();
    // If all lines are read before, the first product takes the last ones, so that there is one
    // wait.
    const auto turn = [](unsigned i, unsigned n) { return many ? i : n - 1 - i; };
    const auto columns = [&] {
      SHMEM_UNROLL_
      for (unsigned k = 0; k < blocks_n; k++) {
        const unsigned j = turn(k, blocks_n);
        b[j] = *reinterpret_cast<const Line *>(stage + bm * row_bytes +
                                               place(col + j * 32, 2 * s + half));
      }
    };
    if (!many) columns();
    SHMEM_UNROLL_
    for (unsigned k = 0; k < blocks_m; k++) {
      const unsigned i = turn(k, blocks_m);
      a[i] = *reinterpret_cast<const Line *>(stage + place(row + i * 32, 2 * s + half));
    }
    if (many) columns();
  }
  // If there are registers for it, the lines of a step are read while the step before is
  // multiplied.
  static SHMEM_D_ void multiply_stage(typename Shape::Sums &sums, const char *stage) {
    constexpr unsigned steps = lines / 2, ahead = many ? 0 : 1;
    Line a[1 + ahead][blocks_m], b[1 + ahead][blocks_n];
    if (ahead) read(a[0], b[0], stage, 0);
    SHMEM_UNROLL_
    for (unsigned s = 0; s < steps; s++) {
      const unsigned now = s % (1 + ahead), next = (s + ahead) % (1 + ahead);
      if (s + ahead < steps) read(a[next], b[next], stage, s + ahead);
      if (ahead) __builtin_amdgcn_sched_barrier(0);
      Shape::multiply_all(sums, a[now], b[now], typename Shape::Blocks{});
      if (ahead) __builtin_amdgcn_sched_barrier(0);
    }
  }

  template <class Order, class Epilogue>
  static SHMEM_D_ void run(const Operands &x, const Order &order, const Epilogue &epilogue) {
    if constexpr (wide && direct) return; // that GPU's is direct.hpp
    __shared__ __attribute__((aligned(16))) char shared[shared_bytes];
    Tiles<Order> tiles(order);
    Tile tile;
    Places places;
    while (tiles.next(tile)) {
      SHMEM_TRACED_(Workgroup, trace::multiply, 0, -1)
      Shape::to_scalars(tile);
      typename Shape::Sums sums = {};
      A a(x.a, x.lda, !x.trans_a, tile.row, tile.end, x.k);
      B b(x.b, x.ldb, x.trans_b, tile.col, x.n, x.k);
      const unsigned whole = x.k / bk;
      if (whole) {
        a.load(0, false), b.load(0, false);
        arrive(a, b);
        for (unsigned i = 0; i < whole; i++) {
          const bool more = i + 1 < whole; // the last loads twice
          const unsigned next = (more ? i + 1 : i) * bk;
          __syncthreads();
          store(a, b, places, shared);
          __syncthreads();
          // The loads come first, then the work that hides them; compilers would move the loads to
          // where they are used.
          a.load(next, more), b.load(next, more);
          __builtin_amdgcn_sched_barrier(0);
          multiply_stage(sums, shared);
          __builtin_amdgcn_sched_barrier(0);
          arrive(a, b);
        }
      }
      if (x.k % bk) {
        __syncthreads();
        a.load_some(whole * bk, whole), b.load_some(whole * bk, whole);
        store(a, b, places, shared);
        __syncthreads();
        multiply_stage(sums, shared);
      }
      __syncthreads();
      Shape::hand_over(x, shared, tile, sums, epilogue);
      __syncthreads();
      epilogue.done(tile, Workgroup{});
    }
    epilogue.over(order, Workgroup{});
  }
};

// Two small tiles or a large one fill the LDS of 64 KiB. A compute unit of gfx90a has half of
// gfx942's rate of MFMA and as much LDS, so small tiles keep it busy.
template <class T, Load load> using MfmaSmall = Mfma<T, 128, 128, 128, 2, 2, load>;
template <class T, Load load> using MfmaLarge = Mfma<T, 256, 256, 128, 2, 4, load>;

enum class Architecture { gfx90a, gfx942, gfx950 };
inline hipError_t current_gpu(Architecture &gpu) {
  int device = 0;
  hipDeviceProp_t prop;
  hipError_t error = hipGetDevice(&device);
  if (!error) error = hipGetDeviceProperties(&prop, device);
  if (error) return error;
  const auto is = [&](const char *name) { return !std::strncmp(prop.gcnArchName, name, 6); };
  gpu = is("gfx90a")   ? Architecture::gfx90a
        : is("gfx950") ? Architecture::gfx950
                       : Architecture::gfx942;
  return hipSuccess;
}
template <class T> bool whole_lines(const T *p, size_t ld) { // whose offsets fit 32 bits
  return reinterpret_cast<uintptr_t>(p) % 16 == 0 && ld * sizeof(T) % 16 == 0 && ld < 1 << 21;
}
// Large tiles that keep less than half of the compute units busy leave most of them idle: gfx942
// has 304, gfx950 256.
template <class T> bool small_tiles(const Matrices<T> &x, Architecture gpu) {
  return x.small || size_t((x.m + 255) / 256) * ((x.n + 255) / 256) <
                        (gpu == Architecture::gfx950 ? 128 : 152);
}

// GPUs before gfx950 have no instructions for the OCP's fp8.
template <class Run> hipError_t choose(const Matrices<Float8> &x, Run run) {
  Architecture gpu = {};
  if (const hipError_t error = current_gpu(gpu)) return error;
  if (gpu != Architecture::gfx950 || x.trans_a || !x.trans_b || x.k % 16 ||
      !whole_lines(x.a, x.lda) || !whole_lines(x.b, x.ldb))
    return run(Simt<Float8, 128, 128, 16, 8, 8>{}, x);
  return small_tiles(x, gpu) ? run(DirectSmall<Float8, Load::lines>{}, x)
                             : run(DirectLarge<Float8, Load::lines>{}, x);
}
template <class T, class Run> hipError_t choose(const Matrices<T> &x, Run run) {
  Architecture gpu = {};
  if (const hipError_t error = current_gpu(gpu)) return error;
  // Lines of A that run along its rows have to begin where tiles do.
  if (!whole_lines(x.a, x.lda) || !whole_lines(x.b, x.ldb) ||
      (x.trans_a ? x.shard * sizeof(T) : x.k * sizeof(T)) % 16 ||
      (x.trans_b && x.k * sizeof(T) % 16))
    return run(MfmaSmall<T, Load::elements>{}, x);
  const bool small = gpu == Architecture::gfx90a || small_tiles(x, gpu);
  const auto sized = [&](auto how) {
    constexpr Load load = decltype(how)::value;
    if (gpu == Architecture::gfx950)
      return small ? run(DirectSmall<T, load>{}, x) : run(DirectLarge<T, load>{}, x);
    return small ? run(MfmaSmall<T, load>{}, x) : run(MfmaLarge<T, load>{}, x);
  };
  if (x.trans_a)
    return x.trans_b ? sized(std::integral_constant<Load, Load::turned_a>{})
                     : sized(std::integral_constant<Load, Load::turned>{});
  return x.trans_b ? sized(std::integral_constant<Load, Load::lines>{})
                   : sized(std::integral_constant<Load, Load::turned_b>{});
}

} // namespace shmem::gemm

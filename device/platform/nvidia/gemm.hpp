// SPDX-License-Identifier: MIT
// sm_90a: tiles of 128 rows by 128 or 256 columns, two warpgroups that multiply and one that loads.
#pragma once
#include "../../gemm/gemm.hpp"
#include "../../gemm/simt.hpp"
#include "wgmma.hpp"

#define SHMEM_GRID_CONSTANT_ __grid_constant__

namespace shmem::gemm {

#define SHMEM_ROUNDING_(type, instruction)                                                         \
  template <> struct Rounding<type> {                                                              \
    static SHMEM_D_ void of(const float (&v)[8], type (&to)[8]) {                                  \
      uint32_t line[4];                                                                            \
      for (unsigned i = 0; i < 4; i++)                                                             \
        asm(instruction " %0, %1, %2;" : "=r"(line[i]) : "f"(v[2 * i + 1]), "f"(v[2 * i]));        \
      __builtin_memcpy(to, line, sizeof line);                                                     \
    }                                                                                              \
  }
SHMEM_ROUNDING_(Half, "cvt.rn.f16x2.f32");
SHMEM_ROUNDING_(Bfloat16, "cvt.rn.bf16x2.f32");
#undef SHMEM_ROUNDING_

// The loader of the operands: TMA, which wants addresses and rows that are multiples of 16 bytes;
// or threads, which take any matrix and turn it so that k comes first.
enum class Load { tma, threads };

// mn_a and mn_b (TMA only): the rows in memory run along m, or along n, and not along k.
template <class T, unsigned bn, unsigned stages, Load load, bool mn_a, bool mn_b> struct Wgmma {
  static constexpr unsigned tile_m = 128, tile_n = bn, resident = 1, bound = 1, threads = 384;
  static constexpr double speed = 10.5e6 / sizeof(T);        // H200, 2026-11
  static constexpr unsigned bk = 128 / sizeof(T), steps = 4; // of 32 bytes
  static constexpr unsigned a_bytes = tile_m * 128, b_bytes = bn * 128;
  // Where a warp turns 16 rows of 64 sums, so that a lane has eight of a row.
  static constexpr unsigned turn_bytes = 16 * 64 * 4, turns_bytes = 8 * turn_bytes;
  static constexpr unsigned shared_bytes =
      1024 + stages * (a_bytes + b_bytes) + turns_bytes + stages * 16;
  static_assert(shared_bytes <= 227 * 1024);
  static_assert(load == Load::tma || (!mn_a && !mn_b));

  struct Operands {
    CUtensorMap a, b;
    Matrices<T> x;
  };

  // The warps that multiply.
  struct Consumers {
    SHMEM_D_ unsigned rank() const { return threadIdx.x - 128; }
    SHMEM_D_ unsigned size() const { return 256; }
    SHMEM_D_ void sync() const { asm volatile("bar.sync 1, 256;" ::: "memory"); }
  };

#if SHMEM_SM90A_
  // The ring of stages: which comes next, and the parity of its round.
  struct StageRing {
    uint32_t a, b, turns, full, empty;
    unsigned stage = 0, round = 0;
    SHMEM_D_ void next() {
      if (++stage == stages) stage = 0, round ^= 1;
    }
    SHMEM_D_ uint32_t a_at() const { return a + stage * a_bytes; }
    SHMEM_D_ uint32_t b_at() const { return b + stage * b_bytes; }
    SHMEM_D_ uint32_t full_at() const { return full + stage * 8; }
    SHMEM_D_ uint32_t empty_at() const { return empty + stage * 8; }
  };

  static SHMEM_D_ void load_stage(const Operands &x, const StageRing &ring, unsigned m0,
                                  unsigned n0, unsigned k0) {
    const uint32_t full = ring.full_at();
    sm90::barrier_expect(full, a_bytes + b_bytes);
    if constexpr (mn_a) {
      for (unsigned i = 0; i < tile_m; i += 64)
        sm90::load_box(ring.a_at() + i * 128, &x.a, full, m0 + i, k0);
    } else {
      sm90::load_box(ring.a_at(), &x.a, full, k0, m0);
    }
    for (unsigned i = 0; i < bn; i += mn_b ? 64 : bn)
      sm90::load_box(ring.b_at() + i * 128, &x.b, full, mn_b ? n0 + i : k0, mn_b ? k0 : n0 + i);
  }

  // 16 bytes along k of row r of A, or of column r of B.
  static SHMEM_D_ uint4 gather(const T *p, size_t ld, bool along_k, unsigned r, unsigned rows,
                               unsigned k0, unsigned k) {
    constexpr unsigned n = 16 / sizeof(T);
    uint4 line = {0, 0, 0, 0};
    if (r >= rows || k0 >= k) return line;
    const T *from = p + (along_k ? r * ld + k0 : k0 * ld + r);
    if (along_k && k0 + n <= k && reinterpret_cast<uintptr_t>(from) % 16 == 0)
      return *reinterpret_cast<const uint4 *>(from);
    const size_t step = along_k ? 1 : ld;
    T v[n] = {};
#pragma unroll
    for (unsigned e = 0; e < n; e++)
      if (k0 + e < k) v[e] = from[e * step];
    __builtin_memcpy(&line, v, sizeof line);
    return line;
  }
  // rows x 128 bytes, by 128 threads, swizzled as TMA would.
  static SHMEM_D_ void copy_stage(uint32_t to, const T *p, size_t ld, bool along_k, unsigned tile,
                                  unsigned r0, unsigned rows, unsigned k0, unsigned k) {
    constexpr unsigned batch = 4;
    for (unsigned i = threadIdx.x; i < tile * 8; i += 128 * batch) {
      uint4 line[batch];
#pragma unroll
      for (unsigned e = 0; e < batch; e++) {
        const unsigned at = i + e * 128, r = along_k ? at / 8 : at % tile,
                       c = along_k ? at % 8 : at / tile;
        line[e] = gather(p, ld, along_k, r0 + r, rows, k0 + c * (16 / sizeof(T)), k);
      }
#pragma unroll
      for (unsigned e = 0; e < batch; e++) {
        const unsigned at = i + e * 128, r = along_k ? at / 8 : at % tile,
                       c = along_k ? at % 8 : at / tile;
        asm volatile(
            "st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to + r * 128 + ((c ^ (r % 8)) << 4)),
            "r"(line[e].x), "r"(line[e].y), "r"(line[e].z), "r"(line[e].w)
            : "memory");
      }
    }
  }

  template <class Order>
  static SHMEM_D_ void produce(const Operands &x, const Order &order, StageRing ring) {
    if (load == Load::tma && threadIdx.x) return;
    Tiles<Order> tiles(order);
    Tile tile;
    while (tiles.next(tile)) {
      const unsigned m0 = tile.row, n0 = tile.col;
      for (unsigned k0 = 0; k0 < x.x.k; k0 += bk, ring.next()) {
        sm90::barrier_wait(ring.empty_at(), ring.round ^ 1);
        if constexpr (load == Load::tma) {
          load_stage(x, ring, m0, n0, k0);
        } else {
          copy_stage(ring.a_at(), x.x.a, x.x.lda, !x.x.trans_a, tile_m, m0, x.x.m, k0, x.x.k);
          copy_stage(ring.b_at(), x.x.b, x.x.ldb, x.x.trans_b, bn, n0, x.x.n, k0, x.x.k);
          sm90::fence_async();
          sm90::barrier_arrive(ring.full_at());
        }
      }
    }
  }

  static SHMEM_D_ void release(uint32_t empty) {
    if (threadIdx.x % 32 == 0) sm90::barrier_arrive(empty);
  }

  template <class Order, class Epilogue>
  static SHMEM_D_ void consume(const Operands &x, const Order &order, const Epilogue &epilogue,
                               StageRing ring) {
    const unsigned group = threadIdx.x / 128 - 1;
    Tiles<Order> tiles(order);
    Tile tile, next;
    for (bool more = tiles.next(tile); more; tile = next) {
      SHMEM_TRACED_(Consumers, trace::multiply, 0, -1)
      float d[bn / 2];
      if (!x.x.k)
#pragma unroll
        for (unsigned e = 0; e < bn / 2; e++) d[e] = 0;
      uint32_t last = 0;
      for (unsigned k0 = 0; k0 < x.x.k; k0 += bk, ring.next()) {
        sm90::barrier_wait(ring.full_at(), ring.round);
        // Without mn_a, a step along k is 32 bytes of a row; with it, 16 rows.
        const uint64_t a = sm90::matrix(ring.a_at() + group * 64 * 128, 64 * 128);
        const uint64_t b = sm90::matrix(ring.b_at(), 64 * 128);
        sm90::wgmma_fence();
#pragma unroll
        for (unsigned s = 0; s < steps; s++)
          sm90::wgmma<T, bn, mn_a, mn_b>(d, a + s * (mn_a ? 2048 >> 4 : 32 >> 4),
                                         b + s * (mn_b ? 2048 >> 4 : 32 >> 4), s || k0);
        sm90::wgmma_commit();
        sm90::wgmma_wait<1>();
        if (k0) release(last); // its readers have ended, all but the last four
        last = ring.empty_at();
      }
      // The divisions take their time, so they come while the tensor cores are still at work.
      more = tiles.next(next);
      sm90::wgmma_wait<0>();
      if (x.x.k) release(last);
      hand_over(x, ring.turns, tile, d, epilogue);
      epilogue.done(tile, Consumers{});
    }
    epilogue.over(order, Consumers{});
  }

  // Of rows l / 4 and l / 4 + 8 of its warp's 16 a thread has two sums in every eight columns. By
  // way of shared memory, in which 16-byte pieces are permuted so that no two lanes meet in a bank,
  // it gets eight in a row.
  template <class Epilogue>
  static SHMEM_D_ void hand_over(const Operands &x, uint32_t turns, Tile tile,
                                 const float (&d)[bn / 2], const Epilogue &epilogue) {
    const unsigned warp = threadIdx.x / 32 - 4, lane = threadIdx.x % 32;
    const uint32_t turn = turns + warp * turn_bytes;
    const unsigned row0 = tile.row + warp * 16;
    if (row0 >= tile.end) return;
    const auto put = epilogue.begin(tile);
    // There is one copy of the epilogue's code, because it runs once a tile, when the instruction
    // cache has lost it.
#pragma unroll 1
    for (unsigned c0 = 0; c0 < bn; c0 += 64) {
      __syncwarp();
#pragma unroll
      for (unsigned q = 0; q < bn; q += 64)
        if (q == c0) {
#pragma unroll
          for (unsigned j = 0; j < 16; j++) {
            const unsigned r = lane / 4 + j % 2 * 8, e = q / 2 + j * 2;
            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(
                             turn + r * 256 + place(r, j / 2 * 2 + lane % 4 / 2) + lane % 2 * 8),
                         "f"(d[e]), "f"(d[e + 1])
                         : "memory");
          }
        }
      __syncwarp();
#pragma unroll 2
      for (unsigned s = 0; s < 4; s++) {
        const unsigned r = s * 4 + lane / 8, c = lane % 8;
        const unsigned row = row0 + r, col = tile.col + c0 + c * 8;
        float v[chunk];
#pragma unroll
        for (unsigned h = 0; h < 2; h++)
          asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                       : "=f"(v[4 * h]), "=f"(v[4 * h + 1]), "=f"(v[4 * h + 2]), "=f"(v[4 * h + 3])
                       : "r"(turn + r * 256 + place(r, 2 * c + h))
                       : "memory");
        if (row < tile.end && col < x.x.n) put(row, col, v);
      }
    }
  }
  static SHMEM_D_ unsigned place(unsigned row, unsigned piece) {
    return (piece ^ (row % 4 * 2) ^ (piece >> 3)) << 4;
  }
#endif

  template <class Order, class Epilogue>
  static SHMEM_D_ void run(const Operands &x, const Order &order, const Epilogue &epilogue) {
#if SHMEM_SM90A_
    extern __shared__ char raw[];
    StageRing ring;
    ring.a = (sm90::shared_address(raw) + 1023) / 1024 * 1024; // what the swizzle counts from
    ring.b = ring.a + stages * a_bytes;
    ring.turns = ring.b + stages * b_bytes;
    ring.full = ring.turns + turns_bytes;
    ring.empty = ring.full + stages * 8;
    if (threadIdx.x == 0) {
      for (unsigned s = 0; s < stages; s++) {
        sm90::barrier_init(ring.full + s * 8, load == Load::tma ? 1 : 128);
        sm90::barrier_init(ring.empty + s * 8, 8); // a lane of each warp
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      sm90::fence_async();
    }
    __syncthreads();
    // TMA needs one thread; the registers of its warpgroup go to those that multiply.
    if (threadIdx.x < 128) {
      if constexpr (load == Load::tma) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
      produce(x, order, ring);
    } else {
      if constexpr (load == Load::tma) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
      consume(x, order, epilogue, ring);
    }
#else
    __shared__ char not_sm_90a;
    *const_cast<volatile char *>(&not_sm_90a) = 0;
    __trap();
#endif
  }

  template <class Kernel, class Call>
  static hipError_t launch(Kernel kernel, unsigned blocks, hipStream_t stream, const Call &call) {
    // Without the instructions it is a kernel that traps, after which nothing runs on the GPU. All
    // the shared memory of the others is dynamic.
    static const bool built = [&] {
      cudaFuncAttributes facts;
      return cudaFuncGetAttributes(&facts, kernel) != cudaSuccess || !facts.sharedSizeBytes;
    }();
    if (!built) return cudaErrorNoKernelImageForDevice;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             int(shared_bytes));
    if (error) return error;
    return shmem::launch(kernel, dim3(blocks), dim3(threads), shared_bytes, stream, call);
  }
};

namespace sm90 {

// Found through the runtime, so that nothing has to be linked with the driver's library.
inline auto tensor_map_encoder() {
  static const auto encode = [] {
    void *f = nullptr;
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault,
                                     &found);
#else
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &f, cudaEnableDefault, &found);
#endif
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(f);
  }();
  return encode;
}
template <class T>
bool make_map(CUtensorMap *map, const T *p, size_t rows, size_t columns, size_t ld,
              unsigned box_rows, unsigned box_columns) {
  const auto encode = tensor_map_encoder();
  if (!encode) return false;
  const CUtensorMapDataType type = std::is_same<T, Half>::value ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                   : std::is_same<T, Bfloat16>::value
                                       ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                       : CU_TENSOR_MAP_DATA_TYPE_UINT8;
  const cuuint64_t dims[] = {columns, rows}, strides[] = {ld * sizeof(T)};
  const cuuint32_t box[] = {box_columns, box_rows}, each[] = {1, 1};
  return encode(map, type, 2, const_cast<T *>(p), dims, strides, box, each,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// Calls run with a core that loads by TMA; false where TMA's rules do not hold.
template <class T, unsigned bn, unsigned stages, bool mn_a, bool mn_b, class Run>
bool with_tma(const Matrices<T> &x, hipError_t *error, Run run) {
  using Core = Wgmma<T, bn, stages, Load::tma, mn_a, mn_b>;
  typename Core::Operands operands;
  operands.x = x;
  constexpr unsigned bk = Core::bk;
  const bool ok = (mn_a ? make_map(&operands.a, x.a, x.k, x.m, x.lda, bk, 64)
                        : make_map(&operands.a, x.a, x.m, x.k, x.lda, Core::tile_m, bk)) &&
                  (mn_b ? make_map(&operands.b, x.b, x.k, x.n, x.ldb, bk, 64)
                        : make_map(&operands.b, x.b, x.n, x.k, x.ldb, bn, bk));
  if (ok) *error = run(Core{}, operands);
  return ok;
}

} // namespace sm90

// fp32 by plain FMA: tf32 would round the operands to 11 bits.
template <class Run> hipError_t choose(const Matrices<float> &x, Run run) {
  return run(Simt<float, 128, 128, 16, 8, 8>{}, x);
}
template <class T, class Run> hipError_t choose(const Matrices<T> &x, Run run) {
  int device, major, units;
  hipError_t error = hipGetDevice(&device);
  if (!error)
    error = hipDeviceGetAttribute(&major, hipDeviceAttributeComputeCapabilityMajor, device);
  if (!error) error = hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, device);
  if (error) return error;
  if (major != 9) return run(Simt<T, 128, 128, 16, 8, 8>{}, x);
  const bool mn_a = x.trans_a, mn_b = !x.trans_b;
  // The encoder looks at addresses and rows.
  if (x.k) {
    // A round of wide tiles takes as long as 1.8 of the others, and has to be a full one.
    const auto rounds = [&](size_t width) {
      return ((x.m + 127) / 128 * ((x.n + width - 1) / width) + unsigned(units) - 1) /
             unsigned(units);
    };
    const bool wide = !x.small && 18 * rounds(256) <= 10 * rounds(128);
    bool ok;
#define SHMEM_TRY_(a, b)                                                                           \
  ok = wide ? sm90::with_tma<T, 256, 4, a, b>(x, &error, run)                                      \
            : sm90::with_tma<T, 128, 4, a, b>(x, &error, run)
    if constexpr (sizeof(T) == 2) {
      if (mn_a && mn_b)
        SHMEM_TRY_(true, true);
      else if (mn_a)
        SHMEM_TRY_(true, false);
      else if (mn_b)
        SHMEM_TRY_(false, true);
      else
        SHMEM_TRY_(false, false);
    } else {
      ok = false;
      if (!mn_a && !mn_b) SHMEM_TRY_(false, false);
    }
#undef SHMEM_TRY_
    if (ok) return error;
  }
  using Core = Wgmma<T, 128, 4, Load::threads, false, false>;
  typename Core::Operands operands{};
  operands.x = x;
  return run(Core{}, operands);
}

} // namespace shmem::gemm

// SPDX-License-Identifier: MIT
// AMD's core of the tile engine against float64, without such a GPU: its own source, on the CPU
// platform, with matrix instructions of mfma.hpp. This cannot see faults of the compiler and the
// processor; test/isa looks at the compiler's code.
#include "mfma.hpp"

#include "../../device/gemm/gemm.hpp"
#include <cmath>
#include <cstddef>
#include <cstring>
#include <setjmp.h>
#include <stdarg.h>
#include <vector>
extern "C" {
#include <cmocka.h>
}

namespace {

using namespace shmem::gemm;

// All tiles, row by row.
struct Order {
  unsigned workers, m, n, high, wide;
  bool operator()(unsigned at, Tile &tile) const {
    const unsigned across = (n + wide - 1) / wide, down = (m + high - 1) / high;
    if (at >= across * down) return false;
    tile = {at / across * high, at % across * wide, m, 0, at};
    return true;
  }
};
// Counts how often an element comes, and how often workgroups say that they are done.
struct Epilogue {
  float *c;
  unsigned *seen, *done_, m, n;
  struct Put {
    const Epilogue &e;
    void operator()(unsigned row, unsigned col, float (&v)[chunk]) const {
      for (unsigned i = 0; i < chunk; i++) {
        if (col + i >= e.n) continue;
        e.c[size_t(row) * e.n + col + i] = v[i];
        e.seen[size_t(row) * e.n + col + i]++;
      }
    }
  };
  void start() const {}
  Put begin(Tile) const { return {*this}; }
  template <class Scope> void done(Tile tile, Scope scope) const {
    scope.sync();
    if (scope.rank() == 0) done_[tile.at]++;
  }
  template <class Orders, class Scope> void over(const Orders &, Scope) const {}
};

uint32_t state;
float next() { // in [-1, 1), of a few bits: sums are exact whatever their order
  state = state * 1664525 + 1013904223;
  return float(int32_t(state) >> 27) / 16;
}
template <class T> T make(float v) {
  return from_float<T>(v);
}
template <> float make(float v) {
  return v;
}

template <class Core, class T>
void product(unsigned m, unsigned n, unsigned k, bool trans_a, bool trans_b, size_t pad,
             size_t more_a = 0, size_t more_b = 0) { // after a row

  state = m * 31 + n * 7 + k;
  const size_t lda = (trans_a ? m : k) + pad + more_a, ldb = (trans_b ? k : n) + pad + more_b;
  std::vector<T> a((trans_a ? k : m) * lda + 16, make<T>(NAN)),
      b((trans_b ? n : k) * ldb + 16, make<T>(NAN));
  std::vector<float> fa(size_t(m) * k), fb(size_t(k) * n), c(size_t(m) * n, NAN);
  std::vector<unsigned> seen(size_t(m) * n), done(4096);
  T *const pa = reinterpret_cast<T *>((reinterpret_cast<uintptr_t>(a.data()) + 15) / 16 * 16),
           *const pb =
               reinterpret_cast<T *>((reinterpret_cast<uintptr_t>(b.data()) + 15) / 16 * 16);
  for (unsigned i = 0; i < m; i++)
    for (unsigned e = 0; e < k; e++)
      pa[trans_a ? e * lda + i : i * lda + e] = make<T>(fa[size_t(i) * k + e] = next());
  for (unsigned e = 0; e < k; e++)
    for (unsigned j = 0; j < n; j++)
      pb[trans_b ? j * ldb + e : e * ldb + j] = make<T>(fb[size_t(e) * n + j] = next());
  const typename Core::Operands operands{pa, pb, lda, ldb, m, n, k, trans_a, trans_b, false};
  const Order order{3, m, n, Core::tile_m, Core::tile_n};
  const Epilogue epilogue{c.data(), seen.data(), done.data(), m, n};
  assert_int_equal(launch<Core>(operands, 3, nullptr, order, epilogue), hipSuccess);
  assert_int_equal(hipDeviceSynchronize(), hipSuccess);
  for (unsigned i = 0; i < m; i++)
    for (unsigned j = 0; j < n; j++) {
      float sum = 0;
      for (unsigned e = 0; e < k; e++) sum += fa[size_t(i) * k + e] * fb[size_t(e) * n + j];
      if (c[size_t(i) * n + j] != sum || seen[size_t(i) * n + j] != 1)
        fail_msg("m %u n %u k %u, transposed %d %d, padding %zu: row %u column %u is %g, %u times, "
                 "not %g",
                 m, n, k, trans_a, trans_b, pad, i, j, double(c[size_t(i) * n + j]),
                 seen[size_t(i) * n + j], double(sum));
    }
  Tile tile;
  for (unsigned at = 0; order(at, tile); at++) assert_int_equal(done[at], 1);
}

// In lines of 16 bytes, along k or not: k in whole stages, in none, with a rest; tiles with tails.
template <template <class, Load> class Core, class T, Load load> void lines() {
  constexpr unsigned line = 16 / sizeof(T);
  using C = Core<T, load>;
  constexpr bool a = C::turn_a, b = !C::turn_b;
  const auto rest = [](unsigned n) { return (line - n % line) % line; };
  for (unsigned k : {line, C::bk, C::bk + line, 3 * C::bk, 2 * C::bk + 3 * line})
    product<C, T>(C::tile_m + 37, C::tile_n + 5 * line, k, a, b, k % 3 * line,
                  a ? rest(C::tile_m + 37) : 0);
  product<C, T>(C::tile_m - 1, C::tile_n + 3, line, a, b, 0, a ? rest(C::tile_m - 1) : 0,
                b ? 0 : rest(3));
  product<C, T>(3 * C::tile_m, C::tile_n, C::bk, a, b, 0);
  if (load == Load::turned) product<C, T>(C::tile_m, C::tile_n, C::bk + 3, a, b, 0);
}
template <template <class, Load> class Core, class T> void wide() {
  lines<Core, T, Load::lines>();
  lines<Core, T, Load::turned_b>();
  lines<Core, T, Load::turned_a>();
  lines<Core, T, Load::turned>();
}
template <class T> void gather() {
  using C = MfmaSmall<T, Load::elements>;
  for (int which = 0; which < 4; which++)
    for (unsigned k : {1u, C::bk, C::bk + 3, 2 * C::bk + 5})
      product<C, T>(C::tile_m + 5, C::tile_n + 3, k, which & 1, which & 2, which + k % 2);
}

// The cores that the GPU of this program has for operands in lines.
#if defined __gfx950__
template <class T, Load load> using Small = DirectSmall<T, load>;
template <class T, Load load> using Large = DirectLarge<T, load>;
#else
template <class T, Load load> using Small = MfmaSmall<T, load>;
template <class T, Load load> using Large = MfmaLarge<T, load>;
#endif

void small_f32(void **) {
  wide<Small, float>();
}
void large_f32(void **) {
  wide<Large, float>();
}
void fp8(void **) {
#if defined __gfx950__
  lines<Small, Float8, Load::lines>();
  lines<Large, Float8, Load::lines>();
#else
  skip();
#endif
}
void small_f16(void **) {
  wide<Small, Half>();
}
void small_bf16(void **) {
  wide<Small, Bfloat16>();
}
void large_f16(void **) {
  wide<Large, Half>();
}
void large_bf16(void **) {
  wide<Large, Bfloat16>();
}
void gather_f32(void **) {
  gather<float>();
}
void gather_bf16(void **) {
  gather<Bfloat16>();
}

} // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(small_f32),  cmocka_unit_test(large_f32),  cmocka_unit_test(fp8),
      cmocka_unit_test(small_f16),  cmocka_unit_test(small_bf16), cmocka_unit_test(large_f16),
      cmocka_unit_test(large_bf16), cmocka_unit_test(gather_f32), cmocka_unit_test(gather_bf16)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: MIT
// Matrix products against float64, with a bound that follows from the types. A matrix's padding
// holds NaN, so that a load of it shows, and C's must stay as it was.
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include <hip/hip_runtime.h>

#include "../../device/gemm/matmul.hpp"
#include "../../device/gemm/number.hpp"
extern "C" {
#include <cmocka.h>
}

namespace {

using namespace shmem::gemm;

struct TypeFacts {
  const char *name;
  size_t bytes;
  double unit; // half of the distance of neighbours, as a part of them
  double tiny; // half of that of the smallest
};
const TypeFacts facts[] = {{"f32", 4, 0x1p-24, 0x1p-150},
                           {"f16", 2, 0x1p-11, 0x1p-25},
                           {"bf16", 2, 0x1p-8, 0x1p-134},
                           {"f8", 1, 0x1p-4, 0x1p-10}};
const TypeFacts &of(Type t) {
  return facts[int(t)];
}

void put(Type t, void *p, size_t i, float v) {
  switch (t) {
  case Type::f32:
    static_cast<float *>(p)[i] = v;
    break;
  case Type::f16:
    static_cast<Half *>(p)[i] = from_float<Half>(v);
    break;
  case Type::bf16:
    static_cast<Bfloat16 *>(p)[i] = from_float<Bfloat16>(v);
    break;
  case Type::f8:
    static_cast<Float8 *>(p)[i] = from_float<Float8>(v);
    break;
  }
}
double get(Type t, const void *p, size_t i) {
  switch (t) {
  case Type::f32:
    return double(static_cast<const float *>(p)[i]);
  case Type::f16:
    return double(to_float(static_cast<const Half *>(p)[i]));
  case Type::bf16:
    return double(to_float(static_cast<const Bfloat16 *>(p)[i]));
  default:
    return double(to_float(static_cast<const Float8 *>(p)[i]));
  }
}

uint32_t random_state;
float random_float() { // in [-1, 1)
  random_state = random_state * 1664525 + 1013904223;
  return float(int32_t(random_state)) * 0x1p-31f;
}

struct Case {
  Type type, out;
  size_t m, n, k;
  bool trans_a, trans_b;
  Activation act;
  bool bias;
  size_t pad;   // elements after each row
  size_t shift; // elements before the first
};

// rows x columns, each row with pad more; on the device.
struct Matrix {
  Type type;
  size_t rows, columns, ld, shift;
  std::vector<char> host;
  char *device = nullptr;

  Matrix(Type t, size_t r, size_t c, size_t pad, size_t first)
      : type(t), rows(r), columns(c), ld(c + pad), shift(first),
        host((shift + rows * ld + 16) * of(t).bytes) {
    assert_int_equal(hipMalloc(&device, host.size()), hipSuccess);
  }
  ~Matrix() { (void)hipFree(device); }
  Matrix(const Matrix &) = delete;
  void *at_device() const { return device + shift * of(type).bytes; }
  bool inside(size_t i) const {
    return i >= shift && (i - shift) / (ld ? ld : 1) < rows &&
           (i - shift) % (ld ? ld : 1) < columns;
  }
  void fill(bool poison) {
    for (size_t i = 0; i < host.size() / of(type).bytes; i++)
      put(type, host.data(), i, inside(i) && !poison ? random_float() : NAN);
    upload();
  }
  void upload() {
    assert_int_equal(hipMemcpy(device, host.data(), host.size(), hipMemcpyHostToDevice),
                     hipSuccess);
  }
  void download() {
    assert_int_equal(hipMemcpy(host.data(), device, host.size(), hipMemcpyDeviceToHost),
                     hipSuccess);
  }
  double at(size_t r, size_t c) const { return get(type, host.data(), shift + r * ld + c); }
};

double activate(Activation act, double v) {
  switch (act) {
  case Activation::relu:
    return v > 0 ? v : 0;
  case Activation::gelu:
    return 0.5 * v * (1 + std::erf(v / std::sqrt(2)));
  case Activation::silu:
    return v / (1 + std::exp(-v));
  default:
    return v;
  }
}

void check(const Case &c) {
  random_state = uint32_t(c.m * 31 + c.n * 7 + c.k);
  Matrix a(c.type, c.trans_a ? c.k : c.m, c.trans_a ? c.m : c.k, c.pad, c.shift);
  Matrix b(c.type, c.trans_b ? c.n : c.k, c.trans_b ? c.k : c.n, c.pad, c.shift);
  Matrix to(c.out, c.m, c.n, c.pad, c.shift), bias(c.out, 1, c.n, 0, 0);
  a.fill(false), b.fill(false), bias.fill(false), to.fill(true);
  const std::vector<char> before = to.host;

  const Matmul call{c.type,
                    c.out,
                    c.m,
                    c.n,
                    c.k,
                    a.at_device(),
                    b.at_device(),
                    to.at_device(),
                    c.bias ? bias.at_device() : nullptr,
                    a.ld,
                    b.ld,
                    to.ld,
                    c.trans_a,
                    c.trans_b,
                    c.act};
  assert_int_equal(matmul(nullptr, call, nullptr), hipSuccess);
  assert_int_equal(hipDeviceSynchronize(), hipSuccess);
  to.download();

  // Tensor cores of sm_90 keep 14 bits of an fp8 sum, which is known and a fact of theirs.
  const double step = c.type == Type::f8 ? 0x1p-13 : 0x1p-23;
  size_t wrong = 0;
  for (size_t i = 0; i < c.m; i++)
    for (size_t j = 0; j < c.n; j++) {
      double sum = c.bias ? bias.at(0, j) : 0, size = std::fabs(sum);
      for (size_t k = 0; k < c.k; k++) {
        const double x =
            (c.trans_a ? a.at(k, i) : a.at(i, k)) * (c.trans_b ? b.at(j, k) : b.at(k, j));
        sum += x, size += std::fabs(x);
      }
      // No activation's slope is above 1.13, and the functions of fp32 are good to a few units.
      const double want = activate(c.act, sum), got = to.at(i, j);
      const double bound = 1.13 * (double(c.k) + 2) * step * size + 0x1p-20 * std::fabs(want) +
                           of(c.out).unit * std::fabs(want) * 1.01 + of(c.out).tiny;
      if (!(std::fabs(got - want) <= bound) && wrong++ < 3)
        print_message("row %zu column %zu: %.9g, not %.9g +- %.2g\n", i, j, got, want, bound);
    }
  size_t touched = 0;
  for (size_t i = 0; i < to.host.size() / of(c.out).bytes; i++)
    touched += !to.inside(i) &&
               memcmp(&to.host[i * of(c.out).bytes], &before[i * of(c.out).bytes], of(c.out).bytes);
  if (wrong || touched)
    fail_msg("%s to %s, m %zu n %zu k %zu, transposed %d %d, activation %d bias %d, padding %zu "
             "shift %zu: "
             "%zu elements wrong, %zu beside C written",
             of(c.type).name, of(c.out).name, c.m, c.n, c.k, c.trans_a, c.trans_b, int(c.act),
             c.bias, c.pad, c.shift, wrong, touched);
}

const Type types[] = {Type::f32, Type::f16, Type::bf16, Type::f8};

void shapes(void **) {
  const size_t list[][3] = {{1, 1, 1},    {1, 1, 64},     {7, 5, 3},       {64, 64, 64},
                            {65, 63, 65}, {128, 256, 64}, {129, 257, 127}, {3, 300, 40},
                            {300, 3, 40}, {16, 128, 192}};
  for (Type t : types)
    for (auto &s : list)
      check({t, t, s[0], s[1], s[2], false, true, Activation::none, false, 0, 0});
}

// K of 0 gives zeros, or the bias; no rows or no columns give nothing.
void empty(void **) {
  for (Type t : types) {
    check({t, t, 70, 70, 0, false, false, Activation::none, false, 0, 0});
    check({t, t, 70, 70, 0, true, true, Activation::relu, true, 0, 0});
    check({t, t, 0, 70, 5, false, false, Activation::none, false, 0, 0});
    check({t, t, 70, 0, 5, false, false, Activation::none, false, 0, 0});
  }
}

// With rows of multiples of 16 bytes and without: other paths load them.
void transposes(void **) {
  for (Type t : types)
    for (int which = 0; which < 4; which++)
      for (size_t pad : {0, 16, 3})
        check({t, t, 144, 272, 80, bool(which & 1), bool(which & 2), Activation::none, false, pad,
               0});
}

void misaligned(void **) {
  for (Type t : types)
    for (size_t shift : {1, 2, 4})
      check({t, t, 70, 75, 33, false, shift == 2, Activation::none, true, 5, shift});
}

void epilogues(void **) {
  for (Type t : types)
    for (Type out : {t, Type::f32})
      for (Activation act :
           {Activation::none, Activation::relu, Activation::gelu, Activation::silu})
        for (bool bias : {false, true}) check({t, out, 66, 130, 32, false, true, act, bias, 0, 0});
}

// More tiles than workgroups, on any of the machines.
void persistent(void **) {
  int device, blocks;
  assert_int_equal(hipGetDevice(&device), hipSuccess);
  assert_int_equal(hipDeviceGetAttribute(&blocks, hipDeviceAttributeMultiprocessorCount, device),
                   hipSuccess);
  const size_t n = blocks > 64 ? 2048 : 256;
  for (Type t : {Type::bf16, Type::f32})
    check({t, t, n + 8, n + 24, 136, false, t == Type::f32, Activation::none, false, 0, 0});
}

void refused(void **) {
  Matmul call{};
  call.m = call.n = size_t(1) << 31;
  assert_int_equal(matmul(nullptr, call, nullptr), hipErrorInvalidValue);
}

} // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(shapes),     cmocka_unit_test(empty),
                              cmocka_unit_test(transposes), cmocka_unit_test(misaligned),
                              cmocka_unit_test(epilogues),  cmocka_unit_test(persistent),
                              cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

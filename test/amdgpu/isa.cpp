// SPDX-License-Identifier: MIT
// How instructions of each form run. Each computation is one line of isa.def.
#include "clock.hpp"
#include "operands.hpp"
#include "strict.hpp"
#include <limits>

namespace amdgpu {
namespace {

// An integer as it is, before it goes to a register of type R: there its low bits go, or, by clamp,
// the nearest that R has.
template <class R> struct Exact {
  using Wide = std::conditional_t<sizeof(R) == 8, __int128, i64>;
  Wide value;
  bool outside() const { return value < least || value > most; }
  R clamped() const { return R(std::clamp(value, least, most)); }

private:
  static constexpr Wide least = std::numeric_limits<R>::min(), most = std::numeric_limits<R>::max();
};
template <class R> struct Is {
  using Result = R;
  static constexpr bool exact = false;
};
template <class R> struct Is<Exact<R>> {
  using Result = R;
  static constexpr bool exact = true;
};

// A vector instruction: f of each lane's sources.
template <class R, class... A, class F> constexpr Run vector_of(F) {
  return [](Wave &w, const Op &op) {
    u64 mask = w.mask();
    typename Is<R>::Result out[lanes];
    [&]<size_t... k>(std::index_sequence<k...>) {
      const auto run = [&](const Source<A> &...source) {
        if constexpr (!Is<R>::exact) {
          for (int i = 0; i < lanes; i++) out[i] = F{}(source.p[i]...);
        } else if (op.clamp) {
          for (int i = 0; i < lanes; i++) out[i] = F{}(source.p[i]...).clamped();
        } else {
          for (int i = 0; i < lanes; i++)
            out[i] = typename Is<R>::Result(F{}(source.p[i]...).value);
        }
      };
      run(Source<A>(w, op, int(k) + 1, mask)...);
    }
    (std::index_sequence_for<A...>{});
    write(w, op, out, mask, Is<R>::exact);
  };
}
template <class F, class C, class R, class... A>
constexpr Run vector_op(F f, R (C::*)(A...) const) {
  return vector_of<R, A...>(f);
}

// With a carry: the second operand gets a bit of each lane, and the last one, where there is one,
// gives it.
template <class F, class C, class... A>
constexpr Run carry_op(F, Exact<u32> (C::*)(bool, A...) const) {
  return [](Wave &w, const Op &op) {
    u64 mask = w.mask(), carries = 0;
    const u64 in = op.operands > 4 ? scalar<u64>(w, op.operand[4]) : 0;
    u32 out[lanes];
    Op moved = op; // the sources begin one later
    moved.part[3] = Part::all;
    for (int k = 1; k < 4; k++) moved.operand[k] = op.operand[k + 1];
    const auto run = [&](const Source<A> &...source) {
      for (int i = 0; i < lanes; i++) {
        const Exact<u32> d = F{}(in >> i & 1, source.p[i]...);
        out[i] = op.clamp ? d.clamped() : u32(d.value);
        carries |= u64(d.outside()) << i;
      }
    };
    [&]<size_t... k>(std::index_sequence<k...>) {
      run(Source<A>(w, moved, int(k) + 1, mask)...);
    }
    (std::index_sequence_for<A...>{});
    write(w, moved, out, mask, true);
    set_scalar(w, op.operand[1], carries & mask);
  };
}

// A comparison: a bit of each lane that is on, 0 for the others.
template <bool exec, class F, class C, class... A>
constexpr Run compare_op(F, bool (C::*)(A...) const) {
  return [](Wave &w, const Op &op) {
    u64 mask = w.mask(), bits = 0;
    const auto run = [&](const Source<A> &...source) {
      for (int i = 0; i < lanes; i++) bits |= u64(F{}(source.p[i]...)) << i;
    };
    [&]<size_t... k>(std::index_sequence<k...>) {
      run(Source<A>(w, op, int(k) + 1, mask)...);
    }
    (std::index_sequence_for<A...>{});
    set_scalar(w, op.operand[0], bits & mask);
    if (exec) w.set_pair(Wave::exec, bits & mask);
  };
}

// Of scalars: f gets scc, which it may change.
template <class F, class C, class R, class... A>
constexpr Run scalar_op(F, R (C::*)(bool &, A...) const) {
  return [](Wave &w, const Op &op) {
    [&]<size_t... k>(std::index_sequence<k...>) {
      bool scc = w.scc;
      const R value = F{}(scc, scalar<A>(w, op.operand[k + 1])...);
      w.scc = scc;
      set_scalar(w, op.operand[0], value);
    }
    (std::index_sequence_for<A...>{});
  };
}
// s_cmp_...: only scc.
template <class F, class C, class... A> constexpr Run scalar_compare(F, bool (C::*)(A...) const) {
  return [](Wave &w, const Op &op) {
    [&]<size_t... k>(std::index_sequence<k...>) {
      w.scc = F{}(scalar<A>(w, op.operand[k])...);
    }
    (std::index_sequence_for<A...>{});
  };
}
// s_..._saveexec_b64: the old mask goes to the destination.
template <class F> constexpr Run saveexec(F) {
  return [](Wave &w, const Op &op) {
    const u64 old = w.mask(), fresh = F{}(scalar<u64>(w, op.operand[1]), old);
    set_scalar(w, op.operand[0], old);
    w.set_pair(Wave::exec, fresh);
    w.scc = fresh != 0;
  };
}
template <class F> constexpr Run branch(F) {
  return [](Wave &w, const Op &op) {
    if (F{}(w)) w.pc += op.offset;
  };
}

// Packed: two halves of a register, or two registers, each with a choice of where it comes from.
template <class F, class C, class R, class... A> constexpr Run packed_op(F, R (C::*)(A...) const) {
  return [](Wave &w, const Op &op) {
    using T = typename Is<R>::Result;
    constexpr int n = int(sizeof...(A));
    const auto value = [&](int k, int half, int lane) -> u32 {
      const Operand &o = op.operand[k + 1];
      const int which = (half ? op.select_hi : op.select) >> k & 1;
      u32 bits;
      if constexpr (sizeof(T) == 4) { // two registers
        bits = o.kind == Operand::vector   ? w.vector(o, which)[lane]
               : o.kind == Operand::scalar ? w.s[o.reg + which]
                                           : u32(constant<T>(o));
      } else {
        bits = o.kind == Operand::vector ? w.vector(o)[lane] : u32(to_bits(scalar<u32>(w, o)));
        if (o.kind == Operand::constant && o.decimal) bits = u32(constant<T>(o));
        bits = bits >> 16 * which & 0xffff;
      }
      if constexpr (is_float<T>) {
        if ((half ? op.neg_hi : op.neg_lo) >> k & 1) bits ^= sizeof(T) == 4 ? 0x80000000u : 0x8000u;
      }
      return bits;
    };
    u32 out[2][lanes];
    for (int half = 0; half < 2; half++)
      for (int i = 0; i < lanes; i++) [&]<size_t... k>(std::index_sequence<k...>) {
          const R d = F{}(from_bits<A>(value(int(k), half, i))...);
          if constexpr (Is<R>::exact)
            out[half][i] = u32(to_bits(op.clamp ? d.clamped() : T(d.value)));
          else
            out[half][i] = u32(to_bits(finished(op, d)));
        }
    (std::make_index_sequence<size_t(n)>{});
    const u64 mask = w.mask();
    u32 *low = w.vector(op.operand[0]);
    for (int i = 0; i < lanes; i++) {
      if (!(mask >> i & 1)) continue;
      if constexpr (sizeof(T) == 4)
        low[i] = out[0][i], low[lanes + i] = out[1][i];
      else
        low[i] = (out[0][i] & 0xffff) | out[1][i] << 16;
    }
  };
}

// Results that are exact to one ulp only, by the manual: v_rcp_f32 and its like. The plain machine
// gives the nearest number, the strict one a neighbour of the exact result, by its seed and the
// number. v_rcp_f64 and its like are good for 2^29 ulp.
u64 scattered(u64 bits) {
  u64 z = bits ^ (*strict_seed() + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}
f32 near(f64 exact) {
  const f32 nearest = f32(exact);
  if (!strict_seed() || f64(nearest) == exact || !std::isnormal(nearest)) return nearest;
  constexpr f32 infinite = std::numeric_limits<f32>::infinity();
  return scattered(to_bits(exact)) & 1
             ? nearest
             : std::nextafter(nearest, f64(nearest) < exact ? infinite : -infinite);
}
f64 rough(f64 value) {
  if (!strict_seed() || !std::isnormal(value)) return value;
  return value * (1 + f64(i64(scattered(to_bits(value)))) * 0x1p-63 * 0x1p-24);
}

// Division, by the words of the ISA manual: scaling where a quotient or reciprocal would leave the
// range.
template <class T> struct Format;
template <> struct Format<float> {
  static constexpr int far = 96, scale = 64, small = 23, under = -150, bias = 127;
  static int exponent(float f) { return int(std::bit_cast<u32>(f) >> 23 & 255); }
};
template <> struct Format<double> {
  static constexpr int far = 768, scale = 128, small = 53, under = -1075, bias = 1023;
  static int exponent(double f) { return int(std::bit_cast<u64>(f) >> 52 & 2047); }
};
template <class T> bool subnormal(T value) {
  return value != 0 && Format<T>::exponent(value) == 0;
}
template <class T> T div_scale(T a, T b, T c, bool &flag) {
  using Is = Format<T>;
  flag = false;
  if (c == 0 || b == 0) return std::numeric_limits<T>::quiet_NaN();
  if (Is::exponent(c) - Is::exponent(b) >= Is::far) {
    flag = true;
    return a == b ? std::ldexp(a, Is::scale) : a;
  }
  if (subnormal(b)) return std::ldexp(a, Is::scale);
  const bool small_inverse = subnormal(T(1) / b), small_quotient = subnormal(c / b);
  if (small_inverse && small_quotient) { // the manual scales up, which b is too large for
    flag = true;
    return a == b ? std::ldexp(a, -Is::scale) : a;
  }
  if (small_inverse) return std::ldexp(a, -Is::scale);
  if (small_quotient) {
    flag = true;
    return a == c ? std::ldexp(a, Is::scale) : a;
  }
  return Is::exponent(c) <= Is::small ? std::ldexp(a, Is::scale) : a;
}
template <class T> void run_div_scale(Wave &w, const Op &op) { // vd, vcc, a, b, c
  Op moved = op;
  for (int k = 1; k < 4; k++) moved.operand[k] = op.operand[k + 1];
  u64 mask = w.mask(), flags = 0;
  const Source<T> a(w, moved, 1, mask), b(w, moved, 2, mask), c(w, moved, 3, mask);
  T out[lanes];
  for (int i = 0; i < lanes; i++) {
    bool flag;
    out[i] = div_scale(a.p[i], b.p[i], c.p[i], flag);
    flags |= u64(flag) << i;
  }
  write(w, moved, out, mask);
  set_scalar(w, op.operand[1], flags & mask);
}
template <class T> void run_div_fmas(Wave &w, const Op &op) {
  u64 mask = w.mask();
  const u64 scaled = w.pair(Wave::vcc);
  const Source<T> a(w, op, 1, mask), b(w, op, 2, mask), c(w, op, 3, mask);
  T out[lanes];
  for (int i = 0; i < lanes; i++) {
    out[i] = std::fma(a.p[i], b.p[i], c.p[i]);
    // Back from the scale, which was up for a small quotient and down for a large one, and rounded
    // once. The manual's words have one factor only, with which a division would be wrong.
    using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;
    if (scaled >> i & 1)
      out[i] = T(std::ldexp(std::fma(Wide(a.p[i]), Wide(b.p[i]), Wide(c.p[i])),
                            Format<T>::exponent(c.p[i]) > Format<T>::bias ? Format<T>::scale
                                                                          : -Format<T>::scale));
  }
  write(w, op, out, mask);
}
template <class T> T div_fixup(T a, T b, T c) {
  using Is = Format<T>;
  const bool negative = std::signbit(b) != std::signbit(c);
  const T infinite = std::numeric_limits<T>::infinity();
  if (std::isnan(c)) return c + c; // quiet
  if (std::isnan(b)) return b + b;
  if ((b == 0 && c == 0) || (std::isinf(b) && std::isinf(c)))
    return -std::numeric_limits<T>::quiet_NaN();
  if (b == 0 || std::isinf(c)) return negative ? -infinite : infinite;
  if (std::isinf(b) || c == 0) return negative ? -T(0) : T(0);
  if (Is::exponent(c) - Is::exponent(b) < Is::under) return negative ? -T(0) : T(0);
  // Of finite numbers, a quotient past the largest: the steps before have met infinity less
  // infinity. The manual does not say it; a correctly rounded division needs it.
  if (std::isnan(a)) return negative ? -infinite : infinite;
  return negative ? -std::fabs(a) : std::fabs(a);
}

template <class To, class From>
To to_integer(From value) { // out of range becomes the nearest, NaN 0
  if (std::isnan(value)) return 0;
  if (value <= From(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  if (value >= From(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  return To(value);
}
template <class T> int classified(T a) { // which bit of v_cmp_class speaks of it
  const bool negative = std::signbit(a);
  if (std::isnan(a)) return 1; // quiet ones are what arithmetic makes
  if (std::isinf(a)) return negative ? 2 : 9;
  if (a == 0) return negative ? 5 : 6;
  if (subnormal(a)) return negative ? 4 : 7;
  return negative ? 3 : 8;
}
template <class T> T field_of(T value, u32 at, u32 bits) { // n bits, with their sign
  constexpr u32 width = 8 * sizeof(T);
  if (!bits) return 0;
  value = T(value >> at);
  return bits >= width ? value
                       : T(std::make_unsigned_t<T>(value) << (width - bits)) >> (width - bits);
}
u32 permute(u32 a, u32 b, u32 select) {
  const u64 both = u64(a) << 32 | b;
  u32 out = 0;
  for (int k = 0; k < 4; k++) {
    const u32 s = select >> 8 * k & 255;
    u32 byte;
    if (s >= 13)
      byte = 255;
    else if (s == 12)
      byte = 0;
    else if (s >= 8)
      byte = both >> (16 * (s - 8) + 15) & 1 ? 255 : 0;
    else
      byte = both >> 8 * s & 255;
    out |= byte << 8 * k;
  }
  return out;
}

// Instructions that are like no others.

// Between s_set_gpr_idx_on and _off a vector register is the one that m0 says. Compilers move
// single registers so: where something else comes between, it is refused.
void mov(Wave &w, const Op &op) {
  constexpr Run plain = vector_of<u32, u32>([](u32 a) { return a; });
  if (!w.indexed) return plain(w, op);
  Op moved = op;
  for (int k = 0; k < 2; k++) {
    Operand &o = moved.operand[k];
    if (o.kind != Operand::vector || !(w.indexed & (k ? 1 : 8))) continue;
    o.reg = uint16_t(o.reg + (w.s[Wave::m0] & 255));
    if (size_t(o.reg) * lanes >= w.v.size()) stop(&w, "v%u is not there", o.reg);
  }
  plain(w, moved);
}
void set_gpr_idx_on(Wave &w, const Op &op) {
  const uint32_t mode = u32(op.operand[1].bits);
  w.s[Wave::m0] = (w.s[Wave::m0] & 0xffff0f00) | (scalar<u32>(w, op.operand[0]) & 255) | mode << 12;
  w.indexed = u8(mode);
  static const Run off = meanings().at("s_set_gpr_idx_off");
  const u8 *const next = w.pc;
  for (const Op *o; (o = &decoded(w))->run != off; w.pc += o->bytes)
    if (o->run != mov || o->move != Move::none) {
      w.at = w.pc;
      stop(&w, "an instruction that is not known with indices of registers");
    }
  w.pc = next;
}
void readfirstlane(Wave &w, const Op &op) {
  const u64 mask = w.mask();
  const int lane = mask ? std::countr_zero(mask) : 0;
  set_scalar(w, op.operand[0],
             op.operand[1].kind == Operand::vector ? w.vector(op.operand[1])[lane]
                                                   : scalar<u32>(w, op.operand[1]));
}
void readlane(Wave &w, const Op &op) {
  set_scalar(w, op.operand[0], w.vector(op.operand[1])[scalar<u32>(w, op.operand[2]) & 63]);
}
void writelane(Wave &w, const Op &op) {
  w.vector(op.operand[0])[scalar<u32>(w, op.operand[2]) & 63] = scalar<u32>(w, op.operand[1]);
}
template <bool high> void mbcnt(Wave &w, const Op &op) {
  u64 mask = w.mask();
  const Source<u32> a(w, op, 1, mask), b(w, op, 2, mask);
  u32 out[lanes];
  for (int i = 0; i < lanes; i++) {
    const u64 below = (u64(1) << i) - 1;
    out[i] = b.p[i] + u32(std::popcount(a.p[i] & u32(high ? below >> 32 : below)));
  }
  write(w, op, out, mask);
}
// From gfx950 on: the bits of the three sources, as a number, say which bit of the table is the
// result's.
template <class T> void bitop3(Wave &w, const Op &op) {
  u64 mask = w.mask();
  const Source<T> a(w, op, 1, mask), b(w, op, 2, mask), c(w, op, 3, mask);
  T out[lanes];
  for (int i = 0; i < lanes; i++) {
    u32 bits = 0;
    for (int k = 0; k < 8; k++)
      if (op.table >> k & 1)
        bits |=
            (k & 4 ? a.p[i] : ~a.p[i]) & (k & 2 ? b.p[i] : ~b.p[i]) & (k & 1 ? c.p[i] : ~c.p[i]);
    out[i] = T(bits);
  }
  write(w, op, out, mask);
}
void cndmask(Wave &w, const Op &op) {
  u64 mask = w.mask();
  const u64 choose = op.operands > 3 ? scalar<u64>(w, op.operand[3]) : w.pair(Wave::vcc);
  Op plain = op; // the mask is no source of a part or sign
  const Source<f32> a(w, plain, 1, mask), b(w, plain, 2, mask);
  u32 out[lanes];
  for (int i = 0; i < lanes; i++) out[i] = std::bit_cast<u32>(choose >> i & 1 ? b.p[i] : a.p[i]);
  write(w, op, out, mask);
}
template <class T> void mad_64(Wave &w, const Op &op) { // vd, carry, a, b, c of 64 bits
  Op moved = op;
  for (int k = 1; k < 4; k++) moved.operand[k] = op.operand[k + 1];
  u64 mask = w.mask(), carries = 0;
  using Half = std::conditional_t<std::is_signed_v<T>, i32, u32>;
  const Source<Half> a(w, moved, 1, mask), b(w, moved, 2, mask);
  const Source<T> c(w, moved, 3, mask);
  T out[lanes];
  for (int i = 0; i < lanes; i++) {
    const Exact<T> d = {__int128(a.p[i]) * b.p[i] + c.p[i]};
    out[i] = op.clamp ? d.clamped() : T(d.value);
    carries |= u64(d.outside()) << i;
  }
  write(w, moved, out, mask, true);
  set_scalar(w, op.operand[1], carries & mask);
}
// Each source is a float or, where op_sel_hi says so, the half that op_sel names. The sum is
// rounded to a float and then, if that is what is wanted, to a half, beside which the register
// keeps the other one.
template <class R, Part to = Part::all> void fma_mix(Wave &w, const Op &op) {
  u64 mask = w.mask();
  f32 in[3][lanes];
  for (int k = 0; k < 3; k++) {
    const auto read = [&](const auto &source) { std::copy_n(source.p, lanes, in[k]); };
    if (op.select_hi >> k & 1)
      read(Source<f16>(w, op, k + 1, mask));
    else
      read(Source<f32>(w, op, k + 1, mask));
  }
  R out[lanes];
  for (int i = 0; i < lanes; i++) out[i] = std::fma(in[0][i], in[1][i], in[2][i]);
  Op half = op;
  half.part[0] = to, half.rest = Rest::keep;
  write(w, half, out, mask);
}
void pk_mov(Wave &w,
            const Op &op) { // the low result is of the first source, the high one of the second
  const u64 mask = w.mask();
  u32 out[2][lanes];
  for (int k = 0; k < 2; k++) {
    const Operand &o = op.operand[k + 1];
    const int which = op.select >> k & 1;
    for (int i = 0; i < lanes; i++)
      out[k][i] = o.kind == Operand::vector   ? w.vector(o, which)[i]
                  : o.kind == Operand::scalar ? w.s[o.reg + which]
                                              : u32(constant<f32>(o));
  }
  each_lane(mask, [&](int i) {
    for (int k = 0; k < 2; k++) w.vector(op.operand[0], k)[i] = out[k][i];
  });
}

// Matrices of n x n, a block of the wave: D = A B + C. A lane holds `each` neighbours along k of a
// row of A and of a column of B, and of D four rows below each other of a column at a time. Lanes
// that are off take part.
struct bf16 {
  u16 bits;
  operator float() const { return std::bit_cast<float>(u32(bits) << 16); }
};
struct f8 { // E4M3 of OCP
  u8 bits;
  operator float() const {
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    const float size = (bits & 127) == 127 ? NAN
                       : exponent          ? std::ldexp(float(8 + fraction), exponent - 10)
                                           : std::ldexp(float(fraction), -9);
    return bits & 128 ? -size : size;
  }
};
template <class T, int n, int each> void mfma(Wave &w, const Op &op) {
  constexpr int groups = lanes / n, rows = n * n / lanes;
  float a[n][groups * each], b[n][groups * each], d[rows][lanes];
  const auto read = [&](const Operand &o, float(&to)[n][groups * each]) {
    for (int i = 0; i < lanes; i++)
      for (int e = 0; e < each; e++) {
        const u32 bits = w.vector(o, e * int(sizeof(T)) / 4)[i];
        to[i % n][i / n * each + e] = from_bits<T>(bits >> (8 * sizeof(T) * u32(e)) % 32);
      }
  };
  read(op.operand[1], a), read(op.operand[2], b);
  const Operand &c = op.operand[3];
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < lanes; i++) {
      const int row = r / 4 * 4 * groups + i / n * 4 + r % 4;
      float sum = c.kind == Operand::vector ? from_bits<f32>(w.vector(c, r)[i]) : scalar<f32>(w, c);
      for (int k = 0; k < groups * each; k++) sum = std::fma(a[row][k], b[i % n][k], sum);
      d[r][i] = sum;
    }
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < lanes; i++) w.vector(op.operand[0], r)[i] = std::bit_cast<u32>(d[r][i]);
}

const uint8_t *code_at(u64 address) {
  return reinterpret_cast<const uint8_t *>(address);
}
u64 pc_of(const Wave &w) {
  return reinterpret_cast<u64>(w.pc);
}

} // namespace

const std::unordered_map<std::string_view, Run> &meanings() {
#define LAMBDA(r, args, ...) [] args -> r { return __VA_ARGS__; }
#define VECTOR(name, r, args, ...)                                                                 \
  {#name, [] {                                                                                     \
     auto f = LAMBDA(r, args, __VA_ARGS__);                                                        \
     return vector_op(f, &decltype(f)::operator());                                                \
   }()},
#define EXACT(name, r, args, ...)                                                                  \
  {#name, [] {                                                                                     \
     auto f = LAMBDA(Exact<r>, args, {__VA_ARGS__});                                               \
     return vector_op(f, &decltype(f)::operator());                                                \
   }()},
#define CARRY(name, args, ...)                                                                     \
  {#name, [] {                                                                                     \
     auto f = [] args -> Exact<u32> { return {__VA_ARGS__}; };                                     \
     return carry_op(f, &decltype(f)::operator());                                                 \
   }()},
#define COMPARE(name, args, ...)                                                                   \
  {"v_cmp_" name,                                                                                  \
   [] {                                                                                            \
     auto f = LAMBDA(bool, args, __VA_ARGS__);                                                     \
     return compare_op<false>(f, &decltype(f)::operator());                                        \
   }()},                                                                                           \
      {"v_cmpx_" name, [] {                                                                        \
         auto f = LAMBDA(bool, args, __VA_ARGS__);                                                 \
         return compare_op<true>(f, &decltype(f)::operator());                                     \
       }()},
#define PACKED(name, r, args, ...)                                                                 \
  {#name, [] {                                                                                     \
     auto f = LAMBDA(r, args, __VA_ARGS__);                                                        \
     return packed_op(f, &decltype(f)::operator());                                                \
   }()},
#define PACKED_EXACT(name, r, args, ...)                                                           \
  {#name, [] {                                                                                     \
     auto f = LAMBDA(Exact<r>, args, {__VA_ARGS__});                                               \
     return packed_op(f, &decltype(f)::operator());                                                \
   }()},
#define SCALAR(name, r, args, set, ...)                                                            \
  {#name, [] {                                                                                     \
     auto f = [] SCC_ARGS args -> r {                                                              \
       const r d = __VA_ARGS__;                                                                    \
       scc = set;                                                                                  \
       return d;                                                                                   \
     };                                                                                            \
     return scalar_op(f, &decltype(f)::operator());                                                \
   }()},
#define SCC_ARGS(...) (bool &scc __VA_OPT__(, ) __VA_ARGS__)
#define SCALAR_COMPARE(name, args, ...)                                                            \
  {#name, [] {                                                                                     \
     auto f = LAMBDA(bool, args, __VA_ARGS__);                                                     \
     return scalar_compare(f, &decltype(f)::operator());                                           \
   }()},
#define SAVEEXEC(name, ...) {#name, saveexec([](u64 s, u64 exec) -> u64 { return __VA_ARGS__; })},
#define BRANCH(name, ...)                                                                          \
  {#name, branch([](Wave &w) -> bool {                                                             \
     (void)w;                                                                                      \
     return __VA_ARGS__;                                                                           \
   })},
#define OTHER(name, ...)                                                                           \
  {#name, [](Wave &w, const Op &op) {                                                              \
     (void)w, (void)op;                                                                            \
     __VA_ARGS__;                                                                                  \
   }},
#define RUN(name, ...) {#name, __VA_ARGS__},
  static const auto &table = *[] {
    auto *table = new std::unordered_map<std::string_view, Run>{
#include "isa.def"
    };
    table->insert(accesses().begin(), accesses().end());
    return table;
  }();
  return table;
}

} // namespace amdgpu

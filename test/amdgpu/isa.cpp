// SPDX-License-Identifier: MIT
// How instructions of each form run. What each of them computes is one line of isa.def.
#include "decode.hpp"
#include "memory.hpp"
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace amdgpu {
namespace {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using f32 = float;
using f64 = double;

float half_to_float(u16 h) {
  const u32 sign = u32(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  return std::copysign(float(fraction) * 0x1p-24f, sign ? -1.0f : 1.0f);
}
u16 float_to_half(float f) { // to nearest, ties to even
  const u32 bits = std::bit_cast<u32>(f), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return u16(sign | 0x7e00 | (rest >> 13 & 1023));
  if (rest >= 0x477ff000) return u16(sign | 0x7c00);
  if (rest < 0x38800000)
    return u16(sign | u32(std::nearbyint(std::bit_cast<float>(rest) * 0x1p24f)));
  return u16(sign | ((rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13));
}
struct f16 {
  u16 bits;
  f16() = default;
  f16(float f) : bits(float_to_half(f)) {}
  operator float() const { return half_to_float(bits); }
};

template <class T>
inline constexpr bool is_float = std::is_same_v<T, f16> || std::is_floating_point_v<T>;
template <class T> T from_bits(u64 bits) {
  T value;
  if constexpr (sizeof(T) == 8) {
    value = std::bit_cast<T>(bits);
  } else {
    memcpy(&value, &bits, sizeof value);
  }
  return value;
}
template <class T> u64 to_bits(T value) {
  u64 bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T> T modified(const Operand &o, T value) {
  if constexpr (std::is_same_v<T, f16>) {
    if (o.abs) value.bits &= 0x7fff;
    if (o.neg) value.bits ^= 0x8000;
  } else if constexpr (is_float<T>) {
    if (o.abs) value = std::fabs(value);
    if (o.neg) value = -value;
  }
  return value;
}

// The bits of a constant depend on who reads them: 1.0 is a float, a double or a half.
template <class T> u64 constant(const Operand &o) {
  if (o.decimal) {
    if constexpr (sizeof(T) == 8) return std::bit_cast<u64>(o.number);
    if constexpr (sizeof(T) == 2) return float_to_half(float(o.number));
    return std::bit_cast<u32>(float(o.number));
  }
  return std::is_same_v<T, double> && o.literal ? o.bits << 32 : o.bits;
}

// Of scalars, the same for all lanes.
template <class T> T scalar(Wave &w, const Operand &o) {
  u64 bits = 0;
  switch (o.kind) {
  case Operand::scalar:
    bits = sizeof(T) == 8 ? w.pair(o.reg) : w.s[o.reg];
    break;
  case Operand::constant:
    bits = constant<T>(o);
    break;
  case Operand::scc:
    bits = w.scc;
    break;
  case Operand::vccz:
    bits = !w.pair(Wave::vcc);
    break;
  case Operand::execz:
    bits = !w.mask();
    break;
  default:
    stop(&w, "a vector register where a scalar belongs");
  }
  return modified(o, from_bits<T>(bits));
}
template <class T> void set_scalar(Wave &w, const Operand &o, T value) {
  if (o.kind != Operand::scalar) stop(&w, "not a scalar register");
  if constexpr (sizeof(T) == 8) {
    w.set_pair(o.reg, to_bits(value));
  } else {
    w.s[o.reg] = u32(to_bits(value));
  }
}

u32 part_of(u32 bits, Part part, bool sign) {
  const int at = int(part);
  if (part == Part::all) return bits;
  if (part < Part::word0)
    return sign ? u32(i32(i8(bits >> 8 * (at - 1)))) : bits >> 8 * (at - 1) & 255;
  return sign ? u32(i32(i16(bits >> 16 * (at - 5)))) : bits >> 16 * (at - 5) & 0xffff;
}

// The lanes whose destination DPP allows, and for each the lane that it reads, or -1.
u64 dpp(const Op &op, i8 (&from)[lanes]) {
  u64 allowed = 0;
  for (int i = 0; i < lanes; i++) {
    const int row = i & ~15, in = i & 15, by = op.move_by;
    int f = i;
    switch (op.move) {
    case Move::quad:
      f = (i & ~3) | (by >> 2 * (i & 3) & 3);
      break;
    case Move::row_shl:
      f = in + by < 16 ? i + by : -1;
      break;
    case Move::row_shr:
      f = in >= by ? i - by : -1;
      break;
    case Move::row_ror:
      f = row | ((in - by) & 15);
      break;
    case Move::wave_shl:
      f = i < 63 ? i + 1 : -1;
      break;
    case Move::wave_rol:
      f = (i + 1) & 63;
      break;
    case Move::wave_shr:
      f = i ? i - 1 : -1;
      break;
    case Move::wave_ror:
      f = (i - 1) & 63;
      break;
    case Move::mirror:
      f = row | (15 - in);
      break;
    case Move::half_mirror:
      f = (i & ~7) | (7 - (i & 7));
      break;
    case Move::bcast15:
      f = row ? row - 1 : -1;
      break;
    case Move::bcast31:
      f = i >= 32 ? 31 : -1;
      break;
    case Move::newbcast:
      f = row | by;
      break;
    case Move::none:
      break;
    }
    from[i] = i8(f);
    if (op.rows >> (i >> 4) & 1 && op.banks >> (in >> 2) & 1 && (f >= 0 || op.bound_zero))
      allowed |= u64(1) << i;
  }
  return allowed;
}

// What an instruction reads of operand k, a value for each lane.
template <class T> struct Source {
  T room[lanes];
  const T *p;

  Source(Wave &w, const Op &op, int k, u64 &mask) : p(room) {
    const Operand &o = op.operand[k];
    if (o.kind != Operand::vector) {
      T value = scalar<T>(w, o);
      if (op.part[std::min(k, 3)] != Part::all)
        value = from_bits<T>(part_of(u32(to_bits(value)), op.part[std::min(k, 3)], o.sext));
      std::fill_n(room, lanes, value);
      return;
    }
    const u32 *low = w.vector(o);
    const bool moved = op.move != Move::none && k == 1;
    const Part part = op.part[std::min(k, 3)];
    if constexpr (sizeof(T) == 8) {
      const u32 *high = low + lanes;
      for (int i = 0; i < lanes; i++) room[i] = from_bits<T>(low[i] | u64(high[i]) << 32);
    } else if constexpr (sizeof(T) == 4) {
      if (part == Part::all && !o.neg && !o.abs && !moved && !o.sext) {
        p = reinterpret_cast<const T *>(low);
        return;
      }
      for (int i = 0; i < lanes; i++) room[i] = from_bits<T>(part_of(low[i], part, o.sext));
    } else {
      const int shift = op.select >> (k - 1) & 1 ? 16 : 0;
      for (int i = 0; i < lanes; i++)
        room[i] = from_bits<T>(part_of(low[i], part, o.sext) >> shift);
    }
    if (o.neg || o.abs)
      for (T &value : room) value = modified(o, value);
    if (moved) {
      i8 from[lanes];
      const u64 before = mask, allowed = dpp(op, from);
      T copy[lanes];
      std::copy_n(room, lanes, copy);
      for (int i = 0; i < lanes; i++) {
        const bool there =
            from[i] >= 0 && before >> from[i] & 1; // a lane that is off counts as outside
        room[i] = there ? copy[from[i]] : from_bits<T>(0);
        if (!there && !op.bound_zero) mask &= ~(u64(1) << i);
      }
      mask &= allowed;
    }
  }
};

template <class T> T finished(const Op &op, T value) {
  if constexpr (is_float<T>) {
    float factor = op.omod == 1 ? 2.0f : op.omod == 2 ? 4.0f : op.omod == 3 ? 0.5f : 1.0f;
    if (op.omod) value = T(value * factor);
    if (op.clamp) value = value > T(0.0f) ? (value < T(1.0f) ? value : T(1.0f)) : T(0.0f);
  }
  return value;
}

template <class T> void write(Wave &w, const Op &op, const T *value, u64 mask) {
  const Operand &o = op.operand[0];
  if (o.kind != Operand::vector) stop(&w, "not a vector register");
  u32 *low = w.vector(o);
  if (op.clamp || op.omod) {
    if constexpr (is_float<T>) {
      T done[lanes];
      for (int i = 0; i < lanes; i++) done[i] = finished(op, value[i]);
      Op plain = op;
      plain.clamp = false, plain.omod = 0;
      return write(w, plain, done, mask);
    }
    stop(&w, "clamp of integers");
  }
  if constexpr (sizeof(T) == 8) {
    u32 *high = low + lanes;
    for (int i = 0; i < lanes; i++)
      if (mask >> i & 1) low[i] = u32(to_bits(value[i])), high[i] = u32(to_bits(value[i]) >> 32);
  } else if (op.part[0] != Part::all) {
    const bool byte = op.part[0] < Part::word0;
    const int shift = byte ? 8 * (int(op.part[0]) - 1) : 16 * (int(op.part[0]) - 5);
    const u32 field = (byte ? 255u : 0xffffu) << shift;
    for (int i = 0; i < lanes; i++) {
      if (!(mask >> i & 1)) continue;
      const u32 bits = u32(to_bits(value[i])) << shift & field;
      const bool negative = bits >> (shift + (byte ? 7 : 15)) & 1;
      const u32 above = ~(field | ((1u << shift) - 1));
      low[i] = op.rest == Rest::keep               ? (low[i] & ~field) | bits
               : op.rest == Rest::sign && negative ? bits | above
                                                   : bits;
    }
  } else if (sizeof(T) == 2 && op.operands > 1 && op.select & 8) { // op_sel of the destination
    for (int i = 0; i < lanes; i++)
      if (mask >> i & 1) low[i] = (low[i] & 0xffff) | u32(to_bits(value[i])) << 16;
  } else if (mask == ~u64(0)) {
    for (int i = 0; i < lanes; i++) low[i] = u32(to_bits(value[i])); // 16 bits clear the rest
  } else {
    for (int i = 0; i < lanes; i++)
      if (mask >> i & 1) low[i] = u32(to_bits(value[i]));
  }
}

// A vector instruction: f of each lane's sources.
template <class R, class... A, class F> constexpr Run vector_of(F) {
  return [](Wave &w, const Op &op) {
    u64 mask = w.mask();
    R out[lanes];
    [&]<size_t... k>(std::index_sequence<k...>) {
      const auto run = [&](const Source<A> &...source) {
        for (int i = 0; i < lanes; i++) out[i] = F{}(source.p[i]...);
      };
      run(Source<A>(w, op, int(k) + 1, mask)...);
    }
    (std::index_sequence_for<A...>{});
    write(w, op, out, mask);
  };
}
template <class F, class C, class R, class... A>
constexpr Run vector_op(F f, R (C::*)(A...) const) {
  return vector_of<R, A...>(f);
}

// With a carry: the second operand gets a bit of each lane, and the last one, where there is one, gives it.
template <class F, class C, class... A>
constexpr Run carry_op(F, u32 (C::*)(bool, bool &, A...) const) {
  return [](Wave &w, const Op &op) {
    u64 mask = w.mask(), carries = 0;
    const u64 in = op.operands > 4 ? scalar<u64>(w, op.operand[4]) : 0;
    u32 out[lanes];
    Op moved = op; // the sources begin one later
    moved.part[3] = Part::all;
    for (int k = 1; k < 4; k++) moved.operand[k] = op.operand[k + 1];
    const auto run = [&](const Source<A> &...source) {
      for (int i = 0; i < lanes; i++) {
        bool carry = false;
        out[i] = F{}(in >> i & 1, carry, source.p[i]...);
        carries |= u64(carry && mask >> i & 1) << i;
      }
    };
    [&]<size_t... k>(std::index_sequence<k...>) {
      run(Source<A>(w, moved, int(k) + 1, mask)...);
    }
    (std::index_sequence_for<A...>{});
    moved.clamp = false;
    if (op.clamp) stop(&w, "clamp of integers");
    write(w, moved, out, mask);
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
template <class F, class C, class T, class... A> constexpr Run packed_op(F, T (C::*)(A...) const) {
  return [](Wave &w, const Op &op) {
    constexpr int n = int(sizeof...(A));
    const auto value = [&](int k, int half, int lane) -> T {
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
      return from_bits<T>(bits);
    };
    u32 out[2][lanes];
    for (int half = 0; half < 2; half++)
      for (int i = 0; i < lanes; i++) [&]<size_t... k>(std::index_sequence<k...>) {
          out[half][i] = u32(to_bits(finished(op, F{}(value(int(k), half, i)...))));
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

// Memory.

// Address operands begin at operand `at`: one vector, or with a scalar base a vector of offsets.
template <Space space> u64 address_of(Wave &w, const Op &op, int at, int base, int lane) {
  const Operand &o = op.operand[at];
  if constexpr (space == Space::lds) {
    return w.vector(o)[lane];
  } else if constexpr (space == Space::scratch) {
    u64 address = u64(i64(op.offset));
    if (o.kind == Operand::vector) address += w.vector(o)[lane];
    if (base < op.operands && op.operand[base].kind == Operand::scalar)
      address += w.s[op.operand[base].reg];
    return u32(address);
  } else {
    if (space == Space::global && base < op.operands && op.operand[base].kind == Operand::scalar)
      return w.pair(op.operand[base].reg) + w.vector(o)[lane] + u64(i64(op.offset));
    return (w.vector(o)[lane] | u64(w.vector(o, 1)[lane]) << 32) + u64(i64(op.offset));
  }
}
template <class F> void each_lane(u64 mask, F f) {
  for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

// Of registers of 4 bytes, or a smaller T that is extended.
template <Space space, class T, int count> void vector_load(Wave &w, const Op &op) {
  each_lane(w.mask(), [&](int i) {
    u64 address = address_of<space>(w, op, 1, 2, i);
    if (space == Space::lds) address += u64(op.offset);
    if constexpr (sizeof(T) < 4) {
      T value;
      load<sizeof(T)>(w, space, address, i, &value);
      w.vector(op.operand[0])[i] = std::is_signed_v<T> ? u32(i32(value)) : u32(value);
    } else {
      u32 value[count];
      load<4 * count>(w, space, address, i, value);
      for (int k = 0; k < count; k++) w.vector(op.operand[0], k)[i] = value[k];
    }
  });
}
template <Space space, class T, int count, int shift = 0> void vector_store(Wave &w, const Op &op) {
  each_lane(w.mask(), [&](int i) {
    u64 address = address_of<space>(w, op, 0, 2, i);
    if (space == Space::lds) address += u64(op.offset);
    u32 value[count];
    for (int k = 0; k < count; k++) value[k] = w.vector(op.operand[1], k)[i];
    value[0] >>= shift;
    store<sizeof(T) < 4 ? sizeof(T) : 4 * count>(w, space, address, i, value);
  });
}
// Into the lower or the upper half, which leaves the other.
template <Space space, class T, bool high> void half_load(Wave &w, const Op &op) {
  each_lane(w.mask(), [&](int i) {
    u64 address = address_of<space>(w, op, 1, 2, i);
    if (space == Space::lds) address += u64(op.offset);
    T value;
    load<sizeof(T)>(w, space, address, i, &value);
    const u32 bits = u16(std::is_signed_v<T> ? u32(i32(value)) : u32(value));
    u32 &to = w.vector(op.operand[0])[i];
    to = high ? (to & 0xffff) | bits << 16 : (to & 0xffff0000) | bits;
  });
}

// Two at once, each at its offset in units of itself.
template <int count, int stride> void lds_load2(Wave &w, const Op &op) {
  each_lane(w.mask(), [&](int i) {
    u32 value[2 * count];
    const u64 address = address_of<Space::lds>(w, op, 1, 2, i);
    load<4 * count>(w, Space::lds, address + u64(op.offset) * 4 * count * stride, i, value);
    load<4 * count>(w, Space::lds, address + u64(op.offset1) * 4 * count * stride, i,
                    value + count);
    for (int k = 0; k < 2 * count; k++) w.vector(op.operand[0], k)[i] = value[k];
  });
}
template <int count, int stride> void lds_store2(Wave &w, const Op &op) {
  each_lane(w.mask(), [&](int i) {
    const u64 address = address_of<Space::lds>(w, op, 0, 3, i);
    for (int half = 0; half < 2; half++) {
      u32 value[count];
      for (int k = 0; k < count; k++) value[k] = w.vector(op.operand[1 + half], k)[i];
      store<4 * count>(w, Space::lds,
                       address + u64(half ? op.offset1 : op.offset) * 4 * count * stride, i, value);
    }
  });
}

template <class T> T vector_value(Wave &w, const Operand &o, int at, int lane) {
  u64 bits = w.vector(o, at)[lane];
  if constexpr (sizeof(T) == 8) bits |= u64(w.vector(o, at + 1)[lane]) << 32;
  return from_bits<T>(bits);
}
template <class T> void set_vector_value(Wave &w, const Operand &o, int lane, T value) {
  w.vector(o)[lane] = u32(to_bits(value));
  if constexpr (sizeof(T) == 8) w.vector(o, 1)[lane] = u32(to_bits(value) >> 32);
}
// With glc the old value goes to operand 0, and the others come after it.
template <Space space, class T, bool compare, class F> void atomic(Wave &w, const Op &op) {
  const int at = op.returns ? 1 : 0;
  each_lane(w.mask(), [&](int i) {
    const u64 address = address_of<space>(w, op, at, at + 2, i);
    const T value = vector_value<T>(w, op.operand[at + 1], 0, i);
    const T cond = compare ? vector_value<T>(w, op.operand[at + 1], sizeof(T) / 4, i) : T();
    const T old = exchange<T>(w, space, address, i, [&](T seen) { return F{}(seen, value, cond); });
    if (op.returns) set_vector_value(w, op.operand[0], i, old);
  });
}
template <Space space, class T, class F, class C, class... A>
constexpr Run atomic_op(F, T (C::*)(T, T, A...) const) {
  struct Call {
    T operator()(T seen, T value, T cond) const {
      if constexpr (sizeof...(A) == 1)
        return F{}(seen, value, cond);
      else
        return F{}(seen, value);
    }
  };
  return atomic<space, T, sizeof...(A) == 1, Call>;
}
// Of LDS, by name with or without the old value; an exchange under a condition has two data operands.
template <bool returns, class T, class F, class C, class... A>
constexpr Run lds_op(F, T (C::*)(T, A...) const) {
  return [](Wave &w, const Op &op) {
    constexpr int at = returns ? 1 : 0;
    each_lane(w.mask(), [&](int i) {
      [&]<size_t... k>(std::index_sequence<k...>) {
        const T old = exchange<T>(
            w, Space::lds, w.vector(op.operand[at])[i] + u64(op.offset), i, [&](T seen) {
              return F{}(seen, vector_value<A>(w, op.operand[at + 1 + int(k)], 0, i)...);
            });
        if (returns) set_vector_value(w, op.operand[0], i, old);
      }
      (std::index_sequence_for<A...>{});
    });
  };
}

template <int count> void scalar_load(Wave &w, const Op &op) {
  const Operand &more = op.operand[2];
  const u64 address = w.pair(op.operand[1].reg) + u64(i64(op.offset)) +
                      (more.kind == Operand::scalar ? w.s[more.reg] : u64(i64(i32(more.bits))));
  u32 value[count];
  load<4 * count>(w, Space::global, address & ~u64(3), 0, value);
  memcpy(w.s + op.operand[0].reg, value, sizeof value);
}

// A stack, as gfx90a reaches it: through the buffer that Machine::make describes, with a stack
// pointer that counts for all lanes together.
u64 stack_offset(Wave &w, const Op &op) {
  const Operand &buffer = op.operand[2], &more = op.operand[3];
  if (!(w.s[buffer.reg + 1] >> 31)) stop(&w, "a buffer that is no stack");
  return u64(scalar<u32>(w, more)) / lanes + u64(i64(op.offset));
}
template <class T, int count> void buffer_load(Wave &w, const Op &op) {
  const u64 at = stack_offset(w, op);
  each_lane(w.mask(), [&](int i) {
    u32 value[count] = {};
    const u64 offset = at + (op.offen ? w.vector(op.operand[1])[i] : 0);
    load<sizeof(T) < 4 ? sizeof(T) : 4 * count>(w, Space::scratch, offset, i, value);
    if constexpr (sizeof(T) < 4 && std::is_signed_v<T>) value[0] = u32(i32(T(value[0])));
    for (int k = 0; k < count; k++) w.vector(op.operand[0], k)[i] = value[k];
  });
}
template <class T, int count, int shift = 0> void buffer_store(Wave &w, const Op &op) {
  const u64 at = stack_offset(w, op);
  each_lane(w.mask(), [&](int i) {
    u32 value[count];
    for (int k = 0; k < count; k++) value[k] = w.vector(op.operand[0], k)[i];
    value[0] >>= shift;
    const u64 offset = at + (op.offen ? w.vector(op.operand[1])[i] : 0);
    store<sizeof(T) < 4 ? sizeof(T) : 4 * count>(w, Space::scratch, offset, i, value);
  });
}

// Division, by the words of the ISA manual: scaling where a quotient or reciprocal would leave the range.
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
  if (small_inverse && small_quotient) {
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
  if (std::isnan(c)) return c;
  if (std::isnan(b)) return b;
  if ((b == 0 && c == 0) || (std::isinf(b) && std::isinf(c)))
    return -std::numeric_limits<T>::quiet_NaN();
  if (b == 0 || std::isinf(c)) return negative ? -infinite : infinite;
  if (std::isinf(b) || c == 0) return negative ? -T(0) : T(0);
  if (Is::exponent(c) - Is::exponent(b) < Is::under) return negative ? -T(0) : T(0);
  // Of finite numbers, a quotient past the largest: the steps before have met infinity less infinity.
  // The manual does not say it; a correctly rounded division needs it.
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
  for (int i = 0; i < lanes; i++)
    carries |= u64(__builtin_add_overflow(T(T(a.p[i]) * T(b.p[i])), c.p[i], &out[i])) << i;
  write(w, moved, out, mask);
  set_scalar(w, op.operand[1], carries & mask);
}
template <bool push> void bpermute(Wave &w, const Op &op) {
  const u64 mask = w.mask();
  u32 out[lanes] = {};
  each_lane(mask, [&](int i) {
    const int other = int((w.vector(op.operand[1])[i] + u32(op.offset)) >> 2) & 63;
    if (push)
      out[other] = w.vector(op.operand[2])[i];
    else if (mask >> other & 1)
      out[i] = w.vector(op.operand[2])[other];
  });
  each_lane(mask, [&](int i) { w.vector(op.operand[0])[i] = out[i]; });
}
void pk_mov(Wave &w,
            const Op &op) { // the low result is of the first source, the high one of the second
  const u64 mask = w.mask();
  u32 out[2][lanes];
  for (int k = 0; k < 2; k++) {
    const Operand &o = op.operand[k + 1];
    const int which = (k ? op.select_hi : op.select) >> k & 1;
    for (int i = 0; i < lanes; i++)
      out[k][i] = o.kind == Operand::vector   ? w.vector(o, which)[i]
                  : o.kind == Operand::scalar ? w.s[o.reg + which]
                                              : u32(constant<f32>(o));
  }
  each_lane(mask, [&](int i) {
    for (int k = 0; k < 2; k++) w.vector(op.operand[0], k)[i] = out[k][i];
  });
}

// Matrices of n x n, a block of the wave: D = A B + C. A lane holds `each` neighbours along k of a row
// of A and of a column of B, and of D four rows below each other of a column at a time. Lanes that are
// off take part.
struct bf16 {
  u16 bits;
  operator float() const { return std::bit_cast<float>(u32(bits) << 16); }
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
#define CARRY(name, args, ...)                                                                     \
  {#name, [] {                                                                                     \
     auto f = [] args -> u32 { __VA_ARGS__; };                                                     \
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
#define LOAD_(space, name, ...) {#space "_load_" name, vector_load<Space::space, __VA_ARGS__>},
#define LOAD(name, ...)                                                                            \
  LOAD_(flat, name, __VA_ARGS__)                                                                   \
  LOAD_(global, name, __VA_ARGS__)                                                                 \
  LOAD_(scratch, name, __VA_ARGS__){"buffer_load_" name, buffer_load<__VA_ARGS__>},
#define HALF_(space, name, ...) {#space "_load_" name, half_load<Space::space, __VA_ARGS__>},
#define HALF(name, ...)                                                                            \
  HALF_(flat, name, __VA_ARGS__) HALF_(global, name, __VA_ARGS__) HALF_(scratch, name, __VA_ARGS__)
#define STORE_(space, name, ...) {#space "_store_" name, vector_store<Space::space, __VA_ARGS__>},
#define STORE(name, ...)                                                                           \
  STORE_(flat, name, __VA_ARGS__)                                                                  \
  STORE_(global, name, __VA_ARGS__)                                                                \
  STORE_(scratch, name, __VA_ARGS__){"buffer_store_" name, buffer_store<__VA_ARGS__>},
#define LDS_LOAD(name, ...) {"ds_read_" name, vector_load<Space::lds, __VA_ARGS__>},
#define LDS_STORE(name, ...) {"ds_write_" name, vector_store<Space::lds, __VA_ARGS__>},
#define ATOMIC_(space, name, t, args, ...)                                                         \
  {#space "_atomic_" name, [] {                                                                    \
     auto f = LAMBDA(t, args, __VA_ARGS__);                                                        \
     return atomic_op<Space::space, t>(f, &decltype(f)::operator());                               \
   }()},
#define ATOMIC(name, t, args, ...)                                                                 \
  ATOMIC_(flat, name, t, args, __VA_ARGS__) ATOMIC_(global, name, t, args, __VA_ARGS__)
#define LDS_ATOMIC_(name, returns, t, args, ...)                                                   \
  {name, [] {                                                                                      \
     auto f = LAMBDA(t, args, __VA_ARGS__);                                                        \
     return lds_op<returns, t>(f, &decltype(f)::operator());                                       \
   }()},
#define LDS_ATOMIC(name, back, t, args, ...)                                                       \
  LDS_ATOMIC_(name, false, t, args, __VA_ARGS__) LDS_ATOMIC_(back, true, t, args, __VA_ARGS__)
  static const auto &table = *new std::unordered_map<std::string_view, Run>{
#include "isa.def"
  };
  return table;
}

} // namespace amdgpu

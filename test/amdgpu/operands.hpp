// SPDX-License-Identifier: MIT
// Operands of instructions: the values of registers and constants, and the parts, signs and lanes
// that an operand chooses.
#pragma once
#include "decode.hpp"
#include "memory.hpp"
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace amdgpu {

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

inline float half_to_float(u16 h) {
  const u32 sign = u32(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  return std::copysign(float(fraction) * 0x1p-24f, sign ? -1.0f : 1.0f);
}
inline u16 float_to_half(float f) { // to nearest, ties to even
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

// The bits of a constant depend on the instruction: 1.0 is a float, a double or a half.
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

inline u32 part_of(u32 bits, Part part, bool sign) {
  const int at = int(part);
  if (part == Part::all) return bits;
  if (part < Part::word0)
    return sign ? u32(i32(i8(bits >> 8 * (at - 1)))) : bits >> 8 * (at - 1) & 255;
  return sign ? u32(i32(i16(bits >> 16 * (at - 5)))) : bits >> 16 * (at - 5) & 0xffff;
}

// The lanes whose destination DPP allows, and for each the lane that it reads, or -1.
inline u64 dpp(const Op &op, i8 (&from)[lanes]) {
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

// The values of operand k, one for each lane.
template <class T> struct Source {
  T room[lanes];
  const T *p;

  Source(Wave &w, const Op &op, int k, u64 &mask) : p(room) {
    const Operand &o = op.operand[k];
    if (o.kind != Operand::vector) {
      T value = scalar<T>(w, o);
      if (sizeof(T) == 2 && o.kind == Operand::scalar && op.select >> (k - 1) & 1)
        value = modified(o, from_bits<T>(w.s[o.reg] >> 16));
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

// clamped: an integer's clamp has been done.
template <class T>
void write(Wave &w, const Op &op, const T *value, u64 mask, bool clamped = false) {
  const Operand &o = op.operand[0];
  if (o.kind != Operand::vector) stop(&w, "not a vector register");
  u32 *low = w.vector(o);
  if ((op.clamp && !clamped) || op.omod) {
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

template <class F> void each_lane(u64 mask, F f) {
  for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

} // namespace amdgpu

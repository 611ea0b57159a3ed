// SPDX-License-Identifier: MIT
// How instructions that reach memory run. Each of them is one line of access.def.
#include "clock.hpp"
#include "operands.hpp"
#include "strict.hpp"

namespace amdgpu {
namespace {

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

// Of a lane whose buffer access goes nowhere, see raw_buffer.
constexpr u64 nowhere = ~u64(0);

// Runs an instruction in each lane that is on: take(lane, data) brings the registers, where(lane)
// the address, and act, which knows no more than these, does the access: now, or in the strict
// machine at some time before the wave has waited for it.
template <Space space, size_t bytes, class Take, class Where, class Does>
void each_access(Wave &w, const Op &op, Take take, Where where, Does) {
  if (w.late) [[unlikely]] {
    Request &request = w.late->open();
    each_lane(w.mask(), [&](int i) {
      take(i, request.data[i]);
      request.address[i] = where(i);
    });
    each_lane(w.mask(), [&](int i) { w.late->part(Does{}, space, i, bytes); });
    return;
  }
  if (w.timed) [[unlikely]] {
    u64 at[lanes], mask = 0;
    each_lane(w.mask(), [&](int i) { mask |= u64((at[i] = where(i)) != nowhere) << i; });
    if (mask) w.timed->access(op, space, at, mask, bytes);
  }
  each_lane(w.mask(), [&](int i) {
    u32 data[4];
    take(i, data);
    Does{}(w, op, i, where(i), data);
  });
}
inline constexpr auto nothing = [](int, u32 *) {};

// Of registers of 4 bytes, or a smaller T that is extended.
template <Space space> auto at_operand(Wave &w, const Op &op, int at, int base) {
  return [&w, &op, at, base](int i) {
    return address_of<space>(w, op, at, base, i) + (space == Space::lds ? u64(op.offset) : 0);
  };
}
template <int count> auto registers(Wave &w, const Operand &o) {
  return [&w, &o](int i, u32 *data) {
    for (int k = 0; k < count; k++) data[k] = w.vector(o, k)[i];
  };
}
template <Space space, class T, int count> void vector_load(Wave &w, const Op &op) {
  constexpr size_t bytes = sizeof(T) < 4 ? sizeof(T) : 4 * count;
  each_access<space, bytes>(w, op, nothing, at_operand<space>(w, op, 1, 2),
                            [](Wave &w, const Op &op, int i, u64 address, const u32 *) {
                              if constexpr (sizeof(T) < 4) {
                                T value;
                                load<bytes>(w, op, space, address, i, &value);
                                w.vector(op.operand[0])[i] =
                                    std::is_signed_v<T> ? u32(i32(value)) : u32(value);
                              } else {
                                u32 value[count];
                                load<bytes>(w, op, space, address, i, value);
                                for (int k = 0; k < count; k++)
                                  w.vector(op.operand[0], k)[i] = value[k];
                              }
                            });
}
template <Space space, class T, int count, int shift = 0> void vector_store(Wave &w, const Op &op) {
  constexpr size_t bytes = sizeof(T) < 4 ? sizeof(T) : 4 * count;
  each_access<space, bytes>(w, op, registers<count>(w, op.operand[1]),
                            at_operand<space>(w, op, 0, 2),
                            [](Wave &w, const Op &op, int i, u64 address, const u32 *data) {
                              u32 value[count];
                              std::copy_n(data, count, value);
                              value[0] >>= shift;
                              store<bytes>(w, op, space, address, i, value);
                            });
}
// Into the lower or the upper half, which leaves the other.
template <Space space, class T, bool high> void half_load(Wave &w, const Op &op) {
  each_access<space, sizeof(T)>(w, op, nothing, at_operand<space>(w, op, 1, 2),
                                [](Wave &w, const Op &op, int i, u64 address, const u32 *) {
                                  T value;
                                  load<sizeof(T)>(w, op, space, address, i, &value);
                                  const u32 bits =
                                      u16(std::is_signed_v<T> ? u32(i32(value)) : u32(value));
                                  u32 &to = w.vector(op.operand[0])[i];
                                  to = high ? (to & 0xffff) | bits << 16 : (to & 0xffff0000) | bits;
                                });
}

// Past the registers: lanes' 16 bytes go to LDS behind each other, from where M0 says.
void load_to_lds(Wave &w, const Op &op) {
  each_access<Space::global, 16>(
      w, op, [&w](int, u32 *data) { data[0] = w.s[Wave::m0]; },
      at_operand<Space::global>(w, op, 0, 1),
      [](Wave &w, const Op &op, int i, u64 address, const u32 *data) {
        u32 value[4];
        load<16>(w, op, Space::global, address, i, value);
        store<16>(w, op, Space::lds, data[0] + u64(i64(op.offset)) + 16 * u64(i), i, value);
      });
}
// Of each 16 lanes: four rows of 16 elements of 16 bits, of which a lane reads four, and it gets a
// column. The destination may hold the addresses.
void lds_load_turned(Wave &w, const Op &op) {
  u64 at[lanes];
  each_lane(w.mask(), [&](int i) { at[i] = at_operand<Space::lds>(w, op, 1, 2)(i); });
  each_access<Space::lds, 8>(
      w, op, nothing, [&at](int i) { return at[i]; },
      [](Wave &w, const Op &op, int i, u64 address, const u32 *) {
        u16 value[4];
        load<8>(w, op, Space::lds, address, i, value);
        const int row = i % 16 / 4;
        for (int e = 0; e < 4; e++) {
          u32 &to = w.vector(op.operand[0], row / 2)[i / 16 * 16 + i % 4 * 4 + e];
          to = row % 2 ? (to & 0xffff) | u32(value[e]) << 16 : (to & 0xffff0000) | value[e];
        }
      });
}

// Two at once, each at its offset in units of itself.
template <int count, int stride> void lds_load2(Wave &w, const Op &op) {
  constexpr u64 unit = 4 * count * stride;
  each_access<Space::lds, 8 * count>(
      w, op, nothing, [&](int i) { return address_of<Space::lds>(w, op, 1, 2, i); },
      [](Wave &w, const Op &op, int i, u64 address, const u32 *) {
        u32 value[2 * count];
        load<4 * count>(w, op, Space::lds, address + u64(op.offset) * unit, i, value);
        load<4 * count>(w, op, Space::lds, address + u64(op.offset1) * unit, i, value + count);
        for (int k = 0; k < 2 * count; k++) w.vector(op.operand[0], k)[i] = value[k];
      });
}
template <int count, int stride> void lds_store2(Wave &w, const Op &op) {
  constexpr u64 unit = 4 * count * stride;
  each_access<Space::lds, 8 * count>(
      w, op,
      [&](int i, u32 *data) {
        registers<count>(w, op.operand[1])(i, data);
        registers<count>(w, op.operand[2])(i, data + count);
      },
      [&](int i) { return address_of<Space::lds>(w, op, 0, 3, i); },
      [](Wave &w, const Op &op, int i, u64 address, const u32 *data) {
        store<4 * count>(w, op, Space::lds, address + u64(op.offset) * unit, i, data);
        store<4 * count>(w, op, Space::lds, address + u64(op.offset1) * unit, i, data + count);
      });
}

template <class T> T value_in(const u32 *data, int k) {
  T value;
  memcpy(&value, data + size_t(k) * sizeof(T) / 4, sizeof(T));
  return value;
}
template <class T> void set_vector_value(Wave &w, const Operand &o, int lane, T value) {
  w.vector(o)[lane] = u32(to_bits(value));
  if constexpr (sizeof(T) == 8) w.vector(o, 1)[lane] = u32(to_bits(value) >> 32);
}
// With glc the old value goes to operand 0, and the others come after it.
template <Space space, class T, bool compare, class F> void atomic(Wave &w, const Op &op) {
  const int at = op.returns ? 1 : 0;
  each_access<space, sizeof(T)>(
      w, op, registers<int(sizeof(T)) / 4 * (compare ? 2 : 1)>(w, op.operand[at + 1]),
      at_operand<space>(w, op, at, at + 2),
      [](Wave &w, const Op &op, int i, u64 address, const u32 *data) {
        const T value = value_in<T>(data, 0), cond = compare ? value_in<T>(data, 1) : T();
        const T old =
            exchange<T>(w, op, space, address, i, [&](T seen) { return F{}(seen, value, cond); });
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
// Of LDS, by name with or without the old value; an exchange under a condition has two data
// operands.
template <bool returns, class T, class F, class C, class... A>
constexpr Run lds_op(F, T (C::*)(T, A...) const) {
  return [](Wave &w, const Op &op) {
    constexpr int at = returns ? 1 : 0, each = int(sizeof(T)) / 4;
    each_access<Space::lds, sizeof(T)>(
        w, op,
        [&](int i, u32 *data) {
          for (int k = 0; k < int(sizeof...(A)); k++)
            registers<each>(w, op.operand[at + 1 + k])(i, data + k * each);
        },
        at_operand<Space::lds>(w, op, at, at + 3),
        [](Wave &w, const Op &op, int i, u64 address, const u32 *data) {
          [&]<size_t... k>(std::index_sequence<k...>) {
            const T old = exchange<T>(w, op, Space::lds, address, i, [&](T seen) {
              return F{}(seen, value_in<A>(data, int(k))...);
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
  if (w.timed) [[unlikely]]
    w.timed->access(op, Space::global, &address, 1, sizeof value);
  if (w.late) [[unlikely]]
    late_scalar(w, address & ~u64(3), value, sizeof value);
  else
    load<4 * count>(w, op, Space::global, address & ~u64(3), 0, value);
  memcpy(w.s + op.operand[0].reg, value, sizeof value);
}

// A buffer's bits: a stack's are swizzled, as gfx90a reaches it through the buffer that
// Machine::make describes, with a stack pointer that counts for all lanes together. Others are raw.
bool is_stack(const Wave &w, const Op &op) {
  return w.s[op.operand[2].reg + 1] >> 31;
}
u64 stack_offset(Wave &w, const Op &op) {
  return u64(scalar<u32>(w, op.operand[3])) / lanes + u64(i64(op.offset));
}
auto stack_of(Wave &w, const Op &op) {
  return [&w, &op, at = stack_offset(w, op)](int i) {
    return at + (op.offen ? w.vector(op.operand[1])[i] : 0);
  };
}
// Of an access beyond a buffer's end the hardware loads 0 and stores nothing. Triton's compiler
// gives masked lanes the offset 2^31 for that; a smaller one is taken for a fault of the program.
template <size_t bytes> auto raw_buffer(Wave &w, const Op &op) {
  const u32 *const word = w.s + op.operand[2].reg;
  if (word[1] >> 16) stop(&w, "a buffer with a stride");
  const u64 base = word[0] | u64(word[1]) << 32, step = scalar<u32>(w, op.operand[3]),
            room = word[2];
  return [&w, &op, base, step, room](int i) {
    const u64 at = u64(i64(op.offset)) + (op.offen ? w.vector(op.operand[1])[i] : 0);
    if (at >= u64(1) << 31 && at >= room) return nowhere;
    if (at + bytes > room) stop(&w, "beyond a buffer's end"); // its step does not count
    return base + step + at;
  };
}
template <Space space, class T, int count, class Where>
void load_buffer(Wave &w, const Op &op, Where where) {
  constexpr size_t bytes = sizeof(T) < 4 ? sizeof(T) : 4 * count;
  each_access<space, bytes>(w, op, nothing, where,
                            [](Wave &w, const Op &op, int i, u64 address, const u32 *) {
                              u32 value[count] = {};
                              if (address != nowhere) load<bytes>(w, op, space, address, i, value);
                              if constexpr (sizeof(T) < 4 && std::is_signed_v<T>)
                                value[0] = u32(i32(T(value[0])));
                              for (int k = 0; k < count; k++)
                                w.vector(op.operand[0], k)[i] = value[k];
                            });
}
template <class T, int count> void buffer_load(Wave &w, const Op &op) {
  if (is_stack(w, op))
    load_buffer<Space::scratch, T, count>(w, op, stack_of(w, op));
  else
    load_buffer<Space::global, T, count>(w, op, raw_buffer<sizeof(T) * size_t(count)>(w, op));
}
template <Space space, class T, int count, int shift, class Where>
void store_buffer(Wave &w, const Op &op, Where where) {
  constexpr size_t bytes = sizeof(T) < 4 ? sizeof(T) : 4 * count;
  each_access<space, bytes>(w, op, registers<count>(w, op.operand[0]), where,
                            [](Wave &w, const Op &op, int i, u64 address, const u32 *data) {
                              if (address == nowhere) return;
                              u32 value[count];
                              std::copy_n(data, count, value);
                              value[0] >>= shift;
                              store<bytes>(w, op, space, address, i, value);
                            });
}
template <class T, int count, int shift = 0> void buffer_store(Wave &w, const Op &op) {
  if (is_stack(w, op))
    store_buffer<Space::scratch, T, count, shift>(w, op, stack_of(w, op));
  else
    store_buffer<Space::global, T, count, shift>(w, op,
                                                 raw_buffer<sizeof(T) * size_t(count)>(w, op));
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

} // namespace

const std::unordered_map<std::string_view, Run> &accesses() {
#define LAMBDA(r, args, ...) [] args -> r { return __VA_ARGS__; }
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
#include "access.def"
  };
  return table;
}

} // namespace amdgpu

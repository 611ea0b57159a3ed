// SPDX-License-Identifier: MIT
// Collectives whose elements travel as fewer bits. Four lanes of a wave, a quad, have four blocks.
// Each lane has a quarter of all four: a pack of 8 elements of each. So four lanes access 64 bytes
// without a gap; a block for each lane took 26% more time at 32 MiB (round, 2 H200s, 2026-11-30).
#include "wire.hpp"
#include <hip/hip_runtime.h>

#include "channel.hpp"
#include "launch.hpp"
#include "module.hpp"

namespace shmem::wire {

namespace {

using device::Channel, device::Pack, device::Stored;
using number::float_bits, number::bits_float;

// Codes from 1 to 2 * most + 1, of so many bits: what adding 2^23 and most + 1 leaves of a number
// is the nearest integer, ties to even.
template <unsigned bits> struct Int {
  static constexpr unsigned words = bits, mask = (1u << bits) - 1;
  static constexpr float largest = float(mask / 2), zero = 0x1p23f + float(mask / 2 + 1);
  static SHMEM_D_ uint32_t encode(float v) { return float_bits(v + zero) & mask; }
  static SHMEM_D_ float decode(uint32_t code) { return bits_float(0x4b000000 | code) - zero; }
};
struct E4m3 {
  static constexpr unsigned words = 8, mask = 0xff;
  static constexpr float largest = 448;
  static SHMEM_D_ uint32_t encode(float v) { return from_float<Float8>(v).bits; }
  // No code is a NaN.
  static SHMEM_D_ float decode(uint32_t code) {
    return bits_float((code & 0x80) << 24 | (code & 0x7f) << 20) * 0x1p120f;
  }
};

template <class T, class F> struct Mover {
  static constexpr unsigned words = F::words;
  // The members whose codes are on their way at once. 16 words took a stack (nvcc 13, sm_90).
  static constexpr int members = words == 4 ? 2 : 1;
  const WireCall &call;

  // Words 4k to 4k + 3, one by one: where k was not known yet, clang 17 (Debian 13) dropped copies
  // of 16 bytes from within 16 words, and the stores of what they had copied.
  template <unsigned n> static SHMEM_D_ Pack pack_of(const uint32_t (&w)[n], unsigned k) {
    const uint32_t four[4] = {w[4 * k], w[4 * k + 1], w[4 * k + 2], w[4 * k + 3]};
    Pack v;
    __builtin_memcpy(&v, four, 16);
    return v;
  }
  template <unsigned n> static SHMEM_D_ void set_pack(uint32_t (&w)[n], unsigned k, const Pack &v) {
    uint32_t four[4];
    __builtin_memcpy(four, &v, 16);
    SHMEM_UNROLL_
    for (unsigned i = 0; i < 4; i++) w[4 * k + i] = four[i];
  }
  static SHMEM_D_ uint32_t code(const uint32_t (&w)[words], unsigned i) {
    const unsigned at = i * words, k = at / 32, shift = at % 32;
    uint32_t v = w[k] >> shift;
    if (shift + words > 32) v |= w[k + 1] << (32 - shift);
    return v & F::mask;
  }
  static SHMEM_D_ unsigned quarter() { return arch::thread().x % 4; }
  // The lane of the quad that has a block's number gets the bits of that block's largest magnitude.
  static SHMEM_D_ uint32_t largest_of(const float (&v)[block]) {
    uint32_t of[4] = {};
    SHMEM_UNROLL_
    for (unsigned i = 0; i < block; i++) {
      const uint32_t x = float_bits(v[i]) & 0x7fffffff;
      of[i / 8] = x > of[i / 8] ? x : of[i / 8];
    }
    const auto larger = [](uint32_t a, uint32_t b) { return a > b ? a : b; };
    const bool upper = quarter() & 2, odd = quarter() & 1;
    const uint32_t even_of =
                       larger(upper ? of[2] : of[0], arch::quad_xor<2>(upper ? of[0] : of[2])),
                   odd_of = larger(upper ? of[3] : of[1], arch::quad_xor<2>(upper ? of[1] : of[3]));
    return larger(odd ? odd_of : even_of, arch::quad_xor<1>(odd ? even_of : odd_of));
  }
  // The scale's bits, of the block of this lane's number. A NaN or an infinity makes the whole
  // block NaN. The scale is never so small that dividing by it overflows, and rounded up, so that
  // no code exceeds the largest.
  static SHMEM_D_ uint32_t scale_of(const float (&v)[block]) {
    const uint32_t largest = largest_of(v);
    constexpr uint32_t least = (127 - 100) << 7; // 2^-100
    const uint32_t scale = (float_bits(bits_float(largest) * (1 / F::largest)) + 0xffff) >> 16;
    return largest >= 0x7f800000 ? 0x7fc0 : scale < least ? least : scale;
  }
  // The values of the quad's four lanes, in their order.
  static SHMEM_D_ void share(float (&all)[4], float mine) {
    const uint32_t bits = float_bits(mine);
    all[0] = bits_float(arch::quad_lane<0>(bits)), all[1] = bits_float(arch::quad_lane<1>(bits));
    all[2] = bits_float(arch::quad_lane<2>(bits)), all[3] = bits_float(arch::quad_lane<3>(bits));
  }
  static SHMEM_D_ void encode(uint32_t (&w)[words], const float (&v)[block], uint32_t scale) {
    float factors[4];
    share(factors, 1 / bits_float(scale << 16));
    SHMEM_UNROLL_
    for (unsigned k = 0; k < words; k++) w[k] = 0;
    SHMEM_UNROLL_
    for (unsigned i = 0; i < block; i++) {
      const uint32_t x = F::encode(v[i] * factors[i / 8]);
      const unsigned at = i * words, k = at / 32, shift = at % 32;
      w[k] |= x << shift;
      if (shift + words > 32) w[k + 1] |= x >> (32 - shift);
    }
  }
  // A code times the scale is exact, so a compiler may fuse the operations or not.
  static SHMEM_D_ void add(float (&v)[block], const uint32_t (&w)[words], uint32_t scale) {
    float scales[4];
    share(scales, bits_float(scale << 16));
    SHMEM_UNROLL_
    for (unsigned i = 0; i < block; i++) v[i] = v[i] + F::decode(code(w, i)) * scales[i / 8];
  }

  // A tile begins with the first packs of codes of all its lanes. The second packs follow, and then
  // the half packs. So a wave accesses consecutive memory.
  static SHMEM_D_ size_t codes_at(unsigned lane) {
    return size_t(lane / tile) * (tile * words * 4);
  }
  static SHMEM_D_ void load(uint32_t (&w)[words], uint32_t &scale, const Quantized &from,
                            unsigned lane) {
    const char *const at = from.codes + codes_at(lane);
    SHMEM_UNROLL_
    for (unsigned k = 0; k < words / 4; k++)
      set_pack(w, k,
               arch::load_global(reinterpret_cast<const Pack *>(at) + k * tile + lane % tile));
    if constexpr (words % 4 == 2) {
      const uint64_t v = arch::load_global(
          reinterpret_cast<const uint64_t *>(at + (words - 2) * 4 * tile) + lane % tile);
      w[words - 2] = uint32_t(v), w[words - 1] = uint32_t(v >> 32);
    }
    scale = arch::load_global(from.scales + lane);
  }
  static SHMEM_D_ void store(const uint32_t (&w)[words], uint32_t scale, const Quantized &to,
                             unsigned lane) {
    char *const at = to.codes + codes_at(lane);
    SHMEM_UNROLL_
    for (unsigned k = 0; k < words / 4; k++)
      arch::store_remote(reinterpret_cast<Pack *>(at) + k * tile + lane % tile, pack_of(w, k));
    if constexpr (words % 4 == 2)
      arch::store_remote(reinterpret_cast<uint64_t *>(at + (words - 2) * 4 * tile) + lane % tile,
                         uint64_t(w[words - 1]) << 32 | w[words - 2]);
    arch::store_remote(to.scales + lane, uint16_t(scale));
  }
  SHMEM_D_ Quantized at_member(const Quantized &q, int member) const {
    const int pe = device::pe_of(call.team, member);
    return {device::at_peer(device::heap_row, q.codes, pe),
            device::at_peer(device::heap_row, q.scales, pe)};
  }

  // Drops the first 4 words, and appends 4: 32 elements one by one took 9 registers more of the
  // kernel than 8 at a time (nvcc 13, sm_90, 2026-11-27), and no register has an index.
  static SHMEM_D_ void turn(uint32_t (&w)[block / 2], const uint32_t (&last)[4]) {
    SHMEM_UNROLL_
    for (unsigned i = 0; i < block / 2; i++) w[i] = i + 4 < block / 2 ? w[i + 4] : last[i % 4];
  }
  // The lane's packs: p is the first one's address. From there on the vector has `left` elements,
  // which are those of other lanes, too. Packs are moved whole where all four are.
  static SHMEM_D_ bool is_whole(const char *p, unsigned left) {
    return left >= 3 * block + 8 && reinterpret_cast<uintptr_t>(p) % 16 == 0;
  }
  static SHMEM_D_ void load_elements(uint32_t (&w)[block / 2], const char *p, unsigned left) {
    if (is_whole(p, left)) {
      SHMEM_UNROLL_
      for (unsigned k = 0; k < 4; k++)
        set_pack(w, k, arch::load_global(reinterpret_cast<const Pack *>(p + k * 2 * block)));
    } else {
      SHMEM_NO_UNROLL_
      for (unsigned k = 0; k < 4; k++) {
        uint32_t some[4] = {};
        SHMEM_UNROLL_
        for (unsigned i = 0; i < 8; i++)
          if (k * block + i < left)
            some[i / 2] |=
                uint32_t(arch::load_global(reinterpret_cast<const uint16_t *>(p) + k * block + i))
                << i % 2 * 16;
        turn(w, some);
      }
    }
  }
  static SHMEM_D_ void add_elements(float (&v)[block], const uint32_t (&w)[block / 2]) {
    SHMEM_UNROLL_
    for (unsigned i = 0; i < block; i++)
      v[i] = v[i] + to_float(arch::from_bits<T>(uint16_t(w[i / 2] >> i % 2 * 16)));
  }
  static SHMEM_D_ void store_elements(char *p, unsigned left, const float (&v)[block]) {
    uint32_t w[block / 2];
    SHMEM_UNROLL_
    for (unsigned i = 0; i < block; i++) {
      const uint32_t x = arch::to_bits(from_float<T>(v[i]));
      w[i / 2] = i % 2 ? w[i / 2] | x << 16 : x;
    }
    if (is_whole(p, left)) {
      SHMEM_UNROLL_
      for (unsigned k = 0; k < 4; k++)
        arch::store_global(reinterpret_cast<Pack *>(p + k * 2 * block), pack_of(w, k));
    } else {
      SHMEM_NO_UNROLL_
      for (unsigned k = 0; k < 4; k++) {
        SHMEM_UNROLL_
        for (unsigned i = 0; i < 8; i++)
          if (k * block + i < left)
            arch::store_global(reinterpret_cast<uint16_t *>(p) + k * block + i,
                               uint16_t(w[i / 2] >> i % 2 * 16));
        turn(w, {});
      }
    }
  }

  // Adds up the elements of lane b of this member's segment, in the order of the members. The
  // member also loads the place of its own codes, and ignores it: see add_rows in moe/combine.hip.
  SHMEM_D_ void add_all(float (&v)[block], unsigned wire, unsigned b, const char *own,
                        unsigned left) const {
    SHMEM_NO_UNROLL_
    for (int first = 0; first < call.team.n; first += members) {
      uint32_t w[members][words], scale[members];
      SHMEM_UNROLL_
      for (int m = 0; m < members; m++)
        load(w[m], scale[m], call.parts,
             unsigned(first + m < call.team.n ? first + m : call.team.me) * wire + b);
      // The loop waits for the load of this member's own place, too, though nothing uses it.
      // Without that wait, each later round waits for the load, and so for all stores before it
      // (1.1 us, MI250X, by the clock, 2026-12-01).
      SHMEM_UNROLL_
      for (int m = 0; m < members; m++) arch::arrive(w[m]);
      arch::arrive(scale);
      SHMEM_UNROLL_
      for (int m = 0; m < members; m++) {
        if (first + m == call.team.me) {
          uint32_t mine[block / 2] = {};
          load_elements(mine, own, left);
          add_elements(v, mine);
        } else if (first + m < call.team.n) {
          add(v, w[m], scale[m]);
        }
      }
    }
  }

  // One code for the three phases: a kernel has the part that all share once.
  SHMEM_D_ void run(WirePhase phase, pattern::Extent tiles) const {
    const Workgroup scope;
    const WireOp op = call.op;
    // The source is this member's segment.
    const bool one = op == WireOp::gather || op == WireOp::round,
               own = phase == WirePhase::sum || (phase == quantize && one);
    const unsigned first = unsigned(tiles.from) * tile, each = unsigned(tiles.to) * tile - first,
                   width = (each + arch::wave_size - 1) / arch::wave_size * arch::wave_size,
                   all = own ? width : width * unsigned(call.team.n - 1);
    // All lanes of a wave have the same segment: its address and its member's are scalars. Its last
    // wave's second half may have no tile: it loads the first half's and stores nothing.
    for (unsigned i = scope.rank(); i < all; i += scope.size()) {
      const unsigned in = i % width, b = first + (in < each ? in : in - tile), // the segment's lane
          wire = call.tiles * tile;                                            // lanes of a segment
      // Kept in registers, the team put 4 scalars into lanes (E4M3, gfx90a).
      const device::Team &team = arch::load_anew(call.team);
      // The segment is that of the peer of this number.
      const int n = team.n, me = team.me, number = own ? n : int(arch::anew(i / width)) + 1,
                j = pattern::peer(me, number, n);
      const size_t at = size_t(j) * call.segment, from = size_t(b / 4 * 4) * block + quarter() * 8,
                   rest = call.total > at ? call.total - at : 0,
                   end = rest < call.segment ? rest : call.segment;
      const unsigned left = in >= each || from >= end ? 0
                            : end - from < 4 * block  ? unsigned(end - from)
                                                      : 4 * block;
      // All four lanes of a quad that has elements: the others' scales depend on each of them.
      const bool sends = in < each && from - quarter() * 8 < end;
      const char *const source = reinterpret_cast<const char *>(call.source + 2 * (at + from));
      float v[block] = {};
      if (phase == quantize) {
        uint32_t w[block / 2] = {};
        load_elements(w, source, left);
        add_elements(v, w);
      } else if (phase == WirePhase::sum) {
        add_all(v, wire, b, source, left);
      } else {
        uint32_t w[words], scale;
        if (op == WireOp::gather)
          load(w, scale, at_member(call.parts, j), b);
        else
          load(w, scale, call.sums, unsigned(j) * wire + b);
        add(v, w, scale);
      }
      if (phase == quantize || (phase == WirePhase::sum && op == WireOp::sum)) {
        const uint32_t scale = scale_of(v);
        uint32_t w[words];
        encode(w, v, scale);
        // A sum goes to all others; a part to its owner, which in a fcollect is this member.
        const unsigned to = one ? b : unsigned(me) * wire + b;
        if (phase == quantize) {
          if (op != WireOp::round && sends) store(w, scale, at_member(call.parts, j), to);
        } else {
          for (int p = 1; p < n; p++) {
            const Quantized there = at_member(call.sums, pattern::peer(me, p, n));
            if (sends) store(w, scale, there, to);
          }
        }
        if (phase == quantize && !one) continue;
        SHMEM_UNROLL_
        for (unsigned e = 0; e < block; e++) v[e] = 0;
        add(v, w, scale);
      }
      store_elements(reinterpret_cast<char *>(call.dest + 2 * (at + from)), left, v);
    }
  }
};

SHMEM_D_ Channel open(const WireCall &call, unsigned index) {
  return device::open("a wire on a stream", call.id, device::mapped(call.team), index, nullptr,
                      nullptr, Workgroup{});
}

// Workgroups begin with different phases, so that the links are at work all the time; unless they
// meet.
template <class T, class F> __global__ void __launch_bounds__(threads, 2) move(WireCall argument) {
  const WireCall &call = arch::argument(argument);
  const Workgroup scope;
  const unsigned index = arch::block().x, count = arch::blocks().x;
  SHMEM_NO_UNROLL_
  for (unsigned k = 0; k < phases; k++) {
    const unsigned phase = call.meets ? k : (k + index) % phases;
    Mover<T, F>{arch::load_anew(call)}.run(
        WirePhase(phase),
        pattern::part(pattern::Extent{call.from[phase], call.to[phase]}, 1, index, count));
    if (!call.meets) continue;
    // The channel is opened anew each time, because it took 20 registers from the phases.
    if (k == quantize) {
      Channel c = open(call, index);
      device::enter<Stored::by_scope>(c, scope);
      device::close(c, arch::load_anew(call.team.base), scope);
    }
    if (k == unsigned(call.op == WireOp::gather ? spread : WirePhase::sum)) {
      device::leave<Stored::by_scope>(open(call, index), scope);
      scope.sync(); // what the others have summed is there
    }
  }
}

// Calls f with the kernel.
template <class T, class F> auto with_format(shmemx_wire_format_t format, F f) {
  switch (format) {
  case SHMEMX_WIRE_INT4:
    return f(move<T, Int<4>>);
  case SHMEMX_WIRE_INT6:
    return f(move<T, Int<6>>);
  case SHMEMX_WIRE_INT8:
    return f(move<T, Int<8>>);
  default:
    return f(move<T, E4m3>);
  }
}

} // namespace

hipError_t start(const WireCall &call, shmemx_type_t type, shmemx_wire_format_t format,
                 hipStream_t stream) {
  const auto start = [&](auto *kernel) {
    return shmem::launch(kernel, dim3(call.blocks), dim3(threads), 0, stream, call);
  };
  return type == SHMEMX_F16 ? with_format<Half>(format, start)
                            : with_format<Bfloat16>(format, start);
}

hipError_t residents(int device, unsigned *blocks) {
  Residents r{threads};
  const auto look = [&](auto *kernel) { r.look(kernel); };
  for (auto f : {SHMEMX_WIRE_F8, SHMEMX_WIRE_INT8, SHMEMX_WIRE_INT6, SHMEMX_WIRE_INT4})
    with_format<Half>(f, look), with_format<Bfloat16>(f, look);
  return r.on(device, blocks);
}

} // namespace shmem::wire

// SPDX-License-Identifier: MIT
// Collectives whose elements travel as fewer bits: what the API says, checked and handed to the
// kernels.
#include "../../device/wire.hpp"
#include "../../device/kernels.hpp"
#include "../stream.hpp"
#include "heap.hpp"
#include "hip.hpp"
#include "object.hpp"
#include "teams.hpp"
#include <algorithm>
#include <cstring>

using namespace shmem;

struct shmemx_wire {
  const Team *team; // null on a PE that has no part
  shmemx_wire_shape_t shape;
  wire::Quantized parts, sums;
  void *block;              // on the symmetric heap, as large on all PEs of the world
  unsigned waiting, others; // the most workgroups of a kernel that waits for PEs, and of another
};

namespace {

using wire::WireOp;

// Up to so many bytes for each member, of all elements, the members meet in one kernel, which has
// fewer workgroups. By int8 on 2 H200s one takes 25.5 us at 8 MiB, and several take 28.7; at 32
// MiB 76.9 and 76.3; at 128 MiB 294 and 251 (2026-11-30).
constexpr size_t one_kernel_bytes = size_t(8) << 20;
// Chunks are the caller's choice: 3 took 1.03 of the time of one at 128 MiB on 2 H200s, and more at
// each smaller size (2026-11-30). The number is odd, because meetings come in pairs.
constexpr size_t most_chunks = 7;

size_t up(size_t n, size_t of) {
  return (n + of - 1) / of;
}

// Sets the addresses of the quantized data, beginning at `from`, and returns where they end. With
// `from` NULL the result is their size.
char *lay_out(shmemx_wire &w, size_t members, char *from) {
  const size_t tiles = up(w.shape.elements, wire::tile_elements);
  const auto take = [&](wire::Quantized &q) {
    const size_t n = tiles + members; // each segment may end within a tile
    q.codes = from;
    from += round_up(n * wire::tile * wire::words_of(w.shape.format) * 4, device::cache_line);
    q.scales = reinterpret_cast<uint16_t *>(from);
    from += round_up(n * wire::tile * sizeof *q.scales, device::cache_line);
  };
  take(w.parts), take(w.sums);
  return from;
}

using shmem::stream::check_range;
void check_shape(const char *fn, const shmemx_wire_shape_t *shape) {
  if (!shape) fatal("%s: shape = NULL: expected a shmemx_wire_shape_t", fn);
  const shmemx_wire_shape_t &s = *shape;
  if (s.size != sizeof s)
    fatal("%s: size = %zu: the shape has %zu bytes: begin with SHMEMX_WIRE_SHAPE_INITIALIZER", fn,
          s.size, sizeof s);
  if (s.type != SHMEMX_F16 && s.type != SHMEMX_BF16)
    fatal("%s: type = %d: not SHMEMX_F16 or SHMEMX_BF16", fn, s.type);
  int format; // which C++ takes for one of the enumeration's
  memcpy(&format, &s.format, sizeof format);
  check_range(fn, "format", format, SHMEMX_WIRE_F8, SHMEMX_WIRE_INT4);
  if (s.chunks != 0 && s.chunks != -1 &&
      (s.chunks < 0 || s.chunks % 2 == 0 || s.chunks > int(most_chunks)))
    fatal("%s: chunks = %d: not 0, 1, 3, 5, 7 or -1", fn, s.chunks);
  if (s.elements > wire::most_elements)
    fatal("%s: elements = %zu: more than %zu", fn, s.elements, wire::most_elements);
}
uint64_t digest(const shmemx_wire_shape_t &s) {
  return s.elements << 32 | uint64_t(s.type) << 16 | uint64_t(s.format) << 8 |
         uint64_t(s.chunks + 1);
}

void check_object(const char *fn, const char *arg, const void *p, size_t elements) {
  if (!elements) return;
  if (!p) fatal("%s: %s = NULL: expected %zu elements", fn, arg, elements);
  if (uintptr_t(p) % 2) fatal("%s: %s = %p: not aligned to 2 bytes", fn, arg, p);
}

// The call of n elements. Each kernel of the call has `blocks`, `from` and `to` of its own.
wire::WireCall checked(const char *fn, WireOp op, const shmemx_wire &w, void *dest,
                       const void *source, const char *arg, size_t n) {
  const Team &t = *w.team;
  const auto members = size_t(t.n);
  const size_t room = w.shape.elements / (op == WireOp::scatter ? members : 1);
  if (n > room) fatal("%s: %s = %zu: the wire has room for %zu", fn, arg, n, room);
  const size_t from = op == WireOp::scatter ? members * n : n,
               to = op == WireOp::gather ? members * n : n;
  check_object(fn, "dest", dest, to);
  check_object(fn, "source", source, from);
  // Where segment 0 is, or would be.
  const size_t before = 2 * size_t(t.me) * n;
  const bool cut = op == WireOp::scatter, joined = op == WireOp::gather, whole = op == WireOp::sum;
  const uintptr_t d = uintptr_t(dest) - (joined || whole ? 0 : before),
                  s = uintptr_t(source) - (cut || whole ? 0 : before);
  if (d != s && uintptr_t(dest) < uintptr_t(source) + 2 * from &&
      uintptr_t(source) < uintptr_t(dest) + 2 * to)
    fatal("%s: dest = %p: overlaps source = %p", fn, dest, source);

  wire::WireCall call{.team = gpu::kernel_team(t),
                      .id = unsigned(t.id),
                      .op = op,
                      .meets = false,
                      .blocks = 0,
                      .tiles = unsigned(up(n, wire::tile_elements)),
                      .from = {},
                      .to = {},
                      .segment = n,
                      .total = whole ? n : members * n,
                      .source = s,
                      .dest = d,
                      .parts = w.parts,
                      .sums = w.sums};
  if (whole) {
    call.tiles = unsigned(up(call.tiles, members));
    call.segment = call.tiles * wire::tile_elements;
  }
  return call;
}

void run(const char *fn, WireOp op, shmemx_wire_t handle, void *dest, const void *source,
         const char *arg, size_t n, shmemx_stream_t stream) {
  check_ready(fn);
  if (!handle || !handle->team)
    fatal("%s: wire = %p: this PE has no part in it", fn, static_cast<void *>(handle));
  const shmemx_wire &w = *handle;
  wire::WireCall call = checked(fn, op, w, dest, source, arg, n);
  if (!n) return;
  gpu::OnDevice on;
  const auto hip = reinterpret_cast<hipStream_t>(stream);
  const auto start = [&] {
    MUST(wire::start(call, w.shape.type, w.shape.format, hip), "%s: %zu elements", fn, n);
  };
  const auto take = [&](wire::WirePhase phase, size_t chunk, size_t chunks) {
    const pattern::Extent e = chunk < chunks
                                  ? pattern::part(call.tiles, 1, unsigned(chunk), unsigned(chunks))
                                  : pattern::Extent{0, 0};
    call.from[phase] = unsigned(e.from), call.to[phase] = unsigned(e.to);
  };
  // A workgroup has at least 4 tiles of a segment, 128 blocks.
  const auto grid = [&](unsigned tiles, unsigned most) {
    call.blocks = std::clamp(unsigned(up(tiles, 4)), 1u, most);
  };
  if (op == WireOp::round) {
    take(wire::quantize, 0, 1);
    grid(call.tiles, w.others);
    return start();
  }
  const size_t bytes = 2 * call.total, members = size_t(w.team->n);
  const bool sums = op != WireOp::gather, spreads = op != WireOp::scatter;
  if (w.shape.chunks < 0 || (w.shape.chunks == 0 && bytes <= members * one_kernel_bytes)) {
    take(wire::quantize, 0, 1);
    take(wire::sum, 0, sums);
    take(wire::spread, 0, spreads);
    call.meets = true;
    grid(call.tiles, w.waiting);
    return start();
  }
  const size_t chunks = w.shape.chunks ? size_t(w.shape.chunks) : 1;
  const size_t steps = chunks + sums + spreads;
  grid(unsigned(up(call.tiles, chunks)), w.others);
  for (size_t step = 0; step < steps; step++) {
    // Before its first chunk a phase has none: the number wraps.
    take(wire::quantize, step, chunks);
    take(wire::sum, step - 1, sums ? chunks : 0);
    take(wire::spread, step - 1 - sums, spreads ? chunks : 0);
    start();
    // Behind the last kernel, which spreads sums, no meeting is due: the next call's first kernel
    // stores parts, and no sums.
    if (step > chunks) break;
    MUST((step % 2 ? kernels::leave_on_stream : kernels::enter_on_stream)(call.team, call.id, hip),
         "%s", fn);
  }
}

} // namespace

#define EXPORT extern "C" [[gnu::visibility("default")]]

EXPORT int shmemx_wire_create(shmem_team_t team, const shmemx_wire_shape_t *shape,
                              shmemx_wire_t *handle) {
  const char *const fn = "shmemx_wire_create";
  const auto bytes = [&](shmemx_wire &made, Team &t) {
    check_shape(fn, shape);
    made.team = &stream::need_channels(fn, team), made.shape = *shape;
    check_range(fn, "members of the team", t.n, 1, wire::max_members);
    for (int i = 0; i < t.n; i++)
      if (local_of(t.pe(i)) < 0)
        fatal("%s: team: PE %d is not mapped, and members access each other's memory", fn, t.pe(i));
    gpu::check_shapes(fn, t, digest(*shape));
    return uintptr_t(lay_out(made, size_t(t.n), nullptr));
  };
  const auto [w, t, memory] = gpu::make_object<shmemx_wire>(fn, team, bytes);
  if (t) {
    lay_out(*w, size_t(t->n), memory);
    gpu::OnDevice on;
    int units;
    unsigned blocks;
    MUST(hipDeviceGetAttribute(&units, hipDeviceAttributeMultiprocessorCount, gpu::chosen), "%s",
         fn);
    MUST(wire::residents(gpu::chosen, &blocks), "%s", fn);
    // As many as a collective has, see open_tuning in heap.cpp; the same on all members.
    unsigned waiting = std::clamp(blocks / 4, 1u, unsigned(gpu::channels().count));
    exchange_value(*t, waiting, [&](int, unsigned theirs) { waiting = std::min(waiting, theirs); });
    w->waiting = waiting, w->others = 2 * unsigned(units);
  }
  *handle = w;
  return 0;
}

EXPORT void shmemx_wire_destroy(shmemx_wire_t wire) {
  if (!wire) return;
  api::free("shmemx_wire_destroy", wire->block);
  delete wire;
}

EXPORT void shmemx_wire_sum_reduce_on_stream(shmemx_wire_t wire, void *dest, const void *source,
                                             size_t nreduce, shmemx_stream_t stream) {
  run("shmemx_wire_sum_reduce_on_stream", WireOp::sum, wire, dest, source, "nreduce", nreduce,
      stream);
}
EXPORT void shmemx_wire_sum_reduce_scatter_on_stream(shmemx_wire_t wire, void *dest,
                                                     const void *source, size_t nreduce,
                                                     shmemx_stream_t stream) {
  run("shmemx_wire_sum_reduce_scatter_on_stream", WireOp::scatter, wire, dest, source, "nreduce",
      nreduce, stream);
}
EXPORT void shmemx_wire_fcollect_on_stream(shmemx_wire_t wire, void *dest, const void *source,
                                           size_t nelems, shmemx_stream_t stream) {
  run("shmemx_wire_fcollect_on_stream", WireOp::gather, wire, dest, source, "nelems", nelems,
      stream);
}
EXPORT void shmemx_wire_round_on_stream(shmemx_wire_t wire, void *dest, const void *source,
                                        size_t n, shmemx_stream_t stream) {
  run("shmemx_wire_round_on_stream", WireOp::round, wire, dest, source, "n", n, stream);
}

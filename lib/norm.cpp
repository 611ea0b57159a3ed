// SPDX-License-Identifier: MIT
// An all-reduce that goes on with each row of its sums: checks the call, and gives it to the
// kernels.
#include "../device/norm.hpp"
#include "../device/kernels.hpp"
#include "gpu/hip.hpp"
#include "gpu/teams.hpp"
#include "log.hpp"
#include "stream.hpp"
#include "team.hpp"
#include "tune.hpp"
#include <algorithm>
#include <cmath>

using namespace shmem;

namespace {

// A matrix of a call, or the weight, with its name there.
struct Object {
  const char *arg;
  const void *at;
  size_t pitch, row_bytes, rows; // bytes from row to row, and of a row
  bool output;
  size_t bytes() const {
    size_t before;
    if (!rows || __builtin_mul_overflow(rows - 1, pitch, &before)) return rows ? SIZE_MAX / 2 : 0;
    return std::min(before, SIZE_MAX / 4) + row_bytes;
  }
};

// Matrices may lie in each other's gaps.
bool overlap(const Object &a, const Object &b) {
  const auto at = uintptr_t(a.at), bt = uintptr_t(b.at);
  if (!a.at || !b.at || at >= bt + b.bytes() || bt >= at + a.bytes()) return false;
  if (a.pitch != b.pitch) return true;
  const size_t behind = (at < bt ? bt - at : a.pitch - (at - bt) % a.pitch) % a.pitch;
  return behind < a.row_bytes || behind + b.row_bytes > a.pitch;
}

void check_type(const char *fn, const char *arg, shmemx_type_t type, bool good,
                const char *expected) {
  if (!good) fatal("%s: %s = %d: not %s", fn, arg, int(type), expected);
}

// Bytes of an element of the input.
size_t unit_of(const shmemx_norm_t &c) {
  return c.type == SHMEMX_F32 ? 4 : 2;
}

void check_values(const char *fn, const Team &t, const shmemx_norm_t &c) {
  if (c.size != sizeof c)
    fatal(
        "%s: size = %zu: this library's shmemx_norm_t has %zu bytes; SHMEMX_NORM_INITIALIZER sets "
        "it",
        fn, c.size, sizeof c);
  check_type(fn, "type", c.type,
             c.type == SHMEMX_F32 || c.type == SHMEMX_F16 || c.type == SHMEMX_BF16,
             "SHMEMX_F32, SHMEMX_F16 or SHMEMX_BF16");
  if (c.quantized)
    check_type(fn, "quantized_type", c.quantized_type,
               c.quantized_type == SHMEMX_F8 || c.quantized_type == SHMEMX_F8_FNUZ,
               "SHMEMX_F8 or SHMEMX_F8_FNUZ");
  if (c.group != 0 && c.group != 128) fatal("%s: group = %zu: not 0 or 128", fn, c.group);
  if (!c.quantized != !c.scales)
    fatal("%s: %s = NULL, but %s is given", fn, c.quantized ? "scales" : "quantized",
          c.quantized ? "quantized" : "scales");
  const size_t unit = unit_of(c), most = rows::most_packs * 16 / unit;
  if (c.columns * unit % 16 || c.columns > most)
    fatal("%s: columns = %zu: not a multiple of %zu up to %zu", fn, c.columns, 16 / unit, most);
  if (!(c.eps >= 0) || std::isinf(c.eps)) fatal("%s: eps = %g: not a number from 0", fn, c.eps);
  if (c.residual_scattered && !c.residual && !c.residual_out)
    fatal("%s: residual_scattered = %d, but residual and residual_out are NULL", fn,
          c.residual_scattered);
  for (int i = 0; i < t.n; i++)
    if (local_of(t.pe(i)) < 0)
      fatal("%s: team: PE %d is not mapped, and rows are loaded from all members", fn, t.pe(i));
}

rows::RowsCall checked(const char *fn, const Team &t, const shmemx_norm_t &c) {
  check_values(fn, t, c);
  const size_t unit = unit_of(c);
  const auto pitch = [&](const char *arg, size_t stride, size_t of) {
    if (stride && (stride < c.columns || stride * of % (of * 16 / unit)))
      fatal("%s: %s = %zu: not 0, nor a multiple of %zu from %zu", fn, arg, stride, 16 / unit,
            c.columns);
    return (stride ? stride : c.columns) * of;
  };
  const size_t bytes = c.columns * unit,
               scales = (c.group ? (c.columns + c.group - 1) / c.group : 1) * sizeof(float);
  const Object objects[] = {
      {"residual_out", c.residual_out, pitch("residual_out_stride", c.residual_out_stride, unit),
       bytes, c.rows, true},
      {"out", c.out, pitch("out_stride", c.out_stride, unit), bytes, c.rows, true},
      {"quantized", c.quantized, pitch("quantized_stride", c.quantized_stride, 1), c.columns,
       c.rows, true},
      {"scales", c.scales, scales, scales, c.rows, true},
      {"input", c.input, pitch("input_stride", c.input_stride, unit), bytes, c.rows, false},
      {"residual", c.residual, pitch("residual_stride", c.residual_stride, unit), bytes, c.rows,
       false},
      {"weight", c.weight, bytes, bytes, 1, false}};
  const auto &[sum, out, quantized, scale, input, residual, weight] = objects;
  const bool any = c.rows && c.columns;
  if (any && !c.input) fatal("%s: input = NULL: there is nothing to add up", fn);
  for (const Object &o : objects) {
    if (!any || !o.at) continue;
    const size_t align = &o == &scale ? alignof(float) : 16;
    if (uintptr_t(o.at) % align)
      fatal("%s: %s = %p: not a multiple of %zu bytes", fn, o.arg, o.at, align);
    const bool own = &o == &residual || &o == &weight || (&o == &sum && c.residual_scattered);
    if (!own) stream::check_member(fn, t, o.arg, o.at, o.bytes(), 1);
  }
  for (const Object &o : objects)
    for (const Object *other = &o + 1; o.output && any && other != std::end(objects); other++) {
      const bool in_place =
          &o == &sum && other == &residual && sum.at == residual.at && sum.pitch == residual.pitch;
      if (!in_place && overlap(o, *other))
        fatal("%s: %s = %p: overlaps the call's %s = %p", fn, o.arg, o.at, other->arg, other->at);
    }
  const auto matrix = [](const Object &o) {
    return rows::Matrix{static_cast<char *>(const_cast<void *>(o.at)), o.pitch};
  };
  return {.team = gpu::kernel_team(t),
          .id = unsigned(t.id),
          .algorithm = {},
          .blocks = 0,
          .columns = unsigned(c.columns),
          .group = unsigned(c.group),
          .from = 0,
          .to = 1,
          .rows = c.rows,
          .input = matrix(input),
          .residual = matrix(residual),
          .sum = matrix(sum),
          .out = matrix(out),
          .quantized = matrix(quantized),
          .scales = matrix(scale),
          .type = c.type,
          .fnuz = c.quantized_type == SHMEMX_F8_FNUZ,
          .scattered = c.residual_scattered != 0,
          .meets = true};
}

} // namespace

#define EXPORT extern "C" [[gnu::visibility("default")]]

EXPORT void shmemx_all_reduce_rows_launch(const char *fn, size_t shared_bytes, shmem_team_t team,
                                          const shmemx_norm_t *norm, shmemx_stream_t stream,
                                          rows::Launch launch, const void *finish) {
  const Team &t = stream::need_channels(fn, team);
  if (!norm) fatal("%s: norm = NULL: expected a shmemx_norm_t", fn);
  stream::check_shared(fn, shared_bytes, rows::shared_bytes);
  rows::RowsCall call = checked(fn, t, *norm);
  if (!call.rows || !call.columns) return;
  const size_t bytes = call.columns * (call.type == SHMEMX_F32 ? 4 : 2);
  const unsigned pieces = rows::pieces(unsigned(bytes / 16));
  // Only the owner of a row has its residual when that is scattered. By results the words in which
  // a row's workgroups tell each other their sums are in the lines of a channel's head.
  tune::Asked asked{.what = Collective::norm,
                    .pes = t.n,
                    .bytes = call.rows * bytes,
                    .results = pieces <= 2 * unsigned(self.n),
                    .split = call.scattered,
                    .pieces = pieces};
  tune::Choice choice = tune::choose(asked);
  // How many workgroups of a program's own finish the GPU holds is not known.
  asked.each_meets = true;
  asked.short_rows = launch == rows::norm && rows::deep(unsigned(bytes / 16)) <= rows::short_deep;
  const tune::Choice resident = tune::choose(asked);
  call.algorithm = choice.algorithm;
  const bool split = splits(call.algorithm);
  const size_t own = split ? (call.rows + size_t(t.n) - 1) / size_t(t.n) : call.rows;
  call.meets = own <= resident.blocks || choice.blocks <= device::max_channels;
  if (call.meets) choice = resident;
  call.blocks = unsigned(std::min<size_t>(choice.blocks, own));
  if (shares(call.algorithm)) { // each piece of a row has a workgroup
    const unsigned groups = (split ? choice.blocks : tune::most_lines()) / pieces;
    call.blocks = pieces * unsigned(std::min<size_t>(groups, own));
  }
  gpu::OnDevice on;
  const auto s = reinterpret_cast<hipStream_t>(stream);
  const auto start = [&](int from, int to) {
    if (from >= to) return;
    call.from = from, call.to = to;
    MUST(launch(call, s, finish), "%s: %zu rows of %u columns", fn, call.rows, call.columns);
  };
  const int turns = call.gathers() ? t.n : 1;
  if (call.meets) return start(0, turns);
  MUST(kernels::enter_on_stream(call.team, call.id, s), "%s", fn);
  start(0, 1);
  MUST(kernels::leave_on_stream(call.team, call.id, s), "%s", fn);
  start(1, turns);
}

EXPORT void shmemx_all_reduce_norm_on_stream(shmem_team_t team, const shmemx_norm_t *norm,
                                             shmemx_stream_t stream) {
  const rows::RmsNorm finish =
      norm ? rows::RmsNorm{norm->weight, norm->weight_offset, norm->eps} : rows::RmsNorm{};
  shmemx_all_reduce_rows_launch("shmemx_all_reduce_norm_on_stream", rows::shared_bytes, team, norm,
                                stream, rows::norm, &finish);
}

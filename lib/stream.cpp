// SPDX-License-Identifier: MIT
#include "stream.hpp"
#include "../device/kernels.hpp"
#include "built.h"
#include "gpu/choice.hpp"
#include "gpu/engines.hpp"
#include "gpu/heap.hpp"
#include "gpu/hip.hpp"
#include "gpu/ring.hpp"
#include "gpu/teams.hpp"
#include "memory/buffer.hpp"
#include "rma.hpp"
#include "signal.hpp"
#include "tune.hpp"
#include <algorithm>
#include <array>
#include <shmemx.h>

namespace shmem::stream {

constexpr int max_engine_members = 64;

void check_ready(const char *fn) {
  shmem::check_ready(fn);
  if (!self.device.size)
    fatal("%s: there is no symmetric heap in device memory: %s", fn, gpu::missing());
  gpu::serve_kernels();
}

namespace {

using gpu::OnDevice;

// From this size up the copy engine does a put: it takes no compute unit and reaches 395 GB/s of an
// H200's link, a kernel 370, but starts some us later (2026-11).
constexpr size_t engine_bytes = 4 << 20;

// The region of an object on the device heap or in a buffer; streams work on no other memory. Under
// SHMEM_CHECK also checks the end of its block, and its alignment. Null for 0 bytes, which may be
// anywhere.
const Region *check_object(const char *fn, const char *arg, const void *p, size_t bytes,
                           size_t align) {
  if (bytes == 0) return nullptr;
  const Region *r = gpu::region(p);
  if (!r)
    fatal("%s: %s = %p: not on the symmetric heap in device memory "
          "(shmem_malloc_with_hints, SHMEMX_MALLOC_DEVICE), nor in a buffer there",
          fn, arg, p);
  if (!r->has(p, bytes))
    fatal("%s: %s = %p: %zu bytes from there reach past the end of the %s", fn, arg, p, bytes,
          r == &self.device ? "symmetric heap" : "registered buffer");
  if (self.check) check_symmetric(fn, arg, p, bytes, align);
  return r;
}

} // namespace

void check_member(const char *fn, const Team &t, const char *arg, const void *p, size_t bytes,
                  size_t align) {
  const Region *r = check_object(fn, arg, p, bytes, align);
  const Team *has = r ? r->team : nullptr;
  for (int i = 0; has && has != &t && i < t.n; i++) buffer::check_at(fn, arg, p, *r, t.pe(i));
}

namespace {

// in_place: dest may be source.
void check_objects(const char *fn, const Team &t, const void *dest, size_t dest_bytes,
                   const void *source, size_t source_bytes, size_t align, bool in_place) {
  check_member(fn, t, "dest", dest, dest_bytes, 1);
  check_member(fn, t, "source", source, source_bytes, 1);
  if (self.check) check_arrays(fn, dest, dest_bytes, source, source_bytes, align, in_place);
}
// Null where that PE is not mapped.
template <class T>
T *there(const char *fn, const char *arg, T *p, size_t bytes, size_t align, int pe) {
  check_ready(fn);
  if (unsigned(pe) >= unsigned(self.n))
    fatal("%s: pe = %d: the program has PEs 0 to %d", fn, pe, self.n - 1);
  const Region *r = check_object(fn, arg, p, bytes, align);
  if (r) buffer::check_at(fn, arg, p, *r, pe);
  const int local = local_of(pe);
  return local < 0 ? nullptr : r ? static_cast<T *>(r->at(p, local)) : p;
}

// Runs launch(0), a kernel for a PE that is not mapped, unless `mapped` is set. The parameter keeps
// the kernels, which a build without a network does not have, out of its library.
template <class Mapped, class Launch>
bool on_remote(const Mapped &mapped, const char *fn, Launch launch) {
  if constexpr (net::built)
    if (!mapped) {
      OnDevice on;
      MUST(launch(0), "%s", fn);
      return true;
    }
  return false;
}

// Before a get from PE pe's p, and after a put there: a kernel's fences (device/address.hpp) for a
// stream, whose kernels begin and end with the caches of the one before.
void refresh(const char *fn, const void *p, int pe, Stream s) {
  if (!buffer::is_coarse(p, pe)) return;
  OnDevice on;
  MUST(kernels::refresh_on_stream(s), "%s", fn);
}

void copy(const char *fn, void *dest, const void *source, size_t bytes, Remote remote, Stream s) {
  if (bytes == 0) return;
  OnDevice on;
  if (bytes >= engine_bytes) {
    MUST(hipMemcpyAsync(dest, source, bytes, hipMemcpyDefault, s), "%s: %zu bytes", fn, bytes);
    return;
  }
  const size_t packs = (bytes + 15) / 16;
  const auto threads = unsigned(std::min<size_t>(device::full_waves(packs), device::max_threads));
  const auto blocks =
      unsigned(std::min<size_t>((packs + 4 * threads - 1) / (4 * threads), device::max_channels));
  MUST(kernels::copy_on_stream(dest, source, bytes, remote, blocks, threads, s), "%s: %zu bytes",
       fn, bytes);
}

// The part of a call that all collectives have in common.
kernels::Call call(const char *fn, shmem_team_t team, const Team **members, void *dest,
                   const void *source, size_t n, Stream s) {
  const Team *const t = *members = &need_channels(fn, team);
  kernels::Call c{};
  c.team = gpu::kernel_team(*t);
  c.id = unsigned(t->id);
  c.dest = static_cast<char *>(dest), c.source = static_cast<const char *>(source), c.n = n;
  c.stream = s;
  return c;
}
void tuned(kernels::Call *c, Collective what, size_t bytes, bool each_meets = false,
           bool oneshot = false) {
  const tune::Choice choice = tune::choose({.what = what,
                                            .pes = c->team.n,
                                            .bytes = bytes,
                                            .each_meets = each_meets || c->team.has_remote,
                                            .oneshot = oneshot});
  // The source of a member that is not mapped cannot be read; and only some channels have lines.
  const bool lines = c->team.has_remote && what <= Collective::scan;
  c->algorithm = lines ? CollectiveAlgorithm::lines : choice.algorithm;
  c->blocks = lines ? std::min(choice.blocks, unsigned(gpu::channels().with_lines)) : choice.blocks;
  c->threads = choice.threads;
}

} // namespace

const Team &need_channels(const char *fn, shmem_team_t team) {
  check_ready(fn);
  const Team *t = &need_team(fn, "team", team);
  if (t == self.shared && self.one_node()) t = self.world;
  if (t->id >= gpu::channels().teams)
    fatal("%s: team = %p: is number %d, and SHMEM_COLL_TEAMS leaves room for the collectives of %d",
          fn, static_cast<void *>(team), t->id, gpu::channels().teams);
  return *t;
}

void transfer(const char *fn, Remote remote, void *dest, const void *source, const Blocks &b,
              size_t unit, size_t align, int pe, Stream s) {
  const bool puts = remote == Remote::dest;
  const auto elements = [=](uint64_t bytes) { return ptrdiff_t(bytes) / ptrdiff_t(unit); };
  const ptrdiff_t remote_stride = elements(b.remote_stride),
                  local_stride = elements(b.local_stride);
  const size_t block = b.bytes / unit, n = block ? b.count : 0;
  check_ready(fn);
  check_strided(fn, puts ? "source" : "dest", puts ? source : dest,
                puts ? remote_stride : local_stride, puts ? local_stride : remote_stride, block, n);
  void *const own = puts ? dest : const_cast<void *>(source);
  void *const object =
      there(fn, puts ? "dest" : "source", own, extent(n, remote_stride, block) * unit, align, pe);
  if (n == 0) return;
  const bool one = n == 1 || (b.remote_stride == b.bytes && b.local_stride == b.bytes);
  const Blocks blocks = one ? one_block(n * b.bytes) : b;
  const auto op = Operation::of_transfer(puts ? Operation::put : Operation::get, own,
                                         puts ? source : dest, blocks);
  if (on_remote(object, fn, [&](auto) { return kernels::transfer_remote(op, pe, s); })) return;
  if (puts)
    dest = object;
  else
    source = object;
  if (!puts) refresh(fn, own, pe, s);
  OnDevice on;
  if (one)
    copy(fn, dest, source, blocks.bytes, remote, s);
  else
    MUST(kernels::strided_on_stream(dest, source, blocks, remote, s), "%s: %zu blocks of %zu bytes",
         fn, n, size_t(b.bytes));
  if (puts) refresh(fn, own, pe, s);
}
void store(const char *fn, void *dest, uint64_t value, size_t bytes, int pe, Stream s) {
  void *p = there(fn, "dest", dest, bytes, bytes, pe);
  const auto op = Operation::of_atomic(Amo::set, bytes, dest, value);
  if (on_remote(p, fn, [&](auto) { return kernels::atomic_remote(op, nullptr, pe, s); })) return;
  OnDevice on;
  MUST(kernels::store_on_stream(p, value, bytes, s), "%s", fn);
  refresh(fn, dest, pe, s);
}
void put_signal(const char *fn, void *dest, const void *source, size_t bytes, size_t align,
                uint64_t *sig, uint64_t value, int op, int pe, Stream s) {
  constexpr size_t one_block = 32 << 10; // a grid puts more; the stream orders the signal behind it
  void *d = there(fn, "dest", dest, bytes, align, pe);
  uint64_t *there_sig = there(fn, "sig_addr", sig, sizeof *sig, alignof(uint64_t), pe);
  check_pointer(fn, "source", source, bytes);
  if (op != SHMEM_SIGNAL_SET && op != SHMEM_SIGNAL_ADD) api::bad_signal(fn, op);
  if (on_remote(there_sig, fn, [&](auto) {
        return kernels::put_signal_remote(dest, source, bytes, sig, value, op, pe, s);
      }))
    return;
  if (op == SHMEM_SIGNAL_ADD) buffer::check_atomic(fn, "sig_addr", sig, pe);
  if (bytes > one_block) copy(fn, d, source, bytes, Remote::dest, s), bytes = 0;
  OnDevice on;
  MUST(kernels::put_signal_on_stream(d, source, bytes, there_sig, value, op, s), "%s", fn);
  refresh(fn, sig, pe, s);
}
void atomic(const char *fn, Amo amo, const void *p, size_t bytes, uint64_t value, uint64_t cond,
            void *fetch, int pe, Stream s) {
  const char *const arg = amo == Amo::fetch ? "source" : "dest";
  const void *const object = there(fn, arg, p, bytes, bytes, pe);
  Operation op = Operation::of_atomic(amo, bytes, p, value, cond);
  if (on_remote(object, fn, [&](auto) { return kernels::atomic_remote(op, fetch, pe, s); })) return;
  buffer::check_atomic(fn, arg, p, pe);
  op.offset = uintptr_t(object);
  OnDevice on;
  MUST(kernels::atomic_on_stream(op, fetch, s), "%s", fn);
}
void wait_until(const char *fn, uint64_t *sig, int cmp, uint64_t value, Stream s) {
  check_ready(fn);
  check_object(fn, "sig_addr", sig, sizeof *sig, alignof(uint64_t));
  if (unsigned(cmp) > SHMEM_CMP_GE) api::bad_cmp(fn, cmp);
  OnDevice on;
  MUST(kernels::wait_on_stream(sig, cmp, value, s), "%s", fn);
}
void quiet(const char *fn, Stream s) {
  check_ready(fn);
  if (on_remote(self.one_node(), fn, [&](auto) { return kernels::quiet_remote(s); })) return;
  OnDevice on;
  MUST(kernels::quiet_on_stream(s), "%s", fn);
}

int sync(const char *fn, shmem_team_t team, Stream s) {
  check_ready(fn);
  const Team &t = need_team(fn, "team", team);
  OnDevice on;
  MUST(kernels::sync_on_stream(&t == self.shared && self.one_node() ? 0 : unsigned(t.id), s), "%s",
       fn);
  return 0;
}

namespace {

// Whether each member has a block of its own in dest.
bool has_blocks(Collective what) {
  return what == Collective::fcollect || what == Collective::alltoall;
}

// A collective by copy engines: the members meet, copy, and meet again.
int move_by_engines(const char *fn, Collective what, const kernels::Call &c, const Team &t,
                    int root) {
  const size_t bytes = c.n;
  const Region *r = gpu::region(c.dest);
  std::array<gpu::EngineCopy, max_engine_members> copies;
  int n = 0;
  for (int k = 1; k <= t.n && bytes; k++) { // this PE is the last one
    const int i = (t.me + k) % t.n, local = local_of(t.pe(i));
    const bool blocks = has_blocks(what), own = k == t.n;
    char *const dest =
        static_cast<char *>(r->at(c.dest, local)) + (blocks ? size_t(t.me) * bytes : 0);
    const char *const source = c.source + (what == Collective::alltoall ? size_t(i) * bytes : 0);
    if ((blocks || t.me == root) && dest != source) copies[size_t(n++)] = {dest, source, own};
  }
  OnDevice on;
  MUST(kernels::enter_on_stream(c.team, c.id, c.stream), "%s", fn);
  if (n) gpu::copy_by_engines(fn, t, copies.data(), n, bytes, c.stream);
  MUST(kernels::leave_on_stream(c.team, c.id, c.stream), "%s", fn);
  return 0;
}

} // namespace

int move(const char *fn, Collective what, shmem_team_t team, void *dest, const void *source,
         size_t bytes, size_t align, int root, Stream s) {
  const Team *t;
  kernels::Call c = call(fn, team, &t, dest, source, bytes, s);
  if (what == Collective::broadcast) check_root(fn, *t, root);
  const size_t all = size_t(t->n) * bytes;
  // source of an fcollect may be this PE's block of dest.
  if (what == Collective::fcollect &&
      source == static_cast<const char *>(dest) + size_t(t->me) * bytes)
    check_objects(fn, *t, dest, all, dest, all, align, true);
  else
    check_objects(fn, *t, dest, has_blocks(what) ? all : bytes, source,
                  what == Collective::alltoall ? all : bytes, align, what == Collective::broadcast);
  if (what != Collective::collect && gpu::has_engines(*t))
    return move_by_engines(fn, what, c, *t, root);
  // Members of a collect do not know each other's sizes.
  const bool unknown = what == Collective::collect;
  tuned(&c, what, unknown ? ~size_t(0) / 2 : bytes, unknown);
  OnDevice on;
  MUST(kernels::move(what, c, root, {}), "%s: %zu bytes", fn, bytes);
  return 0;
}

int alltoalls(const char *fn, shmem_team_t team, void *dest, const void *source, ptrdiff_t dst,
              ptrdiff_t sst, size_t n, size_t unit, size_t align, Stream s) {
  const Team *t;
  kernels::Call c = call(fn, team, &t, dest, source, n, s);
  const size_t all = size_t(t->n) * n;
  check_strided(fn, "source", source, dst, sst, 1, n);
  check_objects(fn, *t, dest, extent(all, dst) * unit, source, extent(all, sst) * unit, align,
                false);
  tuned(&c, Collective::alltoalls, n * 16);
  OnDevice on;
  const Blocks elements{unit, n, uint64_t(dst) * unit, uint64_t(sst) * unit};
  MUST(kernels::move(Collective::alltoalls, c, 0, elements), "%s: %zu elements", fn, n);
  return 0;
}

int alltoallv(const char *fn, shmem_team_t team, void *dest, const void *source, const Uneven &u,
              size_t align, Stream s) {
  const Team *t;
  kernels::Call c = call(fn, team, &t, dest, source, u.unit, s);
  check_member(fn, *t, "dest", dest, check_uneven(fn, u), align);
  // The network takes blocks from memory that it knows, and learns later how long they are.
  if (c.team.has_remote) check_member(fn, *t, "source", source, 1, 1);
  tuned(&c, Collective::alltoallv, ~size_t(0) / 2, true);
  OnDevice on;
  MUST(kernels::alltoallv(c, u), "%s: %zu units", fn, u.capacity);
  return 0;
}

int alltoall2d(const char *fn, shmem_team_t team, void *dest, const void *source, const Block2d &b,
               size_t unit, size_t align, Stream s) {
  const Team *t;
  kernels::Call c = call(fn, team, &t, dest, source, b.bytes, s);
  check_block(fn, b, unit);
  const auto n = size_t(t->n);
  check_objects(fn, *t, dest, extent(n, b.dest_block, b.dest_row, b), source,
                extent(n, b.source_block, b.source_row, b), align, false);
  tuned(&c, Collective::alltoalls, b.bytes * b.rows, true);
  OnDevice on;
  MUST(kernels::alltoall2d(c, b), "%s: %zu rows of %zu bytes", fn, b.rows, b.bytes);
  return 0;
}

int reduce(const char *fn, Operator op, ElementType type, Shape shape, shmem_team_t team,
           void *dest, const void *source, size_t n, size_t unit, size_t align, Stream s) {
  const Team *t;
  kernels::Call c = call(fn, team, &t, dest, source, n, s);
  check_objects(fn, *t, dest, n * unit, source,
                (shape == Shape::scatter ? size_t(t->n) : 1) * n * unit, align,
                shape != Shape::scatter);
  const auto what = shape == Shape::all       ? Collective::reduce
                    : shape == Shape::scatter ? Collective::reduce_scatter
                                              : Collective::scan;
  // In place a member would change what the other reads. Other kernels have half as many loads on
  // the way.
  const bool oneshot = shape == Shape::all && t->n == 2 && has_kernel(op, type) &&
                       !c.team.has_remote && dest != source;
  tuned(&c, what, n * unit, false, oneshot);
  c.shape = c.algorithm == CollectiveAlgorithm::oneshot ? Shape::oneshot : shape;
  OnDevice on;
  MUST(kernels::reduce(op, type, c), "%s: %zu elements", fn, n);
  return 0;
}

} // namespace shmem::stream

extern "C" [[gnu::visibility("default")]] const char *shmemx_platform() {
  return SHMEM_GPU;
}
extern "C" [[gnu::visibility("default")]] void shmemx_stream_synchronize(shmemx_stream_t stream) {
  shmem::stream::check_ready("shmemx_stream_synchronize");
  shmem::gpu::OnDevice on;
  MUST(hipStreamSynchronize(stream), "shmemx_stream_synchronize");
}

extern "C" [[gnu::visibility("default")]] int shmemx_team_copy_engines(shmem_team_t team, int on) {
  using namespace shmem;
  const char *const fn = "shmemx_team_copy_engines";
  const Team &t = stream::need_channels(fn, team);
  if (on != 0 && on != 1) fatal("%s: on = %d: expected 0 or 1", fn, on);
  if (t.n > stream::max_engine_members)
    fatal("%s: team: %d members, and at most %d can do it by copy engines", fn, t.n,
          stream::max_engine_members);
  for (int i = 0; i < t.n; i++)
    if (local_of(t.pe(i)) < 0)
      fatal("%s: team: PE %d is not mapped, and copy engines reach mapped memory only", fn,
            t.pe(i));
  if (on)
    gpu::make_engines(t);
  else
    gpu::drop_engines(t);
  return 0;
}

// SPDX-License-Identifier: MIT
#include "stream.hpp"
#include "../device/kernels.hpp"
#include "gpu_hip.hpp"
#include "team.hpp"
#include <algorithm>

namespace shmem::stream {

namespace {

using gpu::chosen, gpu::OnDevice;

// From here up a put is the copy engine's: it takes no compute unit and reaches 395 GB/s of an
// H200's link, a kernel 370, but starts some us later (2026-11).
constexpr size_t engine_bytes = 4 << 20;

void check_ready(const char *fn) {
  if (!self.ready) fatal("%s: called before shmem_init or after shmem_finalize", fn);
  if (!self.device.size)
    fatal("%s: there is no symmetric heap in device memory: no GPU, or SHMEM_DEVICE_SIZE=0", fn);
}
// An object of the device heap, which is what streams work on.
void check_object(const char *fn, const char *arg, const void *p, size_t bytes) {
  if (bytes == 0) return;
  if (!self.device.has(p))
    fatal("%s: %s = %p: not on the symmetric heap in device memory "
          "(shmem_malloc_with_hints, SHMEMX_MALLOC_DEVICE)",
          fn, arg, p);
  if (!self.device.has(p, bytes))
    fatal("%s: %s = %p: %zu bytes from there reach past the end of the symmetric heap", fn, arg, p,
          bytes);
}
template <class T> T *there(const char *fn, const char *arg, T *p, size_t bytes, int pe) {
  check_ready(fn);
  if (unsigned(pe) >= unsigned(self.n))
    fatal("%s: pe = %d: the program has PEs 0 to %d", fn, pe, self.n - 1);
  check_object(fn, arg, p, bytes);
  return reinterpret_cast<T *>(uintptr_t(p) + uintptr_t(self.device.delta[pe]));
}

void copy(const char *fn, void *dest, const void *source, size_t bytes, Stream s) {
  if (bytes == 0) return;
  OnDevice on;
  if (bytes >= engine_bytes) {
    MUST(hipMemcpyAsync(dest, source, bytes, hipMemcpyDefault, s), "%s: %zu bytes", fn, bytes);
    return;
  }
  const size_t packs = (bytes + 15) / 16;
  const auto threads = unsigned(std::min<size_t>((packs + 63) / 64 * 64, 512));
  const auto blocks = unsigned(std::min<size_t>((packs + 4 * threads - 1) / (4 * threads), 64));
  MUST(kernels::copy_on_stream(dest, source, bytes, blocks, threads, s), "%s: %zu bytes", fn,
       bytes);
}

// The team as kernels know it. SHMEM_TEAM_SHARED is the world there, too.
kernels::Collective call(const char *fn, shmem_team_t team, const Team **members) {
  check_ready(fn);
  const Team *t = &need_team(fn, "team", team);
  if (t == self.shared) t = self.world;
  if (t->id >= gpu::work().teams)
    fatal("%s: team: is number %d, and SHMEM_COLL_TEAMS leaves room for the collectives of %d", fn,
          t->id, gpu::work().teams);
  *members = t;
  kernels::Collective c{};
  c.team = gpu::kernel_team(*t);
  c.id = unsigned(t->id);
  return c;
}
void take(kernels::Collective *c, tune::Kind kind, size_t bytes) {
  const tune::Choice choice = tune::choose(kind, c->team.n, bytes);
  c->direct = choice.direct;
  c->blocks = choice.blocks;
  c->threads = choice.threads;
}

} // namespace

void put(const char *fn, void *dest, const void *source, size_t bytes, int pe, Stream s) {
  copy(fn, there(fn, "dest", dest, bytes, pe), source, bytes, s);
}
void get(const char *fn, void *dest, const void *source, size_t bytes, int pe, Stream s) {
  copy(fn, dest, there(fn, "source", source, bytes, pe), bytes, s);
}
void store(const char *fn, void *dest, uint64_t value, size_t bytes, int pe, Stream s) {
  void *p = there(fn, "dest", dest, bytes, pe);
  OnDevice on;
  MUST(kernels::store_on_stream(p, value, bytes, s), "%s", fn);
}
void put_signal(const char *fn, void *dest, const void *source, size_t bytes, uint64_t *sig,
                uint64_t value, int op, int pe, Stream s) {
  constexpr size_t one_block = 32 << 10; // more is a grid's work, and the stream's order a signal's
  void *d = there(fn, "dest", dest, bytes, pe);
  uint64_t *there_sig = there(fn, "sig_addr", sig, sizeof *sig, pe);
  if (bytes > one_block) copy(fn, d, source, bytes, s), bytes = 0;
  OnDevice on;
  MUST(kernels::put_signal_on_stream(d, source, bytes, there_sig, value, op == SHMEM_SIGNAL_ADD, s),
       "%s", fn);
}
void atomic(const char *fn, gpu::Op op, const void *p, size_t bytes, uint64_t value, uint64_t cond,
            void *fetch, int pe, Stream s) {
  void *object =
      const_cast<void *>(there(fn, op == gpu::op_fetch ? "source" : "dest", p, bytes, pe));
  OnDevice on;
  MUST(kernels::atomic_on_stream(kernels::Atomic(op), object, bytes, value, cond, fetch, s), "%s",
       fn);
}
void wait_until(const char *fn, uint64_t *sig, int cmp, uint64_t value, Stream s) {
  check_ready(fn);
  check_object(fn, "sig_addr", sig, sizeof *sig);
  OnDevice on;
  MUST(kernels::wait_on_stream(sig, cmp, value, s), "%s", fn);
}
void quiet(const char *fn, Stream s) {
  check_ready(fn);
  OnDevice on;
  MUST(kernels::quiet_on_stream(s), "%s", fn);
}

int sync(const char *fn, shmem_team_t team, Stream s) {
  check_ready(fn);
  const Team &t = need_team(fn, "team", team);
  OnDevice on;
  MUST(kernels::sync_on_stream(&t == self.shared ? 0 : unsigned(t.id), s), "%s", fn);
  return 0;
}

int move(const char *fn, Move what, shmem_team_t team, void *dest, const void *source, size_t bytes,
         int root, Stream s) {
  const Team *t;
  kernels::Collective c = call(fn, team, &t);
  if (what == broadcast && unsigned(root) >= unsigned(t->n))
    fatal("%s: PE_root = %d: the team has PEs 0 to %d", fn, root, t->n - 1);
  const auto n = size_t(t->n);
  check_object(fn, "source", source, what == alltoall ? n * bytes : bytes);
  check_object(fn, "dest", dest, what == fcollect || what == alltoall ? n * bytes : bytes);
  constexpr tune::Kind kinds[] = {tune::Kind::broadcast, tune::Kind::collect, tune::Kind::fcollect,
                                  tune::Kind::alltoall};
  // Members of a collect do not know of each other how much they have.
  take(&c, kinds[what], what == collect ? ~size_t(0) / 2 : bytes);
  c.stream = s, c.dest = dest, c.source = source, c.n = bytes;
  OnDevice on;
  MUST(kernels::move(kernels::Move(what), c, root, {}), "%s: %zu bytes", fn, bytes);
  return 0;
}

int alltoalls(const char *fn, shmem_team_t team, void *dest, const void *source, ptrdiff_t dst,
              ptrdiff_t sst, size_t n, size_t unit, Stream s) {
  const Team *t;
  kernels::Collective c = call(fn, team, &t);
  if (dst < 1 || sst < 1) fatal("%s: dst = %td, sst = %td: strides are 1 or more", fn, dst, sst);
  const size_t all = size_t(t->n) * n;
  check_object(fn, "source", source, extent(all, sst) * unit);
  check_object(fn, "dest", dest, extent(all, dst) * unit);
  take(&c, tune::Kind::alltoalls, n * 16);
  c.stream = s, c.dest = dest, c.source = source, c.n = n;
  OnDevice on;
  MUST(kernels::move(kernels::Move::alltoalls, c, 0, {dst, sst, unit}), "%s: %zu elements", fn, n);
  return 0;
}

int reduce(const char *fn, int op, int type, Shape shape, shmem_team_t team, void *dest,
           const void *source, size_t n, size_t unit, Stream s) {
  const Team *t;
  kernels::Collective c = call(fn, team, &t);
  check_object(fn, "source", source, (shape == scatter ? size_t(t->n) : 1) * n * unit);
  check_object(fn, "dest", dest, n * unit);
  take(&c,
       shape == all       ? tune::Kind::reduce
       : shape == scatter ? tune::Kind::reduce_scatter
                          : tune::Kind::scan,
       n * unit);
  c.stream = s, c.dest = dest, c.source = source, c.n = n;
  OnDevice on;
  MUST(kernels::reduce(kernels::Combine(op), kernels::Type(type), kernels::Shape(shape), c),
       "%s: %zu elements", fn, n);
  return 0;
}

} // namespace shmem::stream

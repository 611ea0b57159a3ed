// SPDX-License-Identifier: MIT
// The model of a transfer: bytes of the whole buffers, on the host.
#include "rma.hpp"

namespace {

constexpr size_t room = 64 << 10; // of each buffer
constexpr int canary = 0xa5;

unsigned char *source, *dest; // symmetric, device
uint64_t *sig;
unsigned char *model, *seen;
shmem_ctx_t ctx; // of a team with all PEs, in an order of their own
shmem_team_t team;
uint64_t sent;

unsigned char byte_of(int pe, size_t i) {
  return static_cast<unsigned char>((size_t(pe) + 1) * 37 + i * 11 + i / 256 * 3);
}

void make_buffers() {
  if (source) return;
  source = static_cast<unsigned char *>(device_alloc(room, 0));
  dest = static_cast<unsigned char *>(device_alloc(room, 0));
  sig = static_cast<uint64_t *>(device_alloc(64, 0, true));
  model = static_cast<unsigned char *>(malloc(room));
  seen = static_cast<unsigned char *>(malloc(room));
  for (size_t i = 0; i < room; i++) model[i] = byte_of(me, i);
  to_device(source, model, room);
  int order[PE_MAX]; // downwards, but for the first two
  for (int i = 0; i < npes; i++) order[i] = npes - 1 - (i ^ (i < 2 && npes > 1));
  CHECK(shmemx_team_create(SHMEM_TEAM_WORLD, order, npes, nullptr, 0, &team) == 0, "create");
  CHECK(shmem_team_create_ctx(team, 0, &ctx) == 0, "ctx");
}

void run(Call c, size_t size, size_t d_at, size_t s_at, unsigned threads,
         void (*launch)(const Call &, unsigned)) {
  const bool get =
      c.op == op_get || c.op == op_get_nbi || c.op == op_iget || c.op == op_ibget || c.op == op_g;
  const bool strided = c.op >= op_iput && c.op <= op_ibget,
             blocks = c.op == op_ibput || c.op == op_ibget;
  const bool with_signal = c.op == op_put_signal || c.op == op_put_signal_nbi;
  // PE me works with PE to; PE from works with PE me.
  const int shift = 1 + int(sent % unsigned(npes)), to = (me + shift) % npes,
            from = (me + npes - shift % npes) % npes;
  c.pe = c.with_ctx ? shmem_team_translate_pe(SHMEM_TEAM_WORLD, to, team) : to;
  c.dest = dest + d_at;
  c.source = source + s_at;
  c.sig = sig;
  c.signal = ++sent;
  c.sig_op = sent % 2 ? SHMEM_SIGNAL_SET : SHMEM_SIGNAL_ADD;
  HIP(hipMemsetAsync(dest, canary, room, stream));
  HIP(hipMemsetAsync(sig, 0, 8, stream));
  finish_all();
  launch(c, threads);
  HIP(hipGetLastError());
  finish_all();
  memset(model, canary, room);
  const int writer = get ? to : from; // whose bytes this PE's dest has now
  const size_t block = blocks ? c.block : 1;
  const size_t dst = strided ? size_t(c.dst) : 1, sst = strided ? size_t(c.sst) : 1;
  for (size_t i = 0; i < c.n; i++)
    for (size_t b = 0; b < block * size; b++)
      model[d_at + i * dst * size + b] = byte_of(writer, s_at + i * sst * size + b);
  HIP(hipMemcpy(seen, dest, room, hipMemcpyDeviceToHost));
  for (size_t i = 0; i < room; i++)
    CHECK(seen[i] == model[i],
          "op %d scope %d ctx %d size %zu n %zu block %zu dest +%zu source +%zu threads %u: byte "
          "%zu is %d, not %d",
          c.op, c.scope, c.with_ctx, size, c.n, block, d_at, s_at, threads, i, seen[i], model[i]);
  if (with_signal) {
    uint64_t got;
    HIP(hipMemcpy(&got, sig, 8, hipMemcpyDeviceToHost));
    CHECK(got == sent, "op %d scope %d: signal %lu, not %lu", c.op, c.scope, (unsigned long)got,
          (unsigned long)sent);
  }
}

} // namespace

void run_forms(int op, size_t size, size_t align, void (*launch)(const Call &, unsigned threads)) {
  make_buffers();
  uint64_t random = 12345 + uint64_t(op); // the same on all PEs
  const bool single = op == op_p || op == op_g, strided = op >= op_iput && op <= op_ibget;
  const size_t sizes[] = {0, 1, 3, 17, 64, 333, 1031};
  for (int scope = thread; scope <= (single || strided ? thread : wg); scope++)
    for (int with_ctx = 0; with_ctx < (scope == thread ? 2 : 1); with_ctx++)
      for (size_t k = 0; k < COUNT(sizes); k++) {
        if (single && k) break;
        Call c = {};
        c.op = op, c.scope = scope, c.with_ctx = with_ctx, c.ctx = ctx;
        c.n = single ? 1 : sizes[k];
        if (scope == thread && c.n > 400) continue; // one thread, byte by byte in the worst case
        c.block = 1 + pe_random(&random) % 5;
        c.dst = ptrdiff_t(c.block + pe_random(&random) % 3);
        c.sst = ptrdiff_t(c.block + pe_random(&random) % 3);
        const size_t d_at = pe_random(&random) % 33 * align, s_at = pe_random(&random) % 33 * align;
        const unsigned threads = scope == thread ? 1
                                 : scope == wave ? (k % 2 ? shmem::arch::wave_size : 13)
                                                 : (unsigned[]){1, 50, 64, 257, 1024}[k % 5];
        run(c, size, d_at, s_at, threads, launch);
      }
}

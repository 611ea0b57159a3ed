// SPDX-License-Identifier: MIT
// The last words of kernels: a thread of the library reads them, prints them and ends the job.
#include "report.hpp"
#include "../memory/buffer.hpp"
#include "../thread.hpp"
#include "hip.hpp"
#include <csignal>
#include <cstdio>
#include <cstring>

namespace shmem::gpu {

namespace {

device::Report *words;

const char *comparison(int cmp) {
  static const char *const names[] = {"==", "!=", "<", "<=", ">", ">="};
  return unsigned(cmp) < 6 ? names[cmp] : "?";
}

// One line, like those of the host's routines.
[[noreturn]] void say_it(const device::Report &r) {
  char where[96];
  snprintf(where, sizeof where, "in block (%u,%u,%u), thread (%u,%u,%u) of a kernel", r.block[0],
           r.block[1], r.block[2], r.thread[0], r.thread[1], r.thread[2]);
  const auto *p = reinterpret_cast<const void *>(r.address);
  const size_t bytes = size_t(r.bytes);
  switch (r.kind) {
  case device::Report::bad_pe:
    fatal("%s: pe = %d: the program has PEs 0 to %d; %s", r.routine, r.pe, self.n - 1, where);
  case device::Report::not_symmetric:
    if (!p) fatal("%s: %s = NULL: not a symmetric address; %s", r.routine, r.argument, where);
    fatal("%s: %s = %p: not on the symmetric heap in device memory, nor in a buffer there; %s",
          r.routine, r.argument, p, where);
  case device::Report::past_end:
    fatal("%s: %s = %p: %zu bytes from there reach past the end of the %s; %s", r.routine,
          r.argument, p, bytes, self.device.has(p) ? "symmetric heap" : "registered buffer", where);
  case device::Report::misaligned:
    fatal("%s: %s = %p: not aligned to %zu bytes; %s", r.routine, r.argument, p, size_t(r.align),
          where);
  case device::Report::outside_team:
    fatal("%s: %s = %p: in a buffer that PE %d does not have: it is not in the team that has "
          "registered it; %s",
          r.routine, r.argument, p, r.pe, where);
  case device::Report::no_atomic:
    fatal("%s: %s = %p: " NO_ATOMIC "; %s", r.routine, r.argument, p, r.pe, where);
  case device::Report::bad_index:
    fatal("%s: %s: %lld at %p: not one of -1 to %lld; %s", r.routine, r.argument, (long long)r.seen,
          p, (long long)r.wanted - 1, where);
  case device::Report::bad_number:
    fatal("%s: %s = %lld: not from %zu to %lld; %s", r.routine, r.argument, (long long)r.seen,
          bytes, (long long)r.wanted, where);
  case device::Report::many_teams:
    fatal(
        "%s: team: is number %llu, and SHMEM_COLL_TEAMS leaves room for the collectives of %d; %s",
        r.routine, (unsigned long long)r.seen, self.env.coll_teams, where);
  case device::Report::wait_limit:
    fatal("%s: %s = %p: waited longer than SHMEM_WAIT_LIMIT for a value %s %lld (0x%llx) and last "
          "saw %lld (0x%llx); %s",
          r.routine, r.argument, p, comparison(r.cmp), (long long)r.wanted,
          (unsigned long long)r.wanted, (long long)r.seen, (unsigned long long)r.seen, where);
  }
  fatal("%s: %s = %p: kind %u of report, of another version of this library; %s", r.routine,
        r.argument, p, r.kind, where);
}

void listen();
Service listener("listens to kernels", listen);
void listen() {
  for (; !listener.stops(); listener.nap(5000000))
    if (__atomic_load_n(&words->kind, __ATOMIC_ACQUIRE)) {
      device::Report copy = *words;
      copy.routine[sizeof copy.routine - 1] = copy.argument[sizeof copy.argument - 1] = '\0';
      say_it(copy);
    }
}

} // namespace

device::Report *open_reports() {
  void *there;
  words = static_cast<device::Report *>(shared_memory(sizeof *words, &there));
  memset(static_cast<void *>(words), 0, sizeof *words);
  listener.start();
  return static_cast<device::Report *>(there);
}

void close_reports() {
  if (!words) return;
  listener.stop();
  MUST(hipHostFree(words), "hipHostFree");
  words = nullptr;
}

} // namespace shmem::gpu

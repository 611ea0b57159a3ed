// SPDX-License-Identifier: MIT
#include "fill.hpp"
#include "../device/fill.hpp"
#include "gpu/hip.hpp"

namespace shmem::stream {

namespace {

using gpu::OnDevice;

// False where there is nothing to do.
bool check_dest(const char *fn, void *dest, size_t unit, size_t n) {
  check_ready(fn);
  check_pointer(fn, "dest", dest, n);
  if (n && uintptr_t(dest) % unit)
    fatal("%s: dest = %p: not aligned to its type of %zu bytes", fn, dest, unit);
  return n;
}

} // namespace

void fill(const char *fn, void *dest, uint64_t bits, size_t unit, size_t n, Stream s) {
  if (!check_dest(fn, dest, unit, n)) return;
  OnDevice on;
  MUST(kernels::fill_on_stream(dest, bits, unit, n, s), "%s: %zu elements", fn, n);
}
void iota(const char *fn, ElementType type, void *dest, uint64_t first, uint64_t step, size_t unit,
          size_t n, Stream s) {
  if (!check_dest(fn, dest, unit, n)) return;
  OnDevice on;
  MUST(kernels::iota_on_stream(type, dest, first, step, n, s), "%s: %zu elements", fn, n);
}
void random(const char *fn, ElementType type, void *dest, size_t unit, size_t n, uint64_t seed,
            uint64_t first, Stream s) {
  if (!check_dest(fn, dest, unit, n)) return;
  OnDevice on;
  MUST(kernels::random_on_stream(type, dest, n, seed, first, s), "%s: %zu elements", fn, n);
}

// The launch of the root's kernel has the value. Then the root's elements are broadcast from dest.
int broadcast_value(const char *fn, shmem_team_t team, void *dest, uint64_t bits, size_t unit,
                    size_t n, int root, Stream s) {
  check_ready(fn);
  if (need_team(fn, "team", team).me == root) fill(fn, dest, bits, unit, n, s);
  return move(fn, Collective::broadcast, team, dest, dest, n * unit, unit, root, s);
}

} // namespace shmem::stream

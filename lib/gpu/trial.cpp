// SPDX-License-Identifier: MIT
#include "trial.hpp"
#include "../team.hpp"
#include "hip.hpp"
#include <vector>

namespace shmem::gpu {

namespace {

void copy_now(void *dest, const void *source, size_t n) {
  MUST(hipMemcpy(dest, source, n, hipMemcpyDefault), "hipMemcpy of %zu bytes", n);
}
uint64_t *word(const Trial &t, int local, size_t i) {
  return reinterpret_cast<uint64_t *>(t.starts[local]) + i;
}
uint64_t sign(int local, uint64_t salt) {
  return (uint64_t(local) + 1) * 0x9e3779b97f4a7c15 ^ salt;
}
void expect(const Trial &t, int local, size_t i, uint64_t want) {
  uint64_t seen;
  copy_now(&seen, word(t, local, i), 8);
  if (seen != want)
    fatal("the %s of PE %d is mapped wrongly for this PE's GPU %d: word %zu reads 0x%016lx, not "
          "0x%016lx",
          t.what, self.pe_of(local), chosen, i, seen, want);
}

} // namespace

// From pageable memory hipMemcpy returns when it has read it all: 8 PEs on 4 H200s met marks that
// had not arrived (2026-11).
void copies_arrive() {
  MUST(hipDeviceSynchronize(), "hipDeviceSynchronize");
  sync(*self.world);
}

// A mapping may be wrong without an error (MI300X with many handles, ROCm/mori#267). Each PE writes
// a sign into the first and the last word of its own memory, the others look; then each leaves a
// mark in all others'.
void try_out(std::initializer_list<Trial> trials) {
  for (const Trial &t : trials)
    for (size_t at : {t.first, t.last}) {
      const uint64_t mine = sign(self.local, at);
      copy_now(word(t, self.local, at), &mine, 8);
    }
  copies_arrive();
  for (const Trial &t : trials)
    for (int i = 0; i < self.n_local; i++) {
      for (size_t at : {t.first, t.last}) expect(t, i, at, sign(i, at));
      const uint64_t mark = sign(self.local, 3);
      copy_now(word(t, i, t.first + 1 + size_t(self.local)), &mark, 8);
    }
  copies_arrive();
  std::vector<uint64_t> marks(size_t(self.n_local));
  for (const Trial &t : trials) {
    copy_now(marks.data(), word(t, self.local, t.first + 1), marks.size() * 8);
    for (int i = 0; i < self.n_local; i++)
      if (marks[i] != sign(i, 3))
        fatal("the %s of this PE, on GPU %d, is mapped wrongly for PE %d: its mark reads 0x%016lx",
              t.what, chosen, self.pe_of(i), marks[i]);
  }
}

} // namespace shmem::gpu

// SPDX-License-Identifier: MIT
// Fills the lines in which a team's collectives receive with false data, which no member sent, with
// the flag of the last epoch. Afterwards, the lines behind a short message must be as before. While
// no collective of the team is on.
#ifndef TEST_DEVICE_POISON_HPP
#define TEST_DEVICE_POISON_HPP

#include <hip/hip_runtime.h>
#include <shmem/device/channel.hpp>
#include <shmem/device/module.hpp>

namespace {

struct Poison {
  unsigned id;     // of the team
  unsigned packs;  // that a message may have
  uint64_t *marks; // one of each channel, and then how many words are not as they were
};
enum { poison_channels = 2, poison_tail = 16 };

__global__ void poison_lines(Poison p, bool look) {
  using shmem::device::state;
  const shmem::device::Channels &w = state.channels;
  if (blockIdx.x >= unsigned(w.with_lines)) return;
  const uintptr_t part = w.at + p.id * w.team_bytes;
  const auto *head = reinterpret_cast<const uint64_t *>(part + blockIdx.x * w.head_bytes);
  auto *lines = reinterpret_cast<uint64_t *>(part + unsigned(w.count) * w.head_bytes +
                                             size_t(blockIdx.x) * 4 * unsigned(state.n) * w.room);
  const uint64_t flag = look ? p.marks[blockIdx.x] : *head << 32;
  const size_t slot = w.room / 4, to = 4 * (size_t(p.packs) + poison_tail) < slot
                                           ? 4 * (size_t(p.packs) + poison_tail)
                                           : slot;
  unsigned wrong = 0;
  for (size_t s = 0; s < 2 * size_t(state.n); s++)
    for (size_t i = threadIdx.x + (look ? 4 * size_t(p.packs) : 0); i < to; i += blockDim.x) {
      const uint64_t word = flag | (0x5eed0000u + unsigned(s * 977 + i));
      if (!look)
        lines[s * slot + i] = word;
      else
        wrong += lines[s * slot + i] != word;
    }
  // Of the head's lines, too.
  auto *few = const_cast<uint64_t *>(head) + w.head_lines(unsigned(state.n)) / sizeof *head;
  for (size_t i = threadIdx.x; !look && i < 8 * size_t(state.n); i += blockDim.x)
    few[i] = flag | (0x5eed0000u + unsigned(i));
  if (!look && threadIdx.x == 0) p.marks[blockIdx.x] = flag, p.marks[poison_channels] = 0;
  if (wrong) shmem::arch::fetch_add(p.marks + poison_channels, uint64_t(wrong));
}

// To use: put before and look after, with the host's wait for the stream between.
inline uint64_t *poison_marks() {
  static uint64_t *marks;
  if (!marks && hipMalloc(reinterpret_cast<void **>(&marks),
                          (poison_channels + 1) * sizeof *marks) != hipSuccess)
    abort();
  return marks;
}
inline void poison_launch(shmem_team_t team, size_t packs, bool look, hipStream_t stream) {
  const auto handle = reinterpret_cast<uintptr_t>(team);
  const unsigned id = team == SHMEM_TEAM_WORLD ? 0 : unsigned(handle >> shmem::device::id_shift);
  hipLaunchKernelGGL(poison_lines, dim3(poison_channels), dim3(64), 0, stream,
                     Poison{id, unsigned(packs), poison_marks()}, look);
  if (hipGetLastError() != hipSuccess) abort();
}
inline void poison(shmem_team_t team, size_t packs, hipStream_t stream) {
  poison_launch(team, packs, false, stream);
}
// How many words of the lines were written behind a message of as many packs.
inline uint64_t poison_spoilt(shmem_team_t team, size_t packs, hipStream_t stream) {
  uint64_t wrong = ~uint64_t(0);
  poison_launch(team, packs, true, stream);
  if (hipStreamSynchronize(stream) != hipSuccess) abort();
  if (hipMemcpy(&wrong, poison_marks() + poison_channels, sizeof wrong, hipMemcpyDeviceToHost) !=
      hipSuccess)
    abort();
  return wrong;
}

} // namespace

#endif

// SPDX-License-Identifier: MIT
#include "copy.hpp"
#include "state.hpp"

namespace shmem {

// A host-only program keeps the short path on a machine with GPUs: the long path begins with the
// first block of device memory, and only where the CPU cannot use that block by itself.
void choose_spans() {
  const Region &main = self.device_main ? self.device : self.heap;
  const Span all{main.base, main.size};
  self.careful = self.check || self.device_only || !self.one_node();
  self.word = self.check || (self.device_only && self.device_main) ? Span{} : all;
  self.read = self.oversubscribed ? Span{} : self.word;
  self.fast = self.check || self.device_only ? Span{} : all;
  // With several nodes, the data path finds this node's PEs if their ranks are in a row.
  self.first = self.pe_of(0);
  self.near = self.pe_of(self.n_local - 1) - self.first == self.n_local - 1 ? self.n_local : 0;
  for (int i = 0; i < self.near; i++) heap_delta[self.first + i] = main.delta[i];
  self.stream_bytes = self.device_only ? 0 : stream_threshold();
}

} // namespace shmem

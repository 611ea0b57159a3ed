// SPDX-License-Identifier: MIT
// The symmetric heap in GPU memory, and what the GPU does for the host's routines on it. The only
// users of HIP are the files gpu*.cpp.
#pragma once
#include "../device/operation.hpp"
#include "../device/state.hpp"
#include "state.hpp"
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <shmemx.h>
#include <type_traits>
#include <utility>
#include <vector>

// Why an atomic is refused, after the address; then the PE's number.
#define NO_ATOMIC                                                                                  \
  "PE %d has it in coarse-grained memory (hipMalloc's), which knows nothing of another gfx90a's "  \
  "atomics: use shmem_malloc, or hipExtMallocWithFlags with hipDeviceMallocFinegrained"

namespace shmem {

namespace buffer {
bool on_device(const void *p);
const Region *find_device(const void *p);
// Ends the program where no atomic can be done on what PE pe has of p.
void check_atomic(const char *fn, const char *arg, const void *p, int pe);
} // namespace buffer

// Fills fast, word, careful and their like from what heaps there are and are in use.
void choose_spans();

namespace gpu {

inline constexpr int max_device_pes = device::max_pes; // what kernels have room for

// At init and finalize, on every PE at once. A PE that cannot have its part ends the job. Without a
// GPU, or where none is wanted, there is no device heap.
void open();
void close();
// To be called when the device heap hands out a block: from the first one on, host accesses must
// look where they go.
void use();

// These offsets of a device heap that grows get memory, on all PEs at once; false where some GPU
// has none, with a line. And they give it back, all that was added together.
bool add_chunk(const char *fn, size_t from, size_t to);
void remove_chunk(size_t from, size_t to);

// Whether a GPU's runtime is in use, which has threads of its own, as libraries on top of it have.
// Without a GPU those threads are the library's, and keep all cores.
bool has_threads();

// Shows kernels a team that this PE is a member of; and clears the flags of one that is destroyed.
// numbers: of its shares, by node; empty where it has none but this one, or 0 on all.
void show_team(const Team &t, std::vector<uint16_t> numbers);
void forget_team(Team &t);
device::Team kernel_team(const Team &t); // as kernels take it
const device::Channels &channels();      // of their collectives

// The PE of this node on whose device heap p lies, by its address here, or -1.
inline int owner(const void *p) {
  for (int i = 0; i < self.n_local && self.device.size; i++)
    if (uintptr_t(p) - self.device.base - uintptr_t(self.device.delta[i]) < self.device.size)
      return self.pe_of(i);
  return -1;
}
// Whether a GPU uses the pages of p as they are: its own memory, and what is pinned for it.
bool has_pages(const void *p);

// The program's own memory on this PE's GPU. An allocation as other PEs map it:
struct Exported {
  std::byte handle[64];
  uintptr_t base;
  bool coarse; // see device::coarse
};
// Whether p is such memory; if it is, and cannot be a buffer, the program ends.
bool has_memory(const char *fn, const void *p, size_t bytes, Exported *exported);
// Where the allocation of PE pe is here. It is open until each open has had its close.
char *open_memory(const char *fn, int pe, const Exported &theirs);
// Shows kernels all buffers that there are in this GPU's memory; and where they have the row of
// one, which they find by themselves, but those of products get with their call. Null for the heap.
struct BufferThere {
  const Region *region = nullptr;
  const uintptr_t *row = nullptr; // its deltas, by PE
  int place = 0;
  bool operator==(const BufferThere &) const = default;
};
void show_buffers(std::vector<BufferThere> ascending);
const uintptr_t *row_of(const Region *r);
void close_memory(int pe, uintptr_t base);

// Whether the PE of that number on this node has its memory on the GPU of this one.
bool shares_gpu(int local);

// The region that p lies in of those that kernels and streams work on, or null.
inline const Region *region(const void *p) {
  return self.device.has(p) ? &self.device : buffer::find_device(p);
}
// Whether any of these is device-only memory, here or of a peer.
template <class... P> bool device_only(const P *...p) {
  return self.far && (... || (owner(p) >= 0 || buffer::on_device(p)));
}

// Copies by the GPU, between host and device memory in any mixture. start_copy only has to be done
// after finish.
void copy(void *dest, const void *source, size_t n);
void start_copy(void *dest, const void *source, size_t n);
void copy_2d(void *dest, size_t dest_pitch, const void *source, size_t source_pitch, size_t width,
             size_t height);
void zero(void *p, size_t n);
void finish();
// An operation that another node requests on device-only memory of this PE. A progress thread does
// it. No thread that holds a lock calls the driver: a call of the driver may wait for kernels,
// which may wait for the holder of the lock. Engines copy data and single stores, because they find
// room beside kernels that wait. See device::DeferredStores and device::DeferredAtomic for the
// rest.
struct Deferred {
  Operation op;                 // an atomic, a put or a get; an atomic's value becomes the old one
  char *p;                      // the object
  std::unique_ptr<char[]> data; // of a put, and then of a get
  std::vector<device::DeferredStores::One> stores; // a batch, in place of op
  // Whether engines do it. Those are done in the order of defer(), and so are the others.
  static bool is_copy(const Operation &op) {
    return op.kind != Operation::atomic || op.amo == Amo::set || op.width < 4;
  }
  bool is_copy() const { return !stores.empty() || is_copy(op); }
  virtual void done() = 0; // sends the reply
  virtual ~Deferred() = default;
};
void defer(std::unique_ptr<Deferred> work);
// In jobs of several nodes: starts to do what kernels ask of PEs that are not mapped. A kernel may
// be launched after that.
void serve_kernels();
// Waits until all requests of kernels that are over are done.
void finish_ring();

// The stream for a host's collective of the team with this id. Each team has its own, because
// several may run at once and wait for their peers.
shmemx_stream_t team_stream(int id);
void wait(shmemx_stream_t stream);

// The GPU does an atomic on 4 or 8 bytes at an address here. Returns the old value.
uint64_t atomic(const Operation &op);

} // namespace gpu
} // namespace shmem

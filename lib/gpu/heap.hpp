// SPDX-License-Identifier: MIT
// The symmetric heap in GPU memory, as the host's routines see it: who owns an address, and whether
// only the GPU should go there. The files of this folder are the only users of HIP.
#pragma once
#include "../memory/buffer.hpp"

namespace shmem::gpu {

// At init and finalize, on every PE at once. A PE that cannot have its part ends the job. Without a
// GPU, or where none is wanted, there is no device heap.
void open();
void close();
// Opens a GPU that no PE had asked for at init, on every PE at once. device: which one, or -1.
void open_late(int device);
// Gives the heap's memory and mappings back; after close, on every PE at once.
void leave();
// To be called when the device heap hands out a block: from the first one on, host accesses must
// look where they go.
void use();

// Whether a GPU's runtime is in use, which has threads of its own, as libraries on top of it have.
// Without a GPU those threads are the library's, and keep all cores.
bool has_threads();

// The PE of this node on whose device heap p lies, by its address here, or -1.
inline int owner(const void *p) {
  const int local = holder(self.device, p);
  return local < 0 ? -1 : self.pe_of(local);
}
// The region that p lies in of those that kernels and streams work on, or null.
inline const Region *region(const void *p) {
  return self.device.has(p) ? &self.device : buffer::find_device(p);
}
// Whether any of these is device memory, here or of a peer, that is for the GPU to read and write.
template <class... P> bool is_device_only(const P *...p) {
  return self.device_only && (... || (owner(p) >= 0 || buffer::on_device(p)));
}

} // namespace shmem::gpu

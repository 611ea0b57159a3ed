// SPDX-License-Identifier: MIT
// What kernels call, recorded for tools/shmem_trace by sources that are compiled with
// SHMEM_TRACE_KERNELS. Without it nothing of this is in a kernel.
#pragma once
#include <cstdint>

namespace shmem::trace {

struct Record {
  uint64_t begin, bytes; // begin: ticks of arch::clock
  uint32_t took;         // ticks, or ~0
  int32_t pe;            // the world's, or -1
  uint32_t block;
  uint16_t routine, wave; // routine: by its number in the table of tools/gen.py
};
static_assert(sizeof(Record) == 32);
inline constexpr uint16_t user_event = UINT16_MAX; // a routine: bytes is the number of a mark

// In device memory, so that a record costs no transfer over PCIe.
struct Records {
  Record *first; // NULL: nothing is recorded
  uint64_t room;
  uint64_t *taken; // how many were wanted, which may be more
};

// A module of device code that records.
struct Traced {
  int (*show)(const Records *);   // 0 or a hipError_t
  int (*clock)(uint64_t *result); // launches a kernel that stores the time there
};

} // namespace shmem::trace

// Called by static constructors and destructors of the modules. libshmem's do nothing.
extern "C" void shmemx_traced_add(shmem::trace::Traced *module);
extern "C" void shmemx_traced_remove(shmem::trace::Traced *module);

#ifndef SHMEM_TRACE_KERNELS
#define SHMEM_TRACED_(scope, routine, bytes, pe)
#define SHMEM_MARK_(id) (void)(id)
#else
#define SHMEM_MARK_(id) ::shmem::trace::mark(id)
#define SHMEM_TRACED_(scope, routine, bytes, pe)                                                   \
  const ::shmem::trace::Call<::shmem::scope> traced_(routine, bytes, pe);
#include "scope.hpp"
#include <hip/hip_runtime.h>

namespace shmem::trace {

SHMEM_STATE_ Records records;

// Threads that call this together take their places by one atomic a wave.
SHMEM_D_ void put(Record r) {
  const uint64_t at = arch::take(records.taken);
  if (at >= records.room) return;
  r.block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  r.wave = uint16_t(Workgroup{}.rank() / arch::wave_size);
  records.first[at] = r;
}
SHMEM_D_ void mark(unsigned id) {
  if (records.first) put({arch::clock(), id, 0, -1, 0, user_event, 0});
}

// From here to the end of the block a routine runs. One thread of a scope writes the record; of
// threads that call for themselves each does.
template <class Scope> class Call {
  Record r;

public:
  SHMEM_D_ Call(unsigned routine, uint64_t bytes, int pe)
      : r{records.first ? arch::clock() : 0, bytes, 0, pe, 0, uint16_t(routine), 0} {}
  SHMEM_D_ ~Call() {
    if (!r.begin || Scope{}.rank()) return;
    const uint64_t took = arch::clock() - r.begin;
    r.took = took < UINT32_MAX ? uint32_t(took) : UINT32_MAX;
    put(r);
  }
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;
};

namespace {
__global__ void store_clock(uint64_t *result) {
  *result = arch::clock();
}
struct Registrar {
  Traced module;
  Registrar() : module{show, clock} { shmemx_traced_add(&module); }
  ~Registrar() { shmemx_traced_remove(&module); }
  static int show(const Records *r) {
    return int(hipMemcpyToSymbol(HIP_SYMBOL(records), r, sizeof *r, 0, hipMemcpyHostToDevice));
  }
  static int clock(uint64_t *result) {
    hipLaunchKernelGGL(store_clock, dim3(1), dim3(1), 0, nullptr, result);
    return int(hipGetLastError());
  }
} registrar;
} // namespace

} // namespace shmem::trace
#endif

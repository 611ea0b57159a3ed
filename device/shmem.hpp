// SPDX-License-Identifier: MIT
// The header of sources with kernels. In kernels, the shmem_ routines below work on the device
// heap as on the host: same names, same arguments, called by one thread. shmemx_..._wave and
// shmemx_..._wg are called by all threads of a wave or workgroup, with the same arguments. In
// host functions the names are the library's routines, as ever. Programs may use these names,
// last_workgroup, those of shmem::gemm for products with a finish of their own (gemm/fused.hpp),
// and those of shmem::moe for tokens to experts (moe/wg.hpp); the other names of namespace shmem
// are private, and change.
#pragma once
#include <hip/hip_runtime.h>
#include <shmemx.h>

#include "amo.hpp"
#include "collectives.hpp"
#include "module.hpp"
#include "order.hpp"
#include "rma.hpp"
#include "signal.hpp"
#include "sync.hpp"
#include "team.hpp"
#include "trace.hpp"
#include "wait.hpp"

namespace shmem {

// Called by all threads of each of several workgroups of this GPU, which the counter counts. True
// in the workgroup with which it reaches `of`, whose threads then load what all threads of all
// these workgroups stored before. HIP's own __threadfence is not enough for this: clang 19 does not
// wait for the write-back that it begins with (gfx942, 2026-11).
SHMEM_D_ bool last_workgroup(unsigned *counter, unsigned of) {
  __shared__ bool last;
  const arch::Index i = arch::thread();
  device::settle(Workgroup{});
  // Orders the workgroup's stores before the count, and the others' counts before what is loaded.
  if (!(i.x | i.y | i.z))
    last = arch::fetch_add<Order::acq_rel, Range::device>(counter, 1u) == of - 1;
  arch::wg_sync();
  return last;
}

} // namespace shmem

// Like the generated names. In kernels it does nothing without SHMEM_TRACE_KERNELS.
namespace shmem_kernel {
SHMEM_HD_ inline void shmemx_trace_event(unsigned id) {
  SHMEM_SPLIT_(SHMEM_MARK_(id), ::shmemx_trace_event(id));
}
} // namespace shmem_kernel
#define shmemx_trace_event shmem_kernel::shmemx_trace_event

#include <shmem/device_api.hpp> // generated: the shmem_ names

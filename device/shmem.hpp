// SPDX-License-Identifier: MIT
// What a source with kernels includes. In kernels, the shmem_ routines below work on the device
// heap as on the host: same names, same arguments, called by one thread. shmemx_..._wave and
// shmemx_..._wg are called by all threads of a wave or workgroup, with the same arguments. In host
// functions the names mean the library's, as ever. These names, and those of shmem::gemm for
// products with a finish of the program's own (gemm/fused.hpp), are what programs may use; the
// other names of namespace shmem are private, and change.
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
#include "wait.hpp"

#include <shmem/device_api.hpp> // generated: the shmem_ names

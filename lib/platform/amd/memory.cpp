// SPDX-License-Identifier: MIT
// What HIP does not tell, and the runtime below it does.
#include "../../../device/runtime.hpp"
#include <hsa/hsa_ext_amd.h>

namespace shmem::runtime {

// hipPointerGetAttributes says 0 for the flags of any memory, and hipMemRangeGetAttribute dies (HIP
// 5.2, 2026-11-26). Memory of an unknown kind may be coarse-grained.
bool kept_by_peers(const void *p, int device) {
  hipDeviceProp_t prop;
  if (hipGetDeviceProperties(&prop, device) != hipSuccess) return (void)hipGetLastError(), false;
  if (strncmp(prop.gcnArchName, "gfx90a", 6)) return false;
  hsa_amd_pointer_info_t info{};
  info.size = sizeof info;
  const bool known =
      hsa_amd_pointer_info(p, &info, nullptr, nullptr, nullptr) == HSA_STATUS_SUCCESS &&
      info.global_flags;
  return !known || info.global_flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
}

// HIP starts ROCr with its first call that needs a GPU.
bool in_use() {
  uint16_t major;
  return hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major) == HSA_STATUS_SUCCESS;
}

} // namespace shmem::runtime

// SPDX-License-Identifier: MIT
// Until the cpu platform launches kernels.
#include "kernels.hpp"
namespace shmem::kernels {
hipError_t atomic(Atomic, void *, size_t, uint64_t, uint64_t, uint64_t *, hipStream_t) {
  return hipErrorNotSupported;
}
} // namespace shmem::kernels

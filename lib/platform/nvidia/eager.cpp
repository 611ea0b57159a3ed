// SPDX-License-Identifier: MIT
// By default CUDA loads a kernel at its first launch, and loading waits for the kernels that run,
// so a kernel that waits for a peer's that is still to be loaded never ends (H200, CUDA 13,
// 2026-11).
#include <cstdlib>

namespace {

[[gnu::constructor]] void load_eagerly() {
  setenv("CUDA_MODULE_LOADING", "EAGER", 0); // what the user has set stays
}

} // namespace

// SPDX-License-Identifier: MIT
#pragma once
#include "address.hpp"
#include <hip/hip_runtime.h>

namespace shmem::device {

// Tells the library about this module's State, while the module is loaded. In an unnamed namespace:
// were publish one function of the program, it would know the State of one module only. Compilers
// must see it when they compile kernels, too: the reference makes state a global symbol of the code
// object, and ROCm's loader finds no others (2026-11-21, ROCr 5.2.3, clang 15 and 19).
namespace {
struct Registrar {
  Module module;
#ifdef SHMEM_OF_LIBRARY_
  static constexpr bool library = true;
#else
  static constexpr bool library = false;
#endif
  Registrar() : module{find, sizeof(State), nullptr, ring_built, library} {
    shmemx_module_add(&module);
  }
  ~Registrar() {
    shmemx_module_remove(&module);
  }
  static int find(void **p) {
    return int(hipGetSymbolAddress(p, HIP_SYMBOL(state)));
  }
} registrar;
} // namespace

} // namespace shmem::device

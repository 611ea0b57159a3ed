// SPDX-License-Identifier: MIT
// The routines of kernels, as LLVM bitcode with the C names, for compilers of kernels that read no
// C++. Functions are plain definitions: a weak one could not be inlined, and one with linkonce
// linkage would need a list of all that are wanted. So a linker takes the functions that are
// called, and makes them internal, as Triton and clang's -mlink-builtin-bitcode do.
//
// The State has a name, by which shmemx_module_init finds it in a module that is loaded at run
// time; it is retained, because linkers that make all internal would hide it from the loader.
// Weak, so that objects of one module share it. The name also says whether the kernels reach PEs of
// other nodes.
#include <shmem/device_built.hpp>
#ifdef SHMEM_ONE_NODE
#define SHMEM_BITCODE_NAME_ "shmemx_one_node_state"
#else
#define SHMEM_BITCODE_NAME_ "shmemx_module_state"
#endif
#define SHMEM_BITCODE_STATE_                                                                       \
  __constant__ __attribute__((weak, used, retain, visibility("protected")))                        \
  State state __asm__(SHMEM_BITCODE_NAME_);
#include "shmem.hpp"
#include <shmem/device_bitcode.hpp> // generated

// SPDX-License-Identifier: MIT
// The routines of kernels, as LLVM bitcode with the C names, for compilers of kernels that read no
// C++. Functions are plain definitions: a weak one could not be inlined, and one with linkonce
// linkage would need a list of all that are wanted. So a linker takes the functions that are
// called, and makes them internal, as Triton and clang's -mlink-builtin-bitcode do.
//
// The State has a name, by which shmemx_module_init finds it in a module that is loaded at run
// time; it is retained, because linkers that make all internal would hide it from the loader.
// Weak, so that objects of one module share it. The name also says whether the kernels reach PEs of
// other nodes. The records of a trace have a name, too, for libshmem_trace.
#include <shmem/device_built.hpp>
#ifdef SHMEM_ONE_NODE
#define SHMEM_BITCODE_NAME_ "shmemx_one_node_state"
#else
#define SHMEM_BITCODE_NAME_ "shmemx_module_state"
#endif
#define SHMEM_BITCODE_STATE_                                                                       \
  __constant__ __attribute__((weak, used, retain, visibility("protected")))                        \
  State state __asm__(SHMEM_BITCODE_NAME_);
#define SHMEM_BITCODE_RECORDS_                                                                     \
  __constant__ __attribute__((weak, used, retain, visibility("protected")))                        \
  Records records __asm__("shmemx_module_records");
#include "shmem.hpp"
#include <shmem/device_bitcode.hpp> // generated

// A compiler calls these, before and after a workgroup's call, in a program that is traced.
// Otherwise no kernel has them.
extern "C" __device__ uint64_t shmemx_traced_begin() {
  using namespace shmem;
  return trace::records.first && !Workgroup{}.rank() ? arch::clock() : 0;
}
extern "C" __device__ int shmemx_traced_end(uint64_t begin, uint64_t bytes, int pe, int routine) {
  using namespace shmem;
  if (begin)
    trace::put(arch::take_alone(trace::records.taken), begin, arch::clock() - begin, bytes, pe,
               unsigned(routine));
  return 0;
}

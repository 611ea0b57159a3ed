// SPDX-License-Identifier: MIT
// The cores for matrix instructions, for a look at their main loops: gemm.py says what they should
// be.
#include <shmem/device/gemm/epilogue.hpp>

using namespace shmem::gemm;

#define KERNEL(name, Core)                                                                         \
  extern "C" __global__ void __launch_bounds__(Core::threads, Core::bound)                         \
      name(Core::Operands operands, Shards order, Store<BiasActivation> store) {                   \
    Core::run(operands, order, store);                                                             \
  }
using SmallBf16 = MfmaSmall<Bfloat16, Load::lines>;
using LargeBf16 = MfmaLarge<Bfloat16, Load::lines>;
using LargeHalf = MfmaLarge<Half, Load::lines>;
using SmallFloat = MfmaSmall<float, Load::lines>;
using SmallTurned = MfmaSmall<Bfloat16, Load::lines_turned>;
using LargeTurned = MfmaLarge<Bfloat16, Load::lines_turned>;
using GatherBf16 = MfmaSmall<Bfloat16, Load::elements>;
KERNEL(small_bf16, SmallBf16)
KERNEL(large_bf16, LargeBf16)
KERNEL(large_f16, LargeHalf)
KERNEL(small_f32, SmallFloat)
KERNEL(small_turned, SmallTurned)
KERNEL(large_turned, LargeTurned)
KERNEL(gather_bf16, GatherBf16)

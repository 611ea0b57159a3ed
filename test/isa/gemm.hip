// SPDX-License-Identifier: MIT
// The cores for matrix instructions, for a look at their main loops: gemm.py says what they should
// be.
#include <shmem/device/gemm/epilogue.hpp>

using namespace shmem::gemm;

#define KERNEL(name, Core)                                                                         \
  extern "C" __global__ void __launch_bounds__(Core::threads, Core::bound)                         \
      name(Core::Operands operands, Shards order, Store<BiasActivation> store) {                   \
    Core::run(shmem::arch::argument<>(operands), shmem::arch::argument<Core::Operands>(order),     \
              shmem::arch::argument<Core::Operands, Shards>(store));                               \
  }
using SmallBf16 = MfmaSmall<Bfloat16, Load::lines>;
using LargeBf16 = MfmaLarge<Bfloat16, Load::lines>;
using LargeHalf = MfmaLarge<Half, Load::lines>;
using SmallFloat = MfmaSmall<float, Load::lines>;
using SmallTurnedB = MfmaSmall<Bfloat16, Load::turned_b>;
using LargeTurnedB = MfmaLarge<Bfloat16, Load::turned_b>;
using SmallTurnedA = MfmaSmall<Bfloat16, Load::turned_a>;
using LargeTurnedA = MfmaLarge<Bfloat16, Load::turned_a>;
using SmallTurned = MfmaSmall<Bfloat16, Load::turned>;
using LargeTurned = MfmaLarge<Bfloat16, Load::turned>;
using GatherBf16 = MfmaSmall<Bfloat16, Load::elements>;
KERNEL(small_bf16, SmallBf16)
KERNEL(large_bf16, LargeBf16)
KERNEL(large_f16, LargeHalf)
KERNEL(small_f32, SmallFloat)
KERNEL(small_turned_b, SmallTurnedB)
KERNEL(large_turned_b, LargeTurnedB)
KERNEL(small_turned_a, SmallTurnedA)
KERNEL(large_turned_a, LargeTurnedA)
KERNEL(small_turned, SmallTurned)
KERNEL(large_turned, LargeTurned)
KERNEL(gather_bf16, GatherBf16)

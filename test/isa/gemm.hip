// SPDX-License-Identifier: MIT
// The cores for matrix instructions, for a look at their main loops: gemm.py says what they should
// be.
#include <shmem/device/gemm/epilogue.hpp>

using namespace shmem::gemm;

#define KERNEL(name, Core)                                                                         \
  extern "C" __global__ void __launch_bounds__(Core::threads, Core::bound)                         \
      name(MultiplyCall<Core::Operands, Shards, Store<BiasActivation>> argument) {                 \
    const auto &call = shmem::arch::argument(argument);                                            \
    Core::run(call.operands, call.order, call.epilogue);                                           \
  }
#if defined __gfx950__
template <class T, Load load> using Small = DirectSmall<T, load>;
template <class T, Load load> using Large = DirectLarge<T, load>;
using SmallFp8 = Small<Float8, Load::lines>;
using LargeFp8 = Large<Float8, Load::lines>;
#else
template <class T, Load load> using Small = MfmaSmall<T, load>;
template <class T, Load load> using Large = MfmaLarge<T, load>;
#endif
using SmallBf16 = Small<Bfloat16, Load::lines>;
using LargeBf16 = Large<Bfloat16, Load::lines>;
using LargeHalf = Large<Half, Load::lines>;
using SmallFloat = Small<float, Load::lines>;
using SmallTurnedB = Small<Bfloat16, Load::turned_b>;
using LargeTurnedB = Large<Bfloat16, Load::turned_b>;
using SmallTurnedA = Small<Bfloat16, Load::turned_a>;
using LargeTurnedA = Large<Bfloat16, Load::turned_a>;
using SmallTurned = Small<Bfloat16, Load::turned>;
using LargeTurned = Large<Bfloat16, Load::turned>;
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
#if defined __gfx950__
KERNEL(small_fp8, SmallFp8)
KERNEL(large_fp8, LargeFp8)
#endif

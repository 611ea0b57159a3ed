// SPDX-License-Identifier: MIT
#include <cstdio>
#include <hip/hip_runtime.h>
#include <shmemx.h>

constexpr size_t n = 64;

int main() {
  shmem_init();
  auto *v = static_cast<unsigned short *>(
      shmem_malloc_with_hints(n * sizeof(short), SHMEMX_MALLOC_DEVICE));
  if (v) {
    shmemx_wire_shape_t shape = SHMEMX_WIRE_SHAPE_INITIALIZER;
    shape.format = SHMEMX_WIRE_INT8;
    shape.elements = n;
    shmemx_wire_t wire;
    shmemx_wire_create(SHMEM_TEAM_WORLD, &shape, &wire);
    unsigned short sums[n];
    for (size_t i = 0; i < n; i++) sums[i] = 0x3fc0; // a bfloat16, the upper half of a float: 1.5
    shmem_ushort_put(v, sums, n, shmem_my_pe());
    shmemx_wire_sum_reduce_on_stream(wire, v, v, n, nullptr); // in place
    if (hipMemcpy(sums, v, sizeof sums, hipMemcpyDeviceToHost) != hipSuccess) shmem_global_exit(1);
    shmemx_wire_destroy(wire);
    const unsigned last = sums[n - 1] << 16;
    float sum;
    __builtin_memcpy(&sum, &last, sizeof sum);
    if (shmem_my_pe() == 0) std::printf("%g\n", double(sum));
  } else if (shmem_my_pe() == 0) {
    std::printf("no GPU\n");
  }
  shmem_finalize();
}
// With 2 PEs: 3

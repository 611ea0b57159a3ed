// SPDX-License-Identifier: MIT
// The statuses, and the macros of NVSHMEM's own sources that its benchmarks use.
#include <nvshmem.h>
#include <nvshmemx.h>

static int way_out(int *place, int failed) {
  int status = failed;
  NVSHMEMI_NULL_ERROR_JMP(place, status, NVSHMEMX_ERROR_INVALID_VALUE, out, "no place");
  NVSHMEMI_NZ_ERROR_JMP(status, NVSHMEMX_ERROR_INTERNAL, out, "step %d failed", failed);
  *place = 1;
out:
  return status;
}
static int early(int failed) {
  int status = failed;
  NVSHMEMI_NE_ERROR_RET(status, 0, NVSHMEMX_ERROR_OUT_OF_MEMORY, "step %d failed", failed);
  return status;
}

int main() {
  int wrong = nvshmemx_init_status() != NVSHMEM_STATUS_NOT_INITIALIZED;
  nvshmem_init();
  const nvshmemx_init_status_t now = nvshmemx_init_status_t(nvshmemx_init_status());
  switch (now) {
  case NVSHMEM_STATUS_IS_INITIALIZED:
    break;
  case NVSHMEM_STATUS_NOT_INITIALIZED:
  case NVSHMEM_STATUS_IS_BOOTSTRAPPED:
  case NVSHMEM_STATUS_LIMITED_MPG:
  case NVSHMEM_STATUS_FULL_MPG:
  case NVSHMEM_STATUS_INVALID:
    NVSHMEMI_ERROR_PRINT("status %d", now);
    wrong++;
  }
  int place = 0;
  wrong += way_out(&place, 0) != NVSHMEMX_SUCCESS || place != 1;
  wrong += way_out(nullptr, 0) != NVSHMEMX_ERROR_INVALID_VALUE;
  wrong += way_out(&place, 3) != NVSHMEMX_ERROR_INTERNAL;
  wrong += early(0) != 0;
  wrong += early(1) != NVSHMEMX_ERROR_OUT_OF_MEMORY;
  wrong += strcmp(nvshmemx_status_string(NVSHMEMX_ERROR_INTERNAL), "NVSHMEMX_ERROR_INTERNAL") != 0;
  NVSHMEMI_NZ_EXIT(wrong, "%d are wrong", wrong);
  nvshmem_finalize();
  return 0;
}

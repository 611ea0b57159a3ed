// SPDX-License-Identifier: MIT
// The statuses of NVSHMEM's extensions, and the macros of its own sources that its benchmarks and
// clients use: a message with its place, and then a way out.
#pragma once
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum nvshmemx_status {
  NVSHMEMX_SUCCESS = 0,
  NVSHMEMX_ERROR_INVALID_VALUE = 1,
  NVSHMEMX_ERROR_OUT_OF_MEMORY = 2,
  NVSHMEMX_ERROR_NOT_SUPPORTED = 3,
  NVSHMEMX_ERROR_SYMMETRY = 4,
  NVSHMEMX_ERROR_GPU_NOT_SELECTED = 5,
  NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED = 6,
  NVSHMEMX_ERROR_INTERNAL = 7,
  NVSHMEMX_ERROR_SENTINEL = INT_MAX
};

#define SHMEM_PLACED_(to, ...)                                                                     \
  (fprintf(to, "%s:%d: ", __FILE__, __LINE__), fprintf(to, __VA_ARGS__), fprintf(to, "\n"))

#define NVSHMEMI_ERROR_PRINT(...)                                                                  \
  do {                                                                                             \
    SHMEM_PLACED_(stderr, __VA_ARGS__);                                                            \
  } while (0)
#define NVSHMEMI_WARN_PRINT(...)                                                                   \
  do {                                                                                             \
    SHMEM_PLACED_(stdout, __VA_ARGS__);                                                            \
  } while (0)
#define NVSHMEMI_ERROR_EXIT(...)                                                                   \
  do {                                                                                             \
    SHMEM_PLACED_(stderr, __VA_ARGS__);                                                            \
    exit(-1);                                                                                      \
  } while (0)
#define NVSHMEMI_ERROR_JMP(status, err, label, ...)                                                \
  do {                                                                                             \
    SHMEM_PLACED_(stderr, __VA_ARGS__);                                                            \
    status = err;                                                                                  \
    goto label;                                                                                    \
  } while (0)
#define NVSHMEMI_ERROR_RET(status, err, ...)                                                       \
  do {                                                                                             \
    SHMEM_PLACED_(stderr, __VA_ARGS__);                                                            \
    status = err;                                                                                  \
    return status;                                                                                 \
  } while (0)

// The same where something is wrong: true, NULL, equal, not equal, not 0.
#define NVSHMEMI_CHECK_ERROR_JMP(wrong, status, err, label, ...)                                   \
  do {                                                                                             \
    if (wrong) NVSHMEMI_ERROR_JMP(status, err, label, __VA_ARGS__);                                \
  } while (0)
#define NVSHMEMI_NULL_ERROR_JMP(var, status, err, label, ...)                                      \
  NVSHMEMI_CHECK_ERROR_JMP((var) == NULL, status, err, label, __VA_ARGS__)
#define NVSHMEMI_EQ_ERROR_JMP(status, expected, err, label, ...)                                   \
  NVSHMEMI_CHECK_ERROR_JMP((status) == (expected), status, err, label, __VA_ARGS__)
#define NVSHMEMI_NE_ERROR_JMP(status, expected, err, label, ...)                                   \
  NVSHMEMI_CHECK_ERROR_JMP((status) != (expected), status, err, label, __VA_ARGS__)
#define NVSHMEMI_NZ_ERROR_JMP(status, err, label, ...)                                             \
  NVSHMEMI_CHECK_ERROR_JMP((status) != 0, status, err, label, __VA_ARGS__)
#define NVSHMEMI_NULL_ERROR_RET(var, status, err, ...)                                             \
  do {                                                                                             \
    if ((var) == NULL) NVSHMEMI_ERROR_RET(status, err, __VA_ARGS__);                               \
  } while (0)
#define NVSHMEMI_NE_ERROR_RET(status, expected, err, ...)                                          \
  do {                                                                                             \
    if ((status) != (expected)) NVSHMEMI_ERROR_RET(status, err, __VA_ARGS__);                      \
  } while (0)
#define NVSHMEMI_NZ_ERROR_RET(status, err, ...) NVSHMEMI_NE_ERROR_RET(status, 0, err, __VA_ARGS__)
#define NVSHMEMI_NZ_EXIT(status, ...)                                                              \
  do {                                                                                             \
    if ((status) != 0) NVSHMEMI_ERROR_EXIT(__VA_ARGS__);                                           \
  } while (0)
#define NVSHMEMI_NZ_SYSCHECK_EXIT(status, ...) NVSHMEMI_NZ_EXIT(status, __VA_ARGS__)

inline const char *nvshmemx_status_string(int status) {
  static const char *const names[] = {"NVSHMEMX_SUCCESS",
                                      "NVSHMEMX_ERROR_INVALID_VALUE",
                                      "NVSHMEMX_ERROR_OUT_OF_MEMORY",
                                      "NVSHMEMX_ERROR_NOT_SUPPORTED",
                                      "NVSHMEMX_ERROR_SYMMETRY",
                                      "NVSHMEMX_ERROR_GPU_NOT_SELECTED",
                                      "NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED",
                                      "NVSHMEMX_ERROR_INTERNAL"};
  return status >= 0 && size_t(status) < sizeof names / sizeof *names ? names[status]
                                                                      : "no status of NVSHMEM";
}

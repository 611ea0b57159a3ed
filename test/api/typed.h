// SPDX-License-Identifier: MIT
// Shared by the templates. See test/gen_tests.py.
#ifndef TEST_API_TYPED_H
#define TEST_API_TYPED_H

#include "harness.h"

#define CAT2(a, b) a##_##b
#define CAT(a, b) CAT2(a, b)
#define NAME(x) CAT(x, ID)
#define CAT3_(a, b, c) a##_##b##_##c
#define CAT3(a, b, c) CAT3_(a, b, c)
#define STRING2(x) #x
#define STRING(x) STRING2(x)

#define KIND_INT 1
#define KIND_FLOAT 2
#define KIND_COMPLEX 3

typedef uint8_t bits8_t;
typedef uint16_t bits16_t;
typedef uint32_t bits32_t;
typedef uint64_t bits64_t;
__extension__ typedef unsigned __int128 bits128_t;

// The context of a call: none means the form without ctx.
static const shmem_ctx_t no_ctx = SHMEM_CTX_INVALID;

// Which byte or element pattern PE pe has at index i, in 1 ... 101.
static inline uint64_t pattern(int pe, size_t i, int salt) {
  return ((uint64_t)(pe + 1) * 37 + i * 5 + (uint64_t)salt * 11) % 101 + 1;
}

// All lists of several families in one.
static inline int run_lists(const char *group, const struct pe_list *a, size_t na,
                            const struct pe_list *b, size_t nb) {
  struct pe_list *all = malloc((na + nb) * sizeof *all);
  if (!all) abort();
  memcpy(all, a, na * sizeof *a);
  memcpy(all + na, b, nb * sizeof *b);
  int rc = pe_run(group, all, na + nb);
  free(all);
  return rc;
}

#endif

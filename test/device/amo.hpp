// SPDX-License-Identifier: MIT
#ifndef TEST_DEVICE_AMO_HPP
#define TEST_DEVICE_AMO_HPP
#include "device.hpp"

enum Amo {
  amo_fetch,
  amo_set,
  amo_swap,
  amo_fetch_nbi,
  amo_swap_nbi, // of all types
  amo_cswap,
  amo_fetch_inc,
  amo_inc,
  amo_fetch_add,
  amo_add,
  amo_cswap_nbi,
  amo_fetch_inc_nbi,
  amo_fetch_add_nbi,
  amo_fetch_and,
  amo_and,
  amo_fetch_or,
  amo_or,
  amo_fetch_xor,
  amo_xor,
  amo_fetch_and_nbi,
  amo_fetch_or_nbi,
  amo_fetch_xor_nbi,
  amo_end
};

struct AmoCall {
  int op;
  bool with_ctx;
  shmem_ctx_t ctx;
  void *object, *out;
  long value, cond;
  int pe;
};

long amo_model(int op, long old, long value, long cond);
bool amo_fetches(int op);
// On the right neighbour's object, which is old before; result: my object afterwards, and what the
// call fetched.
void run_amo(int op, bool with_ctx, const void *old, long value, long cond, size_t size,
             void (*launch)(const AmoCall &), void *result);
#endif

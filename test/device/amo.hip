// SPDX-License-Identifier: MIT
#include "amo.hpp"

long amo_model(int op, long old, long value, long cond) {
  switch (op) {
  case amo_set:
  case amo_swap:
  case amo_swap_nbi:
    return value;
  case amo_cswap:
  case amo_cswap_nbi:
    return old == cond ? value : old;
  case amo_fetch_inc:
  case amo_inc:
  case amo_fetch_inc_nbi:
    return old + 1;
  case amo_fetch_add:
  case amo_add:
  case amo_fetch_add_nbi:
    return old + value;
  case amo_fetch_and:
  case amo_and:
  case amo_fetch_and_nbi:
    return old & value;
  case amo_fetch_or:
  case amo_or:
  case amo_fetch_or_nbi:
    return old | value;
  case amo_fetch_xor:
  case amo_xor:
  case amo_fetch_xor_nbi:
    return old ^ value;
  default:
    return old;
  }
}
bool amo_fetches(int op) {
  return op != amo_set && op != amo_inc && op != amo_add && op != amo_and && op != amo_or &&
         op != amo_xor;
}

void run_amo(int op, bool with_ctx, const void *old, long value, long cond, size_t size,
             void (*launch)(const AmoCall &), void *result) {
  static char *words; // the object, a gap, what was fetched
  static shmem_team_t team;
  static shmem_ctx_t ctx;
  if (!words) {
    words = static_cast<char *>(device_alloc(256, 0, true));
    int order[PE_MAX]; // downwards, but for the first two
    for (int i = 0; i < npes; i++) order[i] = npes - 1 - (i ^ (i < 2 && npes > 1));
    CHECK(shmemx_team_create(SHMEM_TEAM_WORLD, order, npes, nullptr, 0, &team) == 0, "create");
    CHECK(shmem_team_create_ctx(team, 0, &ctx) == 0, "ctx");
  }
  const int right = (me + 1) % npes;
  HIP(hipMemsetAsync(words, 0x77, 256, stream));
  to_device(words, old, size);
  finish_all();
  AmoCall c = {
      op,          with_ctx,
      ctx,         words,
      words + 128, value,
      cond,        with_ctx ? shmem_team_translate_pe(SHMEM_TEAM_WORLD, right, team) : right};
  launch(c);
  HIP(hipGetLastError());
  finish_all();
  HIP(hipMemcpy(result, words, size, hipMemcpyDeviceToHost));
  HIP(hipMemcpy(static_cast<char *>(result) + size, words + 128, size, hipMemcpyDeviceToHost));
  unsigned char rest[16];
  HIP(hipMemcpy(rest, words + size, sizeof rest, hipMemcpyDeviceToHost));
  for (unsigned char byte : rest) CHECK(byte == 0x77, "op %d wrote past its object", op);
}

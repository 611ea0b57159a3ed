// SPDX-License-Identifier: MIT
#ifndef TEST_DEVICE_RMA_HPP
#define TEST_DEVICE_RMA_HPP
#include "device.hpp"

typedef uint8_t bits8_t;
typedef uint16_t bits16_t;
typedef uint32_t bits32_t;
typedef uint64_t bits64_t;
struct bits128_t {
  uint64_t word[2];
};

enum Op {
  op_put,
  op_put_nbi,
  op_get,
  op_get_nbi,
  op_put_signal,
  op_put_signal_nbi,
  op_iput,
  op_iget,
  op_ibput,
  op_ibget,
  op_p,
  op_g
};
enum Form { thread, wave, wg };

struct Call {
  int op, scope;
  bool with_ctx;
  shmem_ctx_t ctx;
  void *dest;
  const void *source;
  ptrdiff_t dst, sst;
  size_t n, block;
  int pe;
  uint64_t *sig, signal;
  int sig_op;
};

// Runs op in all its forms with sizes, alignments (multiples of align bytes) and numbers of
// threads, and compares memory of this PE with the model's, byte by byte.
void run_forms(int op, size_t size, size_t align, void (*launch)(const Call &, unsigned threads));

#endif

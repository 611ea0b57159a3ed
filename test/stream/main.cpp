// SPDX-License-Identifier: MIT
#include "stream.hpp"

hipStream_t stream, second;

#define FAMILY(name)                                                                               \
  extern "C" struct pe_list stream_##name##_lists[];                                               \
  extern "C" const size_t stream_##name##_count;
FAMILY(reduce)
FAMILY(move)
FAMILY(order)
FAMILY(strided)
FAMILY(mix)
FAMILY(fill)
FAMILY(blocks)

// Without arguments all families, else those that are named.
int main(int argc, char **argv) {
  shmem_init();
  stream = make_stream(), second = make_stream();
  const struct {
    const char *name;
    const struct pe_list *lists;
    size_t count;
  } families[] = {{"reduce", stream_reduce_lists, stream_reduce_count},
                  {"move", stream_move_lists, stream_move_count},
                  {"order", stream_order_lists, stream_order_count},
                  {"strided", stream_strided_lists, stream_strided_count},
                  {"mix", stream_mix_lists, stream_mix_count},
                  {"fill", stream_fill_lists, stream_fill_count},
                  {"blocks", stream_blocks_lists, stream_blocks_count}};
  int rc = 0;
  for (const auto &f : families) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; i++) wanted |= strcmp(argv[i], f.name) == 0;
    if (wanted && !rc) rc = pe_run_tests(f.name, f.lists, f.count);
  }
  if (rc) shmem_global_exit(1);
  (void)hipStreamDestroy(second);
  (void)hipStreamDestroy(stream);
  shmem_finalize();
  return 0;
}

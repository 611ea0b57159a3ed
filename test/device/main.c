// SPDX-License-Identifier: MIT
#include "harness.h"

#define FAMILY(name)                                                                               \
  extern struct pe_list name##_lists[];                                                            \
  extern const size_t name##_count;
FAMILY(device_rma)
FAMILY(device_amo)
FAMILY(device_wait)
FAMILY(device_sync)
FAMILY(device_litmus)
FAMILY(device_coll)

void device_setup(void);
void device_teardown(void);

static const struct {
  const char *name;
  const struct pe_list *lists;
  const size_t *count;
} families[] = {{"rma", device_rma_lists, &device_rma_count},
                {"amo", device_amo_lists, &device_amo_count},
                {"wait", device_wait_lists, &device_wait_count},
                {"sync", device_sync_lists, &device_sync_count},
                {"litmus", device_litmus_lists, &device_litmus_count},
                {"coll", device_coll_lists, &device_coll_count}};

// Without arguments all families, else those that are named.
int main(int argc, char **argv) {
  int rc = 0;
  shmem_init();
  device_setup();
  for (size_t f = 0; f < COUNT(families) && !rc; f++) {
    int wanted = argc == 1;
    for (int i = 1; i < argc; i++) wanted |= strcmp(argv[i], families[f].name) == 0;
    if (wanted) rc = pe_run_tests(families[f].name, families[f].lists, *families[f].count);
  }
  if (rc) shmem_global_exit(1);
  device_teardown();
  shmem_finalize();
  return 0;
}

// SPDX-License-Identifier: MIT
// A plug-in that is linked with the library, which comes and goes with it.
#include <shmem.h>

long plugin_box;

void plugin_init(void);
void plugin_init(void) {
  shmem_init();
}

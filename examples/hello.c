// SPDX-License-Identifier: MIT
// Every PE writes a greeting into the symmetric memory of PE 0, which prints the greetings in order
// and checks that each came from the PE that should have sent it.
#include "util.h"

#define GREETING_BYTES 96

static const char help[] = "usage: hello\n"
                           "Every PE greets PE 0 with a put; PE 0 prints and checks them.\n";

static void greeting(char *text, int pe, int n_pes) {
  memset(text, 0, GREETING_BYTES);
  snprintf(text, GREETING_BYTES, "hello from PE %d of %d", pe, n_pes);
}

int main(int argc, char **argv) {
  shmem_init();
  if (argc > 1 && is_help(argv[1])) help_and_exit(help);
  if (argc > 1) usage_error("hello takes no argument, but got '%s'", argv[1]);

  const int me = shmem_my_pe(), n_pes = shmem_n_pes();
  int major, minor;
  char name[SHMEM_MAX_NAME_LEN];
  shmem_info_get_version(&major, &minor);
  shmem_info_get_name(name);
  if (me == 0) printf("%s, OpenSHMEM %d.%d\n", name, major, minor);

  char *board = symmetric((size_t)n_pes * GREETING_BYTES, "greetings");
  char mine[GREETING_BYTES];
  greeting(mine, me, n_pes);
  const double start = now();
  shmem_putmem(board + (size_t)me * GREETING_BYTES, mine, sizeof mine, 0);
  shmem_barrier_all();
  const double seconds = now() - start;

  long errors = 0;
  if (me == 0) {
    for (int pe = 0; pe < n_pes; ++pe) {
      const char *got = board + (size_t)pe * GREETING_BYTES;
      greeting(mine, pe, n_pes);
      printf("%.*s\n", GREETING_BYTES, got);
      errors += memcmp(got, mine, GREETING_BYTES) != 0;
    }
    printf("%d greetings in %.1f us: %.0f per second\n", n_pes, seconds * 1e6, n_pes / seconds);
  }
  // The macros this was compiled with must be those of the library it runs on.
  errors += major != SHMEM_MAJOR_VERSION || minor != SHMEM_MINOR_VERSION;
  shmem_free(board);
  return finish("hello", errors);
}

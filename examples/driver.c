// SPDX-License-Identifier: MIT
// A driver and its workers, as Ray, a notebook or a server has them: no launcher starts the
// workers, and the driver is no PE. The driver makes a unique id and passes its 128 bytes to the
// workers, here on their command lines; each worker joins the job with its rank.
#include "util.h"

#include <shmemx.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static const char help[] = "usage: driver N\n"
                           "Starts N workers, which pass a token round.\n";

static void to_hex(char *text, const shmemx_uniqueid_t *id) {
  for (size_t i = 0; i < sizeof id->internal; ++i)
    sprintf(text + 2 * i, "%02x", (unsigned)(unsigned char)id->internal[i]);
}
static void from_hex(shmemx_uniqueid_t *id, const char *text) {
  for (size_t i = 0; i < sizeof id->internal; ++i) {
    unsigned byte = 0;
    sscanf(text + 2 * i, "%2x", &byte);
    id->internal[i] = (char)byte;
  }
}

static int work(int rank, int n, const char *hex) {
  static long token = 0;
  shmemx_uniqueid_t id;
  from_hex(&id, hex);
  shmemx_init_attr_t attr = SHMEMX_INIT_ATTR_INITIALIZER;
  attr.rank = rank;
  attr.n = n;
  attr.uniqueid = &id;
  if (shmemx_init_attr(0, &attr)) {
    fprintf(stderr, "worker %d: %s\n", rank, shmemx_error_string());
    return EXIT_WRONG;
  }
  const int right = (rank + 1) % n;
  if (rank == 0) shmem_long_p(&token, 1, right);
  shmem_long_wait_until(&token, SHMEM_CMP_NE, 0);
  if (rank != 0) shmem_long_p(&token, token + 1, right);
  shmem_barrier_all();
  const bool right_token = token == (rank ? rank : n);
  if (rank == 0) printf("the token has been at %ld workers\n", token);
  shmem_finalize();
  return right_token ? 0 : EXIT_WRONG;
}

int main(int argc, char **argv) {
  if (argc == 5 && strcmp(argv[1], "worker") == 0)
    return work(atoi(argv[2]), atoi(argv[3]), argv[4]);
  const int n = argc == 2 ? atoi(argv[1]) : 0;
  if (n < 1) {
    fputs(help, stderr);
    return EXIT_USAGE;
  }
  shmemx_uniqueid_t id;
  if (shmemx_get_uniqueid(&id)) {
    fprintf(stderr, "driver: %s\n", shmemx_error_string());
    return EXIT_WRONG;
  }
  char hex[2 * sizeof id + 1], workers[16];
  pid_t *const started = calloc((size_t)n, sizeof *started);
  if (!started) return EXIT_WRONG;
  to_hex(hex, &id);
  snprintf(workers, sizeof workers, "%d", n);
  for (int rank = 0; rank < n; ++rank) {
    char number[16];
    snprintf(number, sizeof number, "%d", rank);
    const pid_t pid = fork();
    if (pid == 0) {
      execl("/proc/self/exe", argv[0], "worker", number, workers, hex, (char *)NULL);
      _exit(127);
    }
    if (pid < 0) {
      perror("driver: fork");
      // The workers that are there would wait for the others until SHMEM_BOOTSTRAP_TIMEOUT.
      while (rank-- > 0) kill(started[rank], SIGTERM);
      return EXIT_WRONG;
    }
    started[rank] = pid;
  }
  int status, failed = 0;
  while (wait(&status) > 0) failed |= status != 0;
  free(started);
  return failed ? EXIT_WRONG : 0;
}

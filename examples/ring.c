// SPDX-License-Identifier: MIT
// A token goes round the ring of PEs: each waits for it with shmem_long_wait_until and hands it on
// with shmem_long_p. The time of a hop is the one-way latency of an eight-byte put that another PE
// is waiting for. Every PE adds its own number to the token, so that a hop left out, done twice or
// done out of order leaves a wrong token behind.
#include "util.h"

static const char help[] = "usage: ring [--laps N]\n"
                           "  --laps N   times round the ring (default 2000)\n";

// Set by the PE before. The lap is in the token, so no value comes twice and none is missed.
static long inbox;

static long token_after(long lap, int pe, int n_pes) {
  const long sum_of_pes = (long)n_pes * (n_pes - 1) / 2;
  return lap * (sum_of_pes + n_pes) + (long)pe * (pe + 1) / 2 + pe + 1;
}

int main(int argc, char **argv) {
  shmem_init();
  const int me = shmem_my_pe(), n_pes = shmem_n_pes();
  long laps = 2000;
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--laps")))
      laps = parse_number("--laps", value, 1, 1000000000);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }

  const int next = (me + 1) % n_pes;
  long errors = 0, token = 0;
  shmem_barrier_all();
  const double start = now();
  for (long lap = 0; lap < laps; ++lap) {
    if (me != 0 || lap > 0) {
      shmem_long_wait_until(&inbox, SHMEM_CMP_GT, token); // more than what came last
      token = inbox;
      errors += token !=
                (me > 0 ? token_after(lap, me - 1, n_pes) : token_after(lap - 1, n_pes - 1, n_pes));
    }
    shmem_long_p(&inbox, token + me + 1, next);
  }
  if (me == 0) { // the last hop ends here
    shmem_long_wait_until(&inbox, SHMEM_CMP_EQ, token_after(laps - 1, n_pes - 1, n_pes));
    const double seconds = now() - start;
    const double hops = (double)laps * n_pes;
    printf("%ld laps over %d PEs: %.3f us a hop, %.0f hops per second\n", laps, n_pes,
           seconds / hops * 1e6, hops / seconds);
  }
  shmem_barrier_all();
  const long expected =
      me > 0 ? token_after(laps - 1, me - 1, n_pes) : token_after(laps - 1, n_pes - 1, n_pes);
  errors += inbox != expected;
  return finish("ring", errors);
}

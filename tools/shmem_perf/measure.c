// SPDX-License-Identifier: MIT
// How a row is measured: a few unmeasured batches find out how many calls make a batch long enough
// that reading the clock does not matter; then batches are repeated until the time for the row is
// used up, and the median, the best and the 95th percentile of the time a call are kept.
//
// PE 0 decides, the others follow: before each batch it writes the number of calls to them. In a
// pair test the PEs that have no part sleep between looks, so that they do not take a core from
// those that are measured.
#include "perf.h"

// The time of a call of all PEs is that of the slowest. A PE may leave the barrier before a batch
// early: over a network one PE in four took half as long again for a batch of two barriers as for
// one of sixteen, in whose every call all PEs took the same (2026-11-24).
static double batch_seconds(const struct test *t) {
  return t->kind == ALL ? 2e-3 : 100e-6;
}
#define MOST_SAMPLES 1001
#define COUNT_BITS 40 // an order is the batch number and the calls in it; calls 0 ends the test

static long *order;          // symmetric: what PE 0 wants from this PE
static long orders_done;     // here, how many orders were followed
static double statistics[3]; // symmetric: this PE's times, for PE 0 to look at
static long verdict;         // symmetric on PE 0: PEs whose data was wrong
static double sample[MOST_SAMPLES];

// The order is on the heap: static variables are symmetric too, but some libraries reach those of
// another process only with its help, and a sleeping PE gives none.
bool measure_setup(void) {
  order = shmem_align(64, 64);
  if (!order) return false;
  order[0] = order[1] = 0;
  shmem_barrier_all();
  return true;
}

static void give_order(const struct arena *a, int first, int last, size_t count) {
  ++orders_done;
  const long word = (orders_done << COUNT_BITS) | (long)count;
  for (int pe = first; pe <= last; ++pe)
    if (pe != a->me) shmem_long_atomic_set(order, word, pe);
}

static size_t next_order(bool sleeping) {
  static long last;
  if (sleeping) {
    const struct timespec nap = {.tv_nsec = 500000};
    while (!shmem_long_test(order, SHMEM_CMP_NE, last)) {
      shmem_quiet(); // for libraries that make progress only inside of calls
      nanosleep(&nap, NULL);
    }
  }
  shmem_long_wait_until(order, SHMEM_CMP_NE, last);
  last = *order;
  return (size_t)(last & ((1L << COUNT_BITS) - 1));
}

// Both are awake and here before the clock of a pair test starts.
static void shake_hands(const struct arena *a) {
  static long hands_shaken;
  ++hands_shaken;
  shmem_long_p(order + 1, hands_shaken, a->peer);
  shmem_long_wait_until(order + 1, SHMEM_CMP_GE, hands_shaken);
}

static double batch(struct arena *a, const struct test *t, size_t count) {
  if (t->kind == ALL)
    shmem_barrier_all();
  else if (t->partner && a->n_pes > 1)
    shake_hands(a);
  const double start = seconds_now();
  t->run(a, count);
  return seconds_now() - start;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Median, best and 95th percentile of the samples of this PE.
static void summarize(int samples) {
  qsort(sample, (size_t)samples, sizeof *sample, by_value);
  statistics[0] =
      samples % 2 ? sample[samples / 2] : (sample[samples / 2 - 1] + sample[samples / 2]) / 2;
  statistics[1] = sample[0];
  statistics[2] = sample[least((size_t)samples - 1, (size_t)(samples * 95 / 100))];
}

// PE 0's part. Every PE in `first`..`last` gets the same batches.
static int lead(struct arena *a, const struct test *t, const struct options *o, int first,
                int last) {
  const bool others = (t->kind == ALL || t->partner) && a->n_pes > 1;
  size_t count = 1;
  double seconds = 0;
  // Twice the same count: the second batch is warm, and the first of each count is not believed.
  for (bool again = false;; again = !again) {
    if (others) give_order(a, first, last, count);
    seconds = batch(a, t, count);
    if (!again) continue;
    if (seconds >= batch_seconds(t) || count >= (size_t)1 << 30) break;
    const double factor = seconds > 0 ? 1.3 * batch_seconds(t) / seconds : 16;
    count = (size_t)((double)count * (factor > 16 ? 16 : factor < 2 ? 2 : factor));
    if (count >= 16) count = (count + 15) / 16 * 16; // whole turns of the loop
  }
  const double stop = seconds_now() + o->budget;
  int samples = 0;
  while (samples < o->repetitions && samples < MOST_SAMPLES &&
         (samples < 3 || seconds_now() < stop)) {
    if (others) give_order(a, first, last, count);
    sample[samples++] = batch(a, t, count) / (double)count;
  }
  give_order(a, 1, a->n_pes - 1, 0);
  return samples;
}

// The others' part. The calls made while calibrating are samples too: fewer than half are cold.
static int follow(struct arena *a, const struct test *t) {
  const bool partner = t->kind == PAIR && a->me == 1;
  int samples = 0;
  size_t count, calibrated = 0;
  while ((count = next_order(t->kind == PAIR && !partner)) > 0) {
    if (t->kind == PAIR) {
      shake_hands(a);
      t->partner(a, count);
      continue;
    }
    const double seconds = batch(a, t, count) / (double)count;
    if (count != calibrated) samples = 0; // a new size of batch: what came before was calibration
    calibrated = count;
    if (samples < MOST_SAMPLES) sample[samples++] = seconds;
  }
  return samples;
}

static bool all_agree(const struct arena *a, bool good) {
  if (!good) shmem_long_atomic_add(&verdict, 1, 0);
  shmem_barrier_all();
  const bool agreed = shmem_long_g(&verdict, 0) == 0;
  shmem_barrier_all();
  if (a->me == 0) verdict = 0;
  shmem_barrier_all();
  return agreed;
}

// On all PEs. False if the data was wrong: then nothing is measured.
bool measure(struct arena *a, const struct test *t, const struct options *o, struct result *r) {
  const int last = t->kind == ALL ? a->n_pes - 1 : 1;
  if (t->check && !all_agree(a, t->check(a))) return false;
  *a->flag = 0;
  a->flag_count = 0;
  shmem_barrier_all();
  const int samples = a->me == 0 ? lead(a, t, o, 1, last) : follow(a, t);
  if (samples > 0) summarize(samples);
  shmem_barrier_all();
  *r = (struct result){.test = t, .bytes = t->sized ? a->bytes : 8};
  r->median = statistics[0];
  r->best = statistics[1];
  r->p95 = statistics[2];
  if (t->kind == ALL && a->me == 0) {
    for (int pe = 1; pe < a->n_pes; ++pe) {
      double theirs[3];
      shmem_getmem(theirs, statistics, sizeof theirs, pe);
      if (theirs[0] > r->median) r->median = theirs[0];
      if (theirs[1] > r->best) r->best = theirs[1];
      if (theirs[2] > r->p95) r->p95 = theirs[2];
    }
  }
  shmem_barrier_all();
  r->median *= 1e9;
  r->best *= 1e9;
  r->p95 *= 1e9;
  return true;
}

// SPDX-License-Identifier: MIT
// Integer sort in the manner of the ISx benchmark: every PE makes random keys, one bucket of the
// key range belongs to each PE, and the keys move once. A PE counts its keys per bucket, reserves
// room at each bucket's owner with an atomic fetch-add, puts the keys there, and sorts what it got.
#include "util.h"

static const char help[] = "usage: isx [--keys N] [--max-key N] [--rounds N] [--seed N]\n"
                           "  --keys N     keys on every PE (default 256k)\n"
                           "  --max-key N  keys are in [0, N) (default 256m)\n"
                           "  --rounds N   sorts of fresh keys (default 5)\n"
                           "  --seed N     (default 1)\n";

struct options {
  long keys, max_key, rounds, seed;
};

struct sorter {
  size_t keys;      // made on each PE
  uint64_t max_key; // keys are below
  uint64_t width;   // of a bucket
  uint32_t *made, *by_bucket, *scratch;
  size_t *count, *offset; // per bucket, in by_bucket
  size_t capacity;        // of received
  uint32_t *received;     // symmetric
  size_t *room_taken;     // symmetric: keys that came, or are coming, into received
};

struct parts {
  double count, exchange, sort;
};

static struct options parse(int argc, char **argv) {
  struct options o = {.keys = 256 << 10, .max_key = 256 << 20, .rounds = 5, .seed = 1};
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--keys")))
      o.keys = parse_number("--keys", value, 0, 1L << 40);
    else if ((value = option_value(argc, argv, &i, "--max-key")))
      o.max_key = parse_number("--max-key", value, 1, 1L << 32);
    else if ((value = option_value(argc, argv, &i, "--rounds")))
      o.rounds = parse_number("--rounds", value, 1, 1 << 20);
    else if ((value = option_value(argc, argv, &i, "--seed")))
      o.seed = parse_number("--seed", value, 0, LONG_MAX);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  return o;
}

static uint32_t key_at(const struct sorter *s, uint64_t stream, uint64_t n) {
  return (uint32_t)((random_bits(stream, n) >> 32) * s->max_key >> 32);
}

// The keys of this PE: a slice of one global sequence, whatever the number of PEs.
static void make_keys(struct sorter *s, uint64_t stream) {
  const uint64_t first = (uint64_t)shmem_my_pe() * s->keys;
  for (size_t i = 0; i < s->keys; ++i) s->made[i] = key_at(s, stream, first + i);
}

static void count_buckets(struct sorter *s, size_t n_pes) {
  memset(s->count, 0, n_pes * sizeof *s->count);
  for (size_t i = 0; i < s->keys; ++i) ++s->count[s->made[i] / s->width];
  for (size_t b = 0, sum = 0; b < n_pes; ++b) {
    s->offset[b] = sum;
    sum += s->count[b];
  }
}

static void group_by_bucket(struct sorter *s) {
  for (size_t i = 0; i < s->keys; ++i)
    s->by_bucket[s->offset[s->made[i] / s->width]++] = s->made[i];
}

static void exchange(struct sorter *s, int n_pes) {
  for (int i = 1; i <= n_pes; ++i) {
    const int pe = (shmem_my_pe() + i) % n_pes; // not all to the same PE at once
    const size_t count = s->count[pe];
    if (count == 0) continue;
    const size_t at = shmem_size_atomic_fetch_add(s->room_taken, count, pe);
    if (at + count > s->capacity)
      fatal("isx: PE %d has room for %zu keys, but %zu came", pe, s->capacity, at + count);
    const uint32_t *from = s->by_bucket + (s->offset[pe] - count); // offset is the bucket's end now
    shmem_putmem_nbi(s->received + at, from, count * sizeof *from, pe);
  }
  shmem_barrier_all(); // completes the puts of all PEs
}

// Least significant byte first; four stable passes over 32-bit keys.
static void radix_sort(uint32_t *keys, uint32_t *scratch, size_t count) {
  for (int shift = 0; shift < 32; shift += 8) {
    size_t at[257] = {0};
    for (size_t i = 0; i < count; ++i) ++at[(keys[i] >> shift & 255) + 1];
    for (int d = 0; d < 256; ++d) at[d + 1] += at[d];
    for (size_t i = 0; i < count; ++i) scratch[at[keys[i] >> shift & 255]++] = keys[i];
    uint32_t *swap = keys;
    keys = scratch;
    scratch = swap;
  }
}

// The most keys any bucket gets in any round sizes the symmetric buffer.
static size_t largest_bucket(struct sorter *s, const struct options *o) {
  const int n_pes = shmem_n_pes();
  size_t *largest = symmetric(sizeof *largest, "a counter"), most = 0;
  for (long round = 0; round < o->rounds; ++round) {
    make_keys(s, (uint64_t)(o->seed + round));
    count_buckets(s, (size_t)n_pes);
    for (int pe = 0; pe < n_pes; ++pe)
      if (s->count[pe]) shmem_size_atomic_add(s->room_taken, s->count[pe], pe);
    shmem_barrier_all();
    if (*s->room_taken > *largest) *largest = *s->room_taken;
    *s->room_taken = 0;
    shmem_barrier_all();
  }
  for (int pe = 0; pe < n_pes; ++pe) {
    const size_t theirs = shmem_size_g(largest, pe);
    if (theirs > most) most = theirs;
  }
  shmem_barrier_all();
  shmem_free(largest);
  return most;
}

struct summary {
  uint64_t count, sum, mixed; // mixed: sum of a hash of each key, to notice changes that cancel
  uint32_t lowest, highest;
};

static void add_key(struct summary *t, uint32_t key) {
  ++t->count;
  t->sum += key;
  t->mixed += random_bits(~0u, key);
}

// Sorted here, in this PE's bucket, above what the PEs before hold; and all PEs together hold
// exactly the keys that were made, which PE 0 makes again.
static long verify(const struct sorter *s, uint64_t stream) {
  static struct summary mine; // symmetric: PE 0 reads it
  const int me = shmem_my_pe(), n_pes = shmem_n_pes();
  const uint64_t low = (uint64_t)me * s->width, high = low + s->width;
  const size_t count = *s->room_taken;
  long errors = 0;
  mine = (struct summary){0};
  for (size_t i = 0; i < count; ++i) {
    const uint32_t key = s->received[i];
    errors += key < low || key >= high || (i > 0 && s->received[i - 1] > key);
    add_key(&mine, key);
  }
  mine.lowest = count ? s->received[0] : 0;
  mine.highest = count ? s->received[count - 1] : 0;
  shmem_barrier_all();
  if (me == 0) {
    struct summary made = {0}, got = {0}, theirs;
    for (uint64_t i = 0; i < (uint64_t)n_pes * s->keys; ++i) add_key(&made, key_at(s, stream, i));
    for (int pe = 0; pe < n_pes; ++pe) {
      shmem_getmem(&theirs, &mine, sizeof theirs, pe);
      if (theirs.count == 0) continue;
      errors += got.count > 0 && theirs.lowest < got.highest;
      got.highest = theirs.highest;
      got.count += theirs.count;
      got.sum += theirs.sum;
      got.mixed += theirs.mixed;
    }
    errors += got.count != made.count || got.sum != made.sum || got.mixed != made.mixed;
  }
  shmem_barrier_all();
  return errors;
}

static long sort_round(struct sorter *s, uint64_t stream, struct parts *t) {
  const int n_pes = shmem_n_pes();
  make_keys(s, stream);
  *s->room_taken = 0;
  shmem_barrier_all();
  const double begin = now();
  count_buckets(s, (size_t)n_pes);
  group_by_bucket(s);
  const double counted = now();
  exchange(s, n_pes);
  const double exchanged = now();
  radix_sort(s->received, s->scratch, *s->room_taken);
  shmem_barrier_all();
  const double sorted = now();
  t->count += counted - begin;
  t->exchange += exchanged - counted;
  t->sort += sorted - exchanged;
  return verify(s, stream);
}

int main(int argc, char **argv) {
  shmem_init();
  const struct options o = parse(argc, argv);
  const size_t n_pes = (size_t)shmem_n_pes();
  struct sorter s = {.keys = (size_t)o.keys, .max_key = (uint64_t)o.max_key};
  s.width = (s.max_key + n_pes - 1) / n_pes;
  s.made = private_memory(s.keys * sizeof *s.made, "keys");
  s.by_bucket = private_memory(s.keys * sizeof *s.by_bucket, "keys");
  s.count = private_memory(n_pes * sizeof *s.count, "bucket counts");
  s.offset = private_memory(n_pes * sizeof *s.offset, "bucket offsets");
  s.room_taken = symmetric(sizeof *s.room_taken, "a counter");
  s.capacity = largest_bucket(&s, &o);
  s.received = symmetric(s.capacity * sizeof *s.received, "keys");
  s.scratch = private_memory(s.capacity * sizeof *s.scratch, "keys");

  long errors = 0;
  struct parts t = {0};
  for (long round = 0; round < o.rounds; ++round)
    errors += sort_round(&s, (uint64_t)(o.seed + round), &t);
  if (shmem_my_pe() == 0) {
    const double total = t.count + t.exchange + t.sort;
    const double keys = (double)s.keys * (double)n_pes * (double)o.rounds;
    printf("%zu keys on each of %zu PEs, %ld rounds: count %.3f ms, exchange %.3f ms, "
           "sort %.3f ms: %.2f million keys per second\n",
           s.keys, n_pes, o.rounds, t.count * 1e3, t.exchange * 1e3, t.sort * 1e3,
           keys / total * 1e-6);
  }
  free(s.scratch);
  shmem_free(s.received);
  shmem_free(s.room_taken);
  free(s.offset);
  free(s.count);
  free(s.by_bucket);
  free(s.made);
  return finish("isx", errors);
}

// SPDX-License-Identifier: MIT
// A pipeline over all PEs. PE 0 makes chunks of random words, every PE transforms a chunk in a way
// that depends on the PE and on the chunk, and hands it on with shmem_putmem_signal; the last PE
// compares what arrives with the same stages applied one after the other.
//
// Each PE owns a few slots. A signal word per slot counts the chunks that arrived in it; the owner
// returns a credit to the sender when the slot may be written again. No other synchronization is
// needed: the signal orders the data before it, the credit orders the slot's reuse.
#include "util.h"

static const char help[] = "usage: put_signal [--chunk BYTES] [--chunks N] [--slots N]\n"
                           "  --chunk BYTES  size of a chunk, a multiple of 8 (default 64k)\n"
                           "  --chunks N     chunks sent through the pipeline (default 200)\n"
                           "  --slots N      chunks in flight between two PEs (default 4)\n";

struct options {
  long chunk_bytes, chunks, slots;
};

static struct options parse(int argc, char **argv) {
  struct options o = {.chunk_bytes = 64 << 10, .chunks = 200, .slots = 4};
  for (int i = 1; i < argc; ++i) {
    const char *value;
    if (is_help(argv[i])) help_and_exit(help);
    if ((value = option_value(argc, argv, &i, "--chunk")))
      o.chunk_bytes = parse_number("--chunk", value, 8, 1L << 40);
    else if ((value = option_value(argc, argv, &i, "--chunks")))
      o.chunks = parse_number("--chunks", value, 1, 1L << 40);
    else if ((value = option_value(argc, argv, &i, "--slots")))
      o.slots = parse_number("--slots", value, 1, 1 << 20);
    else
      usage_error("unknown argument '%s'", argv[i]);
  }
  if (o.chunk_bytes % 8 != 0) usage_error("--chunk: %ld is not a multiple of 8", o.chunk_bytes);
  return o;
}

static uint64_t rotate(uint64_t x, int by) {
  return x << (by & 63) | x >> (-by & 63);
}

// One stage. It is not commutative between PEs, so a stage left out or out of order shows.
static void stage(uint64_t *words, size_t count, int pe, uint64_t chunk) {
  const uint64_t key = random_bits((uint64_t)pe + 1, chunk);
  for (size_t i = 0; i < count; ++i) words[i] = rotate(words[i] + key, 7) * 0x9fb21c651e98df25u;
}

static void source_chunk(uint64_t *words, size_t count, uint64_t chunk) {
  for (size_t i = 0; i < count; ++i) words[i] = random_bits(0, chunk * count + i);
}

int main(int argc, char **argv) {
  shmem_init();
  const struct options o = parse(argc, argv);
  const int me = shmem_my_pe(), n_pes = shmem_n_pes();
  const bool first = me == 0, last = me == n_pes - 1;
  const size_t bytes = (size_t)o.chunk_bytes, count = bytes / sizeof(uint64_t);
  const uint64_t slots = (uint64_t)o.slots;

  char *inbox = symmetric(bytes * slots, "slots");
  uint64_t *arrived = symmetric(slots * sizeof *arrived, "signals");
  uint64_t *credit = symmetric(sizeof *credit, "the credit counter"); // slots freed by the next PE
  uint64_t *work = private_memory(bytes, "the working chunk");
  uint64_t *expected = private_memory(bytes, "the expected chunk");

  long errors = 0;
  double checking = 0; // the check is not part of the rate
  shmem_barrier_all();
  const double start = now();
  for (uint64_t c = 0; c < (uint64_t)o.chunks; ++c) {
    const uint64_t slot = c % slots, round = c / slots + 1;
    if (first) {
      source_chunk(work, count, c);
    } else {
      const uint64_t seen = shmem_signal_wait_until(&arrived[slot], SHMEM_CMP_GE, round);
      errors += seen != round; // one more would mean that the credits did not hold
      memcpy(work, inbox + slot * bytes, bytes);
      shmem_uint64_atomic_add(credit, 1, me - 1);
    }
    stage(work, count, me, c);
    if (!last) {
      if (c >= slots) shmem_uint64_wait_until(credit, SHMEM_CMP_GE, c - slots + 1);
      shmem_putmem_signal(inbox + slot * bytes, work, bytes, &arrived[slot], 1, SHMEM_SIGNAL_ADD,
                          me + 1);
    } else {
      const double check_start = now();
      source_chunk(expected, count, c);
      for (int pe = 0; pe < n_pes; ++pe) stage(expected, count, pe, c);
      errors += memcmp(work, expected, bytes) != 0;
      checking += now() - check_start;
    }
  }
  if (last) {
    const double seconds = now() - start - checking;
    printf("%ld chunks of %zu bytes through %d PEs: %.3f ms, %.3f GB/s out of the pipeline\n",
           o.chunks, bytes, n_pes, seconds * 1e3,
           (double)bytes * (double)o.chunks / seconds * 1e-9);
  }
  shmem_barrier_all();
  // Each slot must have got exactly its share of the chunks, and every slot its credit.
  for (uint64_t s = 0; s < slots; ++s) {
    const uint64_t share = (uint64_t)o.chunks / slots + (s < (uint64_t)o.chunks % slots);
    errors += shmem_signal_fetch(&arrived[s]) != (first ? 0 : share);
  }
  errors += *credit != (last ? 0 : (uint64_t)o.chunks);

  shmem_barrier_all();
  free(expected);
  free(work);
  shmem_free(credit);
  shmem_free(arrived);
  shmem_free(inbox);
  return finish("put_signal", errors);
}

// SPDX-License-Identifier: MIT
// shmem_perf: the costs of an OpenSHMEM library. Public API only, version 1.4 or later, so that the
// same program measures any library; newer routines are used where the header has them.
#ifndef SHMEM_PERF_H
#define SHMEM_PERF_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE // processor affinity
#endif

#include <shmem.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef SHMEM_MAJOR_VERSION
#define VERSION (SHMEM_MAJOR_VERSION * 100 + SHMEM_MINOR_VERSION)
#else
#define VERSION (_SHMEM_MAJOR_VERSION * 100 + _SHMEM_MINOR_VERSION)
#endif

#define HAVE_TEAMS (VERSION >= 105)
#define HAVE_SIGNALS (VERSION >= 105)
#define HAVE_SCANS (VERSION >= 106)
#define HAVE_SIGNAL_SET (VERSION >= 106)

// The objects of a test. The same on all PEs but for the pointers.
struct arena {
  int me, n_pes;
  int peer;              // pair tests: PE 0's partner, and PE 0 for the partner
  size_t bytes;          // size of this run of a sized test, else 8
  char *source, *target; // symmetric, of room bytes each, page aligned
  char *there;           // shmem_ptr of the peer's target, NULL if it cannot be reached so
  uint64_t *flag;        // symmetric, a page of its own: ping-pong and signals
  long *lock;            // symmetric, 0 on all PEs; a counter behind it
  uint64_t *flag_there;  // shmem_ptr of the peer's flag
  uint64_t flag_count;   // ping-pongs done so far
  size_t room;
  bool raw; // PE 0 and its partner reach each other with loads and stores
};

enum kind {
  PAIR, // PE 0 calls run; its partner calls partner with the same count, if there is one, or waits
  ALL   // every PE calls run; the slowest PE counts
};

enum unit { NANOSECONDS, BYTES_PER_SECOND, OPS_PER_SECOND };

struct test {
  const char *group, *name;
  const char *panel;     // of the plot; NULL: the group
  const char *reference; // the raw test that this one cannot beat, or NULL
  enum kind kind;
  enum unit unit;
  bool sized;      // run for each size, else once
  bool raw;        // needs shmem_ptr to the peer
  double per_call; // what one call moves: multiple of bytes, or number of operations; 0 is 1
  // Bytes of target that a call with this many bytes needs, on n PEs; NULL: just the bytes.
  size_t (*footprint)(size_t bytes, int n_pes);
  void (*run)(struct arena *, size_t count);
  void (*partner)(struct arena *, size_t count);
  // Called on all PEs; whether the data of one call is right on this one. NULL: nothing to check.
  bool (*check)(struct arena *);
};

extern const struct test rma_tests[], amo_tests[], sync_tests[], coll_tests[]; // end: no name

// The result of a test, in ns a call.
struct result {
  const struct test *test;
  size_t bytes;
  double median, best, p95;
};

struct options {
  const char *groups, *tests; // comma separated; NULL: all
  const char *plot;           // file, or NULL
  size_t smallest, largest, step;
  bool sized;      // the sizes were asked for
  double budget;   // seconds a row
  int repetitions; // batches a row, at most
  int calls;       // in a row, of --stream, --gemm and --engine; 0: as many as usual
  bool json, list, bind;
  bool device, machine, scopes, buffers, stream, gemm, engine;
  size_t shape[3]; // of --gemm
};

bool measure_setup(void);
bool measure(struct arena *arena, const struct test *test, const struct options *options,
             struct result *result);

void coll_setup(int n_pes);
bool coll_work_fits(size_t bytes);

void report_begin(const struct options *options);
void report_row(const struct result *result);
void report_end(long wrong);

static inline double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

// A pattern that depends on the PE that wrote it, the test's salt, and the place.
static inline void fill_pattern(char *to, size_t bytes, int pe, int salt) {
  for (size_t i = 0; i < bytes; ++i)
    to[i] = (char)((i * 131 + (i >> 8) * 17 + (size_t)pe * 29 + (size_t)salt * 7 + 1) & 0xff);
}

static inline bool has_pattern(const char *at, size_t bytes, int pe, int salt) {
  for (size_t i = 0; i < bytes; ++i)
    if (at[i] != (char)((i * 131 + (i >> 8) * 17 + (size_t)pe * 29 + (size_t)salt * 7 + 1) & 0xff))
      return false;
  return true;
}

// The compiler may neither drop nor move memory accesses across this.
#define COMPILER_BARRIER() __asm__ volatile("" ::: "memory")

// Runs the statement count times, sixteen to a turn of the loop, so that the loop costs a small
// part of a nanosecond each.
#define TIMES4(...) __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__
#define REPEAT(count, ...)                                                                         \
  do {                                                                                             \
    size_t left_ = (count);                                                                        \
    for (; left_ >= 16; left_ -= 16) {                                                             \
      TIMES4(TIMES4_AGAIN(__VA_ARGS__))                                                            \
    }                                                                                              \
    for (; left_ > 0; --left_) {                                                                   \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  } while (0)
#define TIMES4_AGAIN(...) __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__

#endif

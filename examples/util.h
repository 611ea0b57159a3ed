// SPDX-License-Identifier: MIT
// Shared by all examples: a clock, checked numbers from the command line, and two ways to stop.
// usage_error() is for errors that all PEs see alike (the command line): they leave together.
// fatal() is for errors that one PE alone sees (a file, a failed allocation).
#ifndef EXAMPLES_UTIL_H
#define EXAMPLES_UTIL_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L // clock_gettime
#endif

#include <shmem.h>

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXIT_WRONG 1 // the result did not verify
#define EXIT_USAGE 2 // bad command line, unreadable file, no memory

static inline double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#if defined(__GNUC__)
#define PRINTF_LIKE __attribute__((format(printf, 1, 2), noreturn, unused))
#else
#define PRINTF_LIKE
#endif

PRINTF_LIKE static void usage_error(const char *format, ...) {
  if (shmem_my_pe() == 0) {
    va_list args;
    va_start(args, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, args);
    fputs(" (see --help)\n", stderr);
    va_end(args);
  }
  shmem_finalize();
  exit(EXIT_USAGE);
}

PRINTF_LIKE static void fatal(const char *format, ...) {
  char line[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  fprintf(stderr, "error: %s\n", line);
  fflush(NULL);
  shmem_global_exit(EXIT_USAGE);
  exit(EXIT_USAGE); // not reached; a header may lack _Noreturn on shmem_global_exit
}

// Prints the help on PE 0 and ends the program on all PEs.
__attribute__((noreturn, unused)) static void help_and_exit(const char *text) {
  if (shmem_my_pe() == 0) fputs(text, stdout);
  shmem_finalize();
  exit(EXIT_SUCCESS);
}

// A whole decimal number in [lowest, highest], with an optional k, m or g (powers of 1024).
static inline long parse_number(const char *what, const char *text, long lowest, long highest) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  bool fits = end != text && errno == 0;
  if (fits && *end != '\0') {
    int shift = *end == 'k' || *end == 'K'   ? 10
                : *end == 'm' || *end == 'M' ? 20
                : *end == 'g' || *end == 'G' ? 30
                                             : 0;
    fits = shift != 0 && end[1] == '\0' && value <= (LONG_MAX >> shift) &&
           value >= -(LONG_MAX >> shift);
    if (fits) value *= 1L << shift;
  }
  if (!fits) usage_error("%s: '%s' is not a whole number", what, text);
  if (value < lowest || value > highest)
    usage_error("%s: %s is not between %ld and %ld", what, text, lowest, highest);
  return value;
}

// The value of option `*index`: "--name=value" or "--name value". NULL when it is another option.
static inline const char *option_value(int argc, char **argv, int *index, const char *name) {
  const char *arg = argv[*index];
  size_t length = strlen(name);
  if (strncmp(arg, name, length) != 0) return NULL;
  if (arg[length] == '=') return arg + length + 1;
  if (arg[length] != '\0') return NULL;
  if (*index + 1 >= argc) usage_error("%s needs a value", name);
  return argv[++*index];
}

static inline bool is_help(const char *arg) {
  return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

// Symmetric memory, zeroed. All PEs call it with the same size; it never returns NULL. An
// allocation fails on all PEs or on none, so they leave together and one of them says why.
static inline void *symmetric(size_t bytes, const char *what) {
  void *memory = shmem_calloc(bytes ? bytes : 1, 1);
  if (memory) return memory;
  if (shmem_my_pe() == 0)
    fprintf(stderr,
            "error: no room for %zu bytes of %s in the symmetric heap: raise "
            "SHMEM_SYMMETRIC_SIZE\n",
            bytes, what);
  shmem_finalize();
  exit(EXIT_USAGE);
}

static inline void *private_memory(size_t bytes, const char *what) {
  void *memory = malloc(bytes ? bytes : 1);
  if (!memory) fatal("no memory for %zu bytes of %s", bytes, what);
  return memory;
}

// Every PE says how many errors it saw; all of them get the sum. Made of one atomic add and plain
// gets, so that a broken reduction cannot hide its own errors.
static inline long total_errors(long mine) {
  static long total;
  shmem_long_atomic_add(&total, mine, 0);
  shmem_barrier_all();
  long sum = shmem_long_g(&total, 0);
  shmem_barrier_all();
  if (shmem_my_pe() == 0) total = 0;
  shmem_barrier_all();
  return sum;
}

// The common end: PE 0 says whether the result was right, all PEs return the same exit status.
static inline int finish(const char *program, long errors_here) {
  long errors = total_errors(errors_here);
  if (shmem_my_pe() == 0) {
    if (errors == 0)
      printf("%s: verified\n", program);
    else
      fprintf(stderr, "%s: WRONG: %ld errors\n", program, errors);
  }
  fflush(NULL);
  shmem_finalize();
  return errors == 0 ? EXIT_SUCCESS : EXIT_WRONG;
}

// First of `count` items, split over `parts` as evenly as can be, that belongs to `part`;
// part == parts gives the end.
static inline size_t split_begin(size_t count, size_t parts, size_t part) {
  return count / parts * part + (part < count % parts ? part : count % parts);
}

// SplitMix64 as a counter based generator: the n-th number of a stream costs the same for all n,
// so every PE can make, and check, any part of the data without talking to another.
static inline uint64_t random_bits(uint64_t stream, uint64_t n) {
  uint64_t z = (stream + 1) * 0xd1342543de82ef95u + n * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

#endif

// SPDX-License-Identifier: MIT
// Runs CMocka tests on several PEs at once. Every PE runs the same list in the same order with a
// barrier before each test. CMocka leaves a failed test by longjmp and goes on with the next one;
// the others may still be inside a collective. So the hook that runs before the next test (and
// after the last) ends the whole job when the test before did not get to its end. PE 0 writes the
// list of tests to stdout, the others are silent until they fail.
#ifndef TEST_HARNESS_H
#define TEST_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <shmem.h>

struct pe_test {
  const char *name;
  void (*run)(void);
};

struct pe_list {
  const char *name; // goes in front of the names of the tests: the type, or ""
  const struct pe_test *tests;
  size_t n;
};

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define PE_LIST(name, array)                                                                       \
  { name, array, COUNT(array) }

extern int me, npes; // of the world team, set by pe_run

// Initializes, runs all lists, finalizes; the exit status of main.
int pe_run(const char *group, const struct pe_list *lists, size_t n);
// The same between an init and a finalize of the caller's own.
int pe_run_tests(const char *group, const struct pe_list *lists, size_t n);

void pe_fail(const char *file, int line, const char *cond, const char *format, ...)
    __attribute__((noreturn, format(printf, 4, 5)));

// One assertion, with the values that matter in the message.
#define CHECK(cond, ...)                                                                           \
  do {                                                                                             \
    if (!(cond)) pe_fail(__FILE__, __LINE__, #cond, __VA_ARGS__);                                  \
  } while (0)

// A team together with what its membership must be, computed here and not by the library.
enum { PE_MAX = 64 };
struct pe_team {
  const char *name;
  shmem_team_t team; // SHMEM_TEAM_INVALID where this PE is not a member
  int n, me;         // size; my index or -1
  int pe[PE_MAX];    // world PE of each index
};
// Splits teams of all shapes off the world, the world itself first; all PEs get the same list.
size_t pe_teams(struct pe_team *teams, size_t max);
void pe_teams_free(struct pe_team *teams, size_t n);

// Returns the number of rounds of a test: SHMEM_TEST_ROUNDS, which slow machines set to a small
// number, or else `usual`.
int pe_rounds(int usual);
uint64_t pe_random(uint64_t *state);
double pe_seconds(void);

#endif

// SPDX-License-Identifier: MIT
#include "harness.h"
#include <shmemx.h>

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

int me, npes;

static const struct pe_test *current;
static const char *current_name;
static bool ended = true;

void pe_fail(const char *file, int line, const char *cond, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "%s:%d: PE %d of %d: %s: not true: %s (%s)\n", file, line, me, npes,
          current_name ? current_name : "", cond, text);
  _fail(file, line);
  abort();
}

// The job ends here when the test before failed: a message for this PE, then all PEs end.
static void leave_if_failed(void) {
  if (ended) return;
  fprintf(stderr, "PE %d of %d: test '%s' failed\n", me, npes, current_name);
  fflush(NULL);
  shmem_global_exit(1);
}

static int before(void **state) {
  leave_if_failed();
  shmem_barrier_all();
  const struct CMUnitTest *test = *state;
  current = test->initial_state;
  current_name = test->name;
  ended = false;
  return 0;
}

static void run(void **state) {
  (void)state;
  current->run();
  ended = true;
}

int pe_rounds(int usual) {
  const char *rounds = getenv("SHMEM_TEST_ROUNDS");
  return rounds ? atoi(rounds) : usual;
}

static int after_all(void **state) {
  (void)state;
  leave_if_failed();
  shmem_barrier_all();
  return 0;
}

int pe_run_tests(const char *group, const struct pe_list *lists, size_t n) {
  me = shmem_my_pe();
  npes = shmem_n_pes();
  size_t total = 0;
  const char *only = getenv("TEST_ONLY"); // what the names of tests must have in them
  for (size_t i = 0; i < n; i++) total += lists[i].n;
  struct CMUnitTest *tests = calloc(2 * total, sizeof *tests);
  char(*names)[96] = calloc(total, sizeof *names);
  if (!tests || !names) abort();
  size_t k = 0;
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < lists[i].n; j++) {
      const struct pe_test *t = &lists[i].tests[j];
      snprintf(names[k], sizeof *names, "%s%s%s", lists[i].name, *lists[i].name ? " " : "",
               t->name);
      if (only && !strstr(names[k], only)) continue;
      // The second half holds what the hook needs: CMocka gives it one pointer only.
      tests[total + k] = (struct CMUnitTest){names[k], NULL, NULL, NULL, (void *)(uintptr_t)t};
      tests[k] = (struct CMUnitTest){names[k], run, before, NULL, &tests[total + k]};
      k++;
    }
  }
  int out = -1;
  if (me != 0) {
    fflush(stdout);
    out = dup(STDOUT_FILENO);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDOUT_FILENO);
    close(null);
  }
  int failed = _cmocka_run_group_tests(group, tests, k, NULL, after_all);
  if (out >= 0) {
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
  }
  free(names);
  free(tests);
  return failed;
}

int pe_run(const char *group, const struct pe_list *lists, size_t n) {
  shmem_init();
  int failed = pe_run_tests(group, lists, n);
  if (failed) shmem_global_exit(1);
  shmem_finalize();
  return 0;
}

// The triplet counts in the team number parent of the list, of which all PEs are members.
static void add_child(struct pe_team *teams, size_t *n, size_t max, const char *name, size_t parent,
                      int start, int stride, int size) {
  if (*n == max) return;
  struct pe_team *t = &teams[(*n)++];
  *t = (struct pe_team){.name = name, .n = size, .me = -1, .team = (shmem_team_t)-1};
  for (int i = 0; i < size; i++) {
    t->pe[i] = *n == 1 ? i : teams[parent].pe[start + i * stride];
    if (t->pe[i] == me) t->me = i;
  }
  if (*n == 1) {
    t->team = SHMEM_TEAM_WORLD;
    return;
  }
  int rc = shmem_team_split_strided(teams[parent].team, start, stride, size, NULL, 0, &t->team);
  CHECK(rc == 0, "split %s %d:%d:%d gives %d", name, start, stride, size, rc);
  CHECK((t->team != SHMEM_TEAM_INVALID) == (t->me >= 0), "%s", name);
}

static void add(struct pe_team *teams, size_t *n, size_t max, const char *name, int start,
                int stride, int size) {
  add_child(teams, n, max, name, 0, start, stride, size);
}

// A list: every second PE from `from` on, then the others backwards. For 3 PEs or more there is no
// triplet of the order.
static void add_list(struct pe_team *teams, size_t *n, size_t max, const char *name, int from) {
  if (*n == max) return;
  struct pe_team *t = &teams[(*n)++];
  *t = (struct pe_team){.name = name, .me = -1, .team = SHMEM_TEAM_INVALID};
  for (int pe = from; pe < npes; pe += 2) t->pe[t->n++] = pe;
  for (int pe = npes - 1; pe >= from; pe--)
    if ((pe - from) % 2) t->pe[t->n++] = pe;
  for (int i = 0; i < t->n; i++)
    if (t->pe[i] == me) t->me = i;
  if (t->me < 0) return; // only members call
  CHECK(shmemx_team_create(SHMEM_TEAM_WORLD, t->pe, t->n, NULL, 0, &t->team) == 0, "%s", name);
}

size_t pe_teams(struct pe_team *teams, size_t max) {
  size_t n = 0;
  add(teams, &n, max, "world", 0, 1, npes);
  add(teams, &n, max, "copy of the world", 0, 1, npes);
  if (npes > 1) add(teams, &n, max, "reversed", npes - 1, -1, npes);
  if (npes > 1) add(teams, &n, max, "all but the first", 1, 1, npes - 1);
  if (npes > 2) add(teams, &n, max, "even", 0, 2, (npes + 1) / 2);
  if (npes > 2) add(teams, &n, max, "odd", 1, 2, npes / 2);
  if (npes > 3) add(teams, &n, max, "every third, downwards", npes - 1, -3, (npes - 1) / 3 + 1);
  add(teams, &n, max, "the last one alone", npes - 1, 1, 1);
  if (npes > 2) { // number 2 is reversed: these go upwards by 1 and downwards by 2
    add_child(teams, &n, max, "child of reversed, turned again", 2, npes - 1, -1, npes);
    add_child(teams, &n, max, "every second of reversed", 2, 1, 2, npes / 2);
  }
  if (npes > 2) add_list(teams, &n, max, "a list", 0);
  if (npes > 2) add_child(teams, &n, max, "child of a list", n - 1, npes - 1, -1, npes - 1);
  if (npes > 3) add_list(teams, &n, max, "a list without the first", 1);
  return n;
}

void pe_teams_free(struct pe_team *teams, size_t n) {
  for (size_t i = n; i-- > 0;)
    if (teams[i].team != SHMEM_TEAM_WORLD) shmem_team_destroy(teams[i].team);
}

uint64_t pe_random(uint64_t *state) { // splitmix64
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double pe_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

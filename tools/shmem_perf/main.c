// SPDX-License-Identifier: MIT
#include "perf.h"
#include "plot.h"

#ifdef HAVE_DEVICE // not where another library is measured
#include "device.h"
#endif

#include <errno.h>
#include <sched.h>
#include <stdarg.h>

static const char help[] =
    "usage: shmem_perf [options]\n"
    "Measures an OpenSHMEM library: PE 0 with PE 1, and collectives over all PEs.\n"
    "  --groups LIST      of: raw,latency,rate,bandwidth,amo,sync,memory,signal,coll (all)\n"
    "  --tests LIST       only tests whose name is in the list (see --list)\n"
    "  --sizes MIN:MAX    bytes, powers of two times MIN (default 8:64m); k, m, g are understood\n"
    "  --coll-max BYTES   largest size of a collective (default 1m)\n"
    "  --step N           factor from one size to the next (default 2)\n"
    "  --time SECONDS     for each row (default 0.05)\n"
    "  --repetitions N    batches a row, at most (default 101)\n"
#ifdef HAVE_DEVICE
    "  --device           measure the routines of kernels, on the GPUs (--sizes, --step, "
    "--repetitions)\n"
    "  --machine          measure the GPUs and their links without the library (--sizes: the "
    "largest,\n"
    "                     --repetitions)\n"
    "  --stream           measure collectives on a stream of the GPUs, and NCCL or RCCL beside "
    "them\n"
    "                     (--sizes, --step, --repetitions; SHMEM_PERF_NCCL: the library's file)\n"
    "  --scopes           with --device: bandwidth of waves and single threads, too\n"
    "  --buffers          with --device and --stream: on memory of hipMalloc's that is "
    "registered,\n"
    "                     not on the heap\n"
    "  --gemm             measure products of matrices in bf16, of one PE and of all together, "
    "and\n"
    "                     the vendor's libraries, where they are found (--repetitions, at most 9)\n"
    "  --shape M,N,K      with --gemm: C is M x N, of K products each; instead of a table of "
    "shapes\n"
#endif
    "  --bind             pin PE i to the i-th processor that the launcher allows, if there are\n"
    "                     as many as PEs; for one node\n"
    "  --json             JSON instead of a table\n"
    "  --plot FILE        draw the results: PE 0 writes an SVG at the end\n"
    "  --list             name the tests and end\n"
    "Ratios to raw rows need the raw group in the same run. With more PEs than cores the numbers\n"
    "are those of the scheduler.\n";

static const struct test *const all_tests[] = {rma_tests, amo_tests, sync_tests, coll_tests};

static void leave(int status) {
  fflush(NULL);
  shmem_finalize();
  exit(status);
}

__attribute__((format(printf, 1, 2), noreturn)) static void usage_error(const char *format, ...) {
  if (shmem_my_pe() == 0) {
    va_list args;
    va_start(args, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, args);
    fputs(" (see --help)\n", stderr);
    va_end(args);
  }
  leave(2);
  abort(); // not reached
}

static size_t parse_size(const char *what, const char *text, char end_with, const char **rest) {
  char *end;
  errno = 0;
  const unsigned long long value = strtoull(text, &end, 10);
  int shift = 0;
  if (*end == 'k' || *end == 'K') shift = 10;
  if (*end == 'm' || *end == 'M') shift = 20;
  if (*end == 'g' || *end == 'G') shift = 30;
  const char *after = end + (shift != 0);
  if (*text < '0' || *text > '9' || errno != 0 || *after != end_with || value == 0 ||
      value > (1ull << 40) >> shift)
    usage_error("%s: '%s' is not a size or a number in range", what, text);
  if (rest) *rest = after + (end_with != '\0');
  return (size_t)value << shift;
}

static bool in_list(const char *list, const char *name) {
  const size_t length = strlen(name);
  for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
    if (strncmp(p, name, length) == 0 && (p[length] == ',' || p[length] == '\0')) return true;
  return !list;
}

// Every word of a list must name something: a typing error must not measure nothing.
static void check_list(const char *what, const char *list, bool groups) {
  for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
    const size_t length = strcspn(p, ",");
    bool found = false;
    for (size_t l = 0; l < sizeof all_tests / sizeof *all_tests; ++l)
      for (const struct test *t = all_tests[l]; t->name; ++t) {
        const char *name = groups ? t->group : t->name;
        found = found || (strlen(name) == length && strncmp(name, p, length) == 0);
      }
    if (!found) usage_error("%s: there is no '%.*s'", what, (int)length, p);
  }
}

static size_t coll_max = 1 << 20;

static struct options parse(int argc, char **argv) {
  struct options o = {
      .smallest = 8, .largest = 64 << 20, .step = 2, .budget = 0.05, .repetitions = 101};
  for (int i = 1; i < argc; ++i) {
    const char *arg = argv[i], *value = strchr(arg, '=');
    const size_t length = value ? (size_t)(value++ - arg) : strlen(arg);
#define IS(name) (length == sizeof(name) - 1 && memcmp(arg, name, length) == 0)
    if (IS("--help") || IS("-h")) {
      if (shmem_my_pe() == 0) fputs(help, stdout);
      leave(0);
    }
    if (IS("--json")) {
      o.json = true;
      continue;
    }
#ifdef HAVE_DEVICE
    if (IS("--stream")) {
      o.stream = true;
      continue;
    }
    if (IS("--device")) {
      o.device = true;
      continue;
    }
    if (IS("--machine")) {
      o.machine = true;
      continue;
    }
    if (IS("--scopes")) {
      o.scopes = true;
      continue;
    }
    if (IS("--buffers")) {
      o.buffers = true;
      continue;
    }
    if (IS("--gemm")) {
      o.gemm = true;
      continue;
    }
#endif
    if (IS("--bind")) {
      o.bind = true;
      continue;
    }
    if (IS("--list")) {
      o.list = true;
      continue;
    }
    if (!IS("--groups") && !IS("--tests") && !IS("--sizes") && !IS("--coll-max") && !IS("--step") &&
        !IS("--time") && !IS("--repetitions") && !IS("--shape") && !IS("--plot"))
      usage_error("unknown argument '%s'", arg);
    if (!value && ++i >= argc) usage_error("%s needs a value", arg);
    if (!value) value = argv[i];
    if (IS("--groups")) o.groups = value;
    if (IS("--tests")) o.tests = value;
    if (IS("--plot")) o.plot = value;
    if (IS("--coll-max")) coll_max = parse_size("--coll-max", value, '\0', NULL);
    if (IS("--step")) o.step = parse_size("--step", value, '\0', NULL);
    if (IS("--repetitions"))
      o.repetitions = (int)least(1001, parse_size("--repetitions", value, '\0', NULL));
    if (IS("--sizes")) {
      const char *rest;
      o.smallest = parse_size("--sizes", value, ':', &rest);
      o.largest = parse_size("--sizes", rest, '\0', NULL);
    }
    if (IS("--shape")) {
      const char *rest;
      o.shape[0] = parse_size("--shape", value, ',', &rest);
      o.shape[1] = parse_size("--shape", rest, ',', &rest);
      o.shape[2] = parse_size("--shape", rest, '\0', NULL);
    }
    if (IS("--time")) {
      char *end;
      o.budget = strtod(value, &end);
      if (end == value || *end != '\0' || !(o.budget > 0 && o.budget <= 3600))
        usage_error("--time: '%s' is not a number of seconds", value);
    }
#undef IS
  }
  if (o.smallest % 8 != 0) usage_error("--sizes: %zu is not a multiple of 8", o.smallest);
  if (o.largest < o.smallest) usage_error("--sizes: the largest is below the smallest");
  if (o.step < 2) usage_error("--step: must be 2 or more");
  check_list("--groups", o.groups, true);
  check_list("--tests", o.tests, false);
  return o;
}

// Before anything is measured, so that no long run is for nothing. All PEs end if PE 0 cannot.
static void begin_plot(const char *file) {
  static int failed;
  if (file && shmem_my_pe() == 0 && !plot_begin(file)) {
    fprintf(stderr, "error: PE 0: --plot: cannot write '%s': %s\n", file, strerror(errno));
    failed = 1;
  }
  shmem_barrier_all();
  if (shmem_int_g(&failed, 0)) leave(2);
}

// Draws, then ends with this status, or with 1 if the plot cannot be written.
static void end(const struct options *o, int status) {
  if (!plot_end()) {
    fprintf(stderr, "error: PE 0: --plot: cannot write '%s': %s\n", o->plot, strerror(errno));
    status = 1;
  }
  leave(status);
}

static bool wanted(const struct options *o, const struct test *t) {
  return in_list(o->groups, t->group) && in_list(o->tests, t->name);
}

// The largest size a test is run with.
static size_t largest(const struct options *o, const struct test *t) {
  if (!t->sized) return 8;
  return strcmp(t->group, "coll") == 0 ? least(coll_max, o->largest) : o->largest;
}

static size_t footprint(const struct test *t, size_t bytes, int n_pes) {
  return t->footprint ? t->footprint(bytes, n_pes) : bytes;
}

static struct arena make_arena(const struct options *o) {
  struct arena a = {.me = shmem_my_pe(), .n_pes = shmem_n_pes()};
  a.peer = a.me == 0 && a.n_pes > 1 ? 1 : 0;
  a.room = 4096;
  for (size_t l = 0; l < sizeof all_tests / sizeof *all_tests; ++l)
    for (const struct test *t = all_tests[l]; t->name; ++t) {
      const size_t need = wanted(o, t) ? footprint(t, largest(o, t), a.n_pes) : 0;
      if (need != SIZE_MAX && need > a.room) a.room = need;
    }
  a.room = (a.room + 4095) / 4096 * 4096;
  const size_t asked = a.room;
  for (;; a.room = a.room / 2 / 4096 * 4096) {
    if (a.room == 0) {
      if (a.me == 0) fprintf(stderr, "error: no room in the symmetric heap\n");
      leave(2);
    }
    a.source = shmem_align(4096, a.room);
    a.target = a.source ? shmem_align(4096, a.room) : NULL;
    if (a.target) break;
    shmem_free(a.source);
  }
  if (a.room < asked && a.me == 0)
    fprintf(stderr,
            "note: the symmetric heap has room for buffers of %zu bytes, not %zu: larger sizes "
            "are left out (SHMEM_SYMMETRIC_SIZE)\n",
            a.room, asked);
  a.flag = shmem_align(4096, 4096);
  a.lock = shmem_align(4096, 4096);
  if (!a.flag || !a.lock || !measure_setup()) {
    if (a.me == 0) fprintf(stderr, "error: no room in the symmetric heap\n");
    leave(2);
  }
  memset(a.lock, 0, 4096);
  memset(a.source, 1, a.room); // no page fault is measured
  memset(a.target, 0, a.room);
  memset(a.flag, 0, 4096);
  shmem_barrier_all();
  a.there = shmem_ptr(a.target, a.peer);
  a.flag_there = shmem_ptr(a.flag, a.peer);
  // Only PE 0 and its partner use the pointers, but all PEs must take the same way.
  static long out_of_reach;
  if (a.me <= 1 && !(a.there && a.flag_there)) shmem_long_atomic_add(&out_of_reach, 1, 0);
  shmem_barrier_all();
  a.raw = shmem_long_g(&out_of_reach, 0) == 0;
  return a;
}

static long run_test(struct arena *a, const struct test *t, const struct options *o) {
  long wrong = 0;
  if (t->kind == PAIR && t->partner && a->n_pes == 1) return 0;
  if (t->raw && !a->raw) return 0;
  for (size_t bytes = t->sized ? o->smallest : 8; bytes <= largest(o, t); bytes *= o->step) {
    struct result r;
    a->bytes = bytes;
    if (footprint(t, bytes, a->n_pes) > a->room) break;
    if (measure(a, t, o, &r)) {
      if (a->me == 0) report_row(&r);
    } else {
      ++wrong;
      if (a->me == 0)
        fprintf(stderr, "WRONG: %s %s, %zu bytes: the data is not right; not measured\n", t->group,
                t->name, bytes);
    }
  }
  return wrong;
}

static void bind_to_processor(void) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < shmem_n_pes())
    return;
  int seen = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || seen++ != shmem_my_pe()) continue;
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET(cpu, &mine);
    sched_setaffinity(0, sizeof mine, &mine);
    return;
  }
}

// All PEs compute for a moment: a scheduler that put two on one core spreads them while others are
// idle, and the clock frequency rises.
static void settle(void) {
  const double stop = seconds_now() + 0.1;
  volatile unsigned long work = 0;
  while (seconds_now() < stop) work = work + 1;
  shmem_barrier_all();
}

static void list_tests(void) {
  for (size_t l = 0; l < sizeof all_tests / sizeof *all_tests; ++l)
    for (const struct test *t = all_tests[l]; t->name; ++t)
      printf("%-10s %s%s\n", t->group, t->name, t->sized ? " (by size)" : "");
}

int main(int argc, char **argv) {
  shmem_init();
  const struct options o = parse(argc, argv);
  if (o.list) {
    if (shmem_my_pe() == 0) list_tests();
    leave(0);
  }
  begin_plot(o.plot);
#ifdef HAVE_DEVICE
  if (o.device || o.stream || o.machine) {
    const struct device_options d = {.smallest = o.smallest,
                                     .largest = o.largest,
                                     .step = o.step,
                                     .threads = 1024,
                                     .workgroups = 128,
                                     .runs = (int)least((size_t)o.repetitions, 21),
                                     .count = 2000,
                                     .scopes = o.scopes,
                                     .buffers = o.buffers,
                                     .json = o.json};
    if (o.machine) machine_perf(&d);
    if (o.device) device_perf(&d);
    if (o.stream) stream_perf(&d);
    end(&o, 0);
  }
  if (o.gemm) {
    const struct gemm_options g = {.m = o.shape[0],
                                   .n = o.shape[1],
                                   .k = o.shape[2],
                                   .runs = (int)least((size_t)o.repetitions, 9),
                                   .json = o.json};
    gemm_perf(&g);
    end(&o, 0);
  }
#endif
  if (o.bind) bind_to_processor();
  settle();
  coll_setup(shmem_n_pes());
  struct arena arena = make_arena(&o);
  if (arena.me == 0) report_begin(&o);
  long wrong = 0;
  // Raw rows first, so that the others can be compared with them.
  for (int raw = 1; raw >= 0; --raw)
    for (size_t l = 0; l < sizeof all_tests / sizeof *all_tests; ++l)
      for (const struct test *t = all_tests[l]; t->name; ++t)
        if (wanted(&o, t) && (strcmp(t->group, "raw") == 0) == raw)
          wrong += run_test(&arena, t, &o);
  if (arena.me == 0) report_end(wrong);
  shmem_barrier_all();
  end(&o, wrong == 0 ? 0 : 1);
}

// SPDX-License-Identifier: MIT
#include "perf.h"
#include "plot.h"

#ifdef HAVE_DEVICE // not where another library is measured
#include "device.h"
#endif

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdarg.h>

static const char help[] =
    "usage: shmem_perf [options]\n"
    "Measures an OpenSHMEM library: PE 0 with PE 1, and collectives over all PEs.\n"
    "  --groups LIST      of: raw,latency,rate,bandwidth,amo,sync,memory,signal,coll (all)\n"
    "  --tests LIST       only tests whose name is in the list (see --list); with --engine, of:\n"
    "                     norm,moe,copy,wire\n"
    "  --sizes MIN:MAX    bytes, powers of two times MIN (default 8:64m); k, m, g are understood;\n"
    "                     with --engine of norm and wire, instead of a table of sizes\n"
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
    "  --engine           measure what engines of large models call, in graphs: all-reduce with "
    "residual\n"
    "                     and RMSNorm, tokens to experts and back (--repetitions, at most 21)\n"
    "  --shape M,N,K      with --gemm: C is M x N, of K products each; instead of a table of "
    "shapes\n"
    "  --calls N          with --stream, --gemm and --engine: calls in a row, timed together (20, "
    "or 100\n"
    "                     short ones on a stream)\n"
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

// Of --engine.
static const char *const families[] = {"norm", "moe", "copy", "wire"};

// Every word of a list must name something: a typing error must not measure nothing.
static void check_list(const char *what, const char *list, bool groups, bool engine) {
  for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
    const size_t length = strcspn(p, ",");
    bool found = false;
    for (size_t i = 0; engine && i < sizeof families / sizeof *families; ++i)
      found = found || (strlen(families[i]) == length && strncmp(families[i], p, length) == 0);
    for (size_t l = 0; !engine && l < sizeof all_tests / sizeof *all_tests; ++l)
      for (const struct test *t = all_tests[l]; t->name; ++t) {
        const char *name = groups ? t->group : t->name;
        found = found || (strlen(name) == length && strncmp(name, p, length) == 0);
      }
    if (!found)
      usage_error("%s: there is no '%.*s'; %s", what, (int)length, p,
                  engine ? "with --engine there are norm, moe, copy and wire"
                         : "--list shows them");
  }
}

static size_t coll_max = 1 << 20;

// A size that ends with end_with; *text moves behind it.
static size_t part(const char *what, const char **text, char end_with) {
  return parse_size(what, *text, end_with, text);
}

// clang-format off
enum { HELP = 'h', JSON = 256, BIND, LIST, GROUPS, TESTS, SIZES, COLL_MAX, STEP, TIME, REPETITIONS,
       SHAPE, CALLS, PLOT, DEVICE, MACHINE, STREAM, SCOPES, BUFFERS, GEMM, ENGINE };
static const struct option long_options[] = {
    {"help", 0, 0, HELP}, {"json", 0, 0, JSON}, {"bind", 0, 0, BIND}, {"list", 0, 0, LIST},
    {"groups", 1, 0, GROUPS}, {"tests", 1, 0, TESTS}, {"sizes", 1, 0, SIZES},
    {"coll-max", 1, 0, COLL_MAX}, {"step", 1, 0, STEP}, {"time", 1, 0, TIME},
    {"repetitions", 1, 0, REPETITIONS}, {"shape", 1, 0, SHAPE}, {"calls", 1, 0, CALLS},
    {"plot", 1, 0, PLOT},
#ifdef HAVE_DEVICE
    {"device", 0, 0, DEVICE}, {"machine", 0, 0, MACHINE}, {"stream", 0, 0, STREAM},
    {"scopes", 0, 0, SCOPES}, {"buffers", 0, 0, BUFFERS}, {"gemm", 0, 0, GEMM},
    {"engine", 0, 0, ENGINE},
#endif
    {0, 0, 0, 0}};
// clang-format on

static double parse_seconds(const char *text) {
  char *end;
  const double seconds = strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds > 0 && seconds <= 3600))
    usage_error("--time: '%s' is not a number of seconds", text);
  return seconds;
}

static bool *flag(struct options *o, int option) {
  return option == JSON      ? &o->json
         : option == BIND    ? &o->bind
         : option == LIST    ? &o->list
         : option == DEVICE  ? &o->device
         : option == MACHINE ? &o->machine
         : option == STREAM  ? &o->stream
         : option == SCOPES  ? &o->scopes
         : option == BUFFERS ? &o->buffers
         : option == GEMM    ? &o->gemm
         : option == ENGINE  ? &o->engine
                             : NULL;
}

static void set(struct options *o, int option, const char *value) {
  if (flag(o, option)) *flag(o, option) = true;
  if (option == GROUPS) o->groups = value;
  if (option == TESTS) o->tests = value;
  if (option == PLOT) o->plot = value;
  if (option == COLL_MAX) coll_max = part("--coll-max", &value, '\0');
  if (option == STEP) o->step = part("--step", &value, '\0');
  if (option == TIME) o->budget = parse_seconds(value);
  if (option == REPETITIONS) o->repetitions = (int)least(1001, part("--repetitions", &value, '\0'));
  if (option == CALLS) o->calls = (int)least(1000, part("--calls", &value, '\0'));
  if (option == SIZES) {
    o->smallest = part("--sizes", &value, ':');
    o->largest = part("--sizes", &value, '\0');
    o->sized = true;
  }
  for (int i = 0; i < 3 && option == SHAPE; ++i)
    o->shape[i] = part("--shape", &value, i < 2 ? ',' : '\0');
}

static struct options parse(int argc, char **argv) {
  struct options o = {
      .smallest = 8, .largest = 64 << 20, .step = 2, .budget = 0.05, .repetitions = 101};
  opterr = 0; // PE 0 alone says what is wrong
  for (int option; (option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1;) {
    if (option == HELP) {
      if (shmem_my_pe() == 0) fputs(help, stdout);
      leave(0);
    }
    if (option == ':') usage_error("%s needs a value", argv[optind - 1]);
    if (option == '?') usage_error("unknown argument '%s'", argv[optind - 1]);
    set(&o, option, optarg);
  }
  if (optind < argc) usage_error("unknown argument '%s'", argv[optind]);
  if (o.smallest % 8 != 0) usage_error("--sizes: %zu is not a multiple of 8", o.smallest);
  if (o.largest < o.smallest) usage_error("--sizes: the largest is below the smallest");
  if (o.step < 2) usage_error("--step: must be 2 or more");
  check_list("--groups", o.groups, true, false);
  check_list("--tests", o.tests, false, o.engine);
  if (o.engine && o.sized && !in_list(o.tests, "norm") && !in_list(o.tests, "wire"))
    usage_error("--sizes: of --engine, norm and wire have sizes, and --tests names neither");
  return o;
}

// Before anything is measured, so that no long run is for nothing. All PEs end if PE 0 cannot.
static void begin_plot(const char *file) {
  static int failed;
  if (file && shmem_my_pe() == 0) failed = !plot_begin(file);
  shmem_barrier_all();
  if (shmem_int_g(&failed, 0)) leave(2);
}

// Draws, then ends with this status, or with 1 if the plot cannot be written.
static void end(int status) {
  leave(plot_end() ? status : 1);
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
                                     .calls = o.calls,
                                     .scopes = o.scopes,
                                     .buffers = o.buffers,
                                     .json = o.json};
    if (o.machine) machine_perf(&d);
    if (o.device) device_perf(&d);
    if (o.stream) stream_perf(&d);
    end(0);
  }
  if (o.gemm) {
    const struct gemm_options g = {.m = o.shape[0],
                                   .n = o.shape[1],
                                   .k = o.shape[2],
                                   .runs = (int)least((size_t)o.repetitions, 9),
                                   .calls = o.calls,
                                   .json = o.json};
    gemm_perf(&g);
    end(0);
  }
  if (o.engine) {
    const struct engine_options e = {.runs = (int)least((size_t)o.repetitions, 21),
                                     .calls = o.calls,
                                     .smallest = o.sized ? o.smallest : 0,
                                     .largest = o.largest,
                                     .step = o.step,
                                     .norm = in_list(o.tests, "norm"),
                                     .moe = in_list(o.tests, "moe"),
                                     .copy = in_list(o.tests, "copy"),
                                     .wire = in_list(o.tests, "wire"),
                                     .json = o.json};
    engine_perf(&e);
    end(0);
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
  end(wrong == 0 ? 0 : 1);
}

// SPDX-License-Identifier: MIT
// The rows as a table, with the ratio to the raw row measured in the same run, or as JSON.
#include "perf.h"
#include "plot.h"

#include <math.h>

struct raw_row {
  const char *name;
  size_t bytes;
  double median;
};

static const struct options *options;
static struct raw_row raw[256];
static size_t raw_rows;
static const char *group;
static bool any_row;

static double raw_median(const char *name, size_t bytes) {
  if (!name) return NAN;
  for (size_t i = 0; i < raw_rows; ++i)
    if (raw[i].bytes == bytes && strcmp(raw[i].name, name) == 0) return raw[i].median;
  return NAN;
}

// Calls in windows and round trips count as their single operations.
static double per_operation(const struct result *r, double ns) {
  const struct test *t = r->test;
  return t->per_call > 0 && t->unit != BYTES_PER_SECOND ? ns / t->per_call : ns;
}

static double rate(const struct result *r, double ns) {
  const double times = r->test->per_call > 0 ? r->test->per_call : 1;
  return (r->test->unit == BYTES_PER_SECOND ? (double)r->bytes : 1) * times / ns * 1e3;
}

void report_begin(const struct options *o) {
  options = o;
  char name[SHMEM_MAX_NAME_LEN];
  shmem_info_get_name(name);
  plot_title("shmem_perf: %s, OpenSHMEM %d.%d, %d PEs", name, VERSION / 100, VERSION % 100,
             shmem_n_pes());
  if (o->json) {
    printf("{\"library\": \"");
    for (const char *p = name; *p; ++p)
      if (*p != '"' && *p != '\\' && (unsigned char)*p >= 32) putchar(*p);
    printf("\", \"version\": \"%d.%d\", \"pes\": %d,\n \"rows\": [", VERSION / 100, VERSION % 100,
           shmem_n_pes());
  } else {
    printf("%s, OpenSHMEM %d.%d, %d PEs\n", name, VERSION / 100, VERSION % 100, shmem_n_pes());
    printf("times are of one call; p95 is the 95th percentile of the batches; x raw is the time "
           "against the\nplain loads, stores, copies or atomics of the raw group\n");
  }
}

void report_row(const struct result *r) {
  const struct test *t = r->test;
  const double median = per_operation(r, r->median), best = per_operation(r, r->best),
               p95 = per_operation(r, r->p95);
  if (strcmp(t->group, "raw") == 0 && raw_rows < sizeof raw / sizeof *raw)
    raw[raw_rows++] = (struct raw_row){t->name, r->bytes, median};
  const double ratio = median / raw_median(t->reference, r->bytes);
  if (options->json) {
    printf("%s\n  {\"group\": \"%s\", \"test\": \"%s\", \"bytes\": %zu, \"ns\": %.4g, "
           "\"min_ns\": %.4g, \"p95_ns\": %.4g",
           any_row ? "," : "", t->group, t->name, r->bytes, median, best, p95);
    if (t->unit == BYTES_PER_SECOND) printf(", \"mb_per_s\": %.5g", rate(r, r->median));
    if (t->unit == OPS_PER_SECOND) printf(", \"mops_per_s\": %.5g", rate(r, r->median));
    if (!isnan(ratio)) printf(", \"x_raw\": %.4g", ratio);
    printf("}");
  } else {
    if (!group || strcmp(group, t->group) != 0)
      printf("\n%-10s %-26s %10s %12s %12s %12s %14s %8s\n", t->group, "test", "bytes", "median ns",
             "min ns", "p95 ns", "rate", "x raw");
    group = t->group;
    printf("%-10s %-26s %10zu %12.2f %12.2f %12.2f ", t->group, t->name, r->bytes, median, best,
           p95);
    if (t->unit == NANOSECONDS)
      printf("%14s", "");
    else
      printf("%9.1f %4s", rate(r, r->median), t->unit == BYTES_PER_SECOND ? "MB/s" : "Mops");
    if (isnan(ratio))
      printf("%9s\n", "");
    else
      printf(" %8.2f\n", ratio);
  }
  any_row = true;
  const bool other = strcmp(t->group, "raw") == 0;
  char name[64];
  snprintf(name, sizeof name, "%s%s", other ? "raw " : "", t->name);
  plot_add(&(struct plot_point){.panel = t->panel ? t->panel : t->group,
                                .name = name,
                                .other = other,
                                .bytes = t->sized ? (double)r->bytes : 0,
                                .value = t->unit == NANOSECONDS        ? median
                                         : t->unit == BYTES_PER_SECOND ? rate(r, r->median) * 1e-3
                                                                       : rate(r, r->median),
                                .unit = (const char *[]){"ns", "GB/s", "Mops/s"}[t->unit]});
  fflush(stdout);
}

void report_end(long wrong) {
  if (options->json)
    printf("\n ],\n \"wrong\": %ld, \"complete\": true}\n", wrong);
  else if (wrong == 0)
    printf("\nthe data of every test was right\n");
  fflush(stdout);
}

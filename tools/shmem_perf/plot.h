// SPDX-License-Identifier: MIT
// shmem_perf --plot: the results of a run, as an SVG. PE 0 gives points to shmem_plot, a script,
// while it prints rows; on other PEs, and without --plot, these do nothing.
#ifndef SHMEM_PERF_PLOT_H
#define SHMEM_PERF_PLOT_H

#include <stdbool.h>

struct plot_point {
  const char *panel; // points of a panel and a unit share its axes
  const char *name;  // of the line, or of the bar; a panel takes at most 8 lines
  bool other;        // not the library's but the bare machine's or a vendor's: drawn hollow
  double bytes;      // where on the line; 0: a bar
  double value;
  const char *unit; // ns or us: lines are on a logarithmic scale; all else begins at 0
};

#ifdef __cplusplus
extern "C" {
#endif
bool plot_begin(const char *file); // whether the script can draw; if not, a line has said why
__attribute__((format(printf, 1, 2))) void plot_title(const char *format, ...);
void plot_add(const struct plot_point *point);
bool plot_end(void); // draws; whether the file was written, and if not, a line has said why
#ifdef __cplusplus
}
#endif

#endif

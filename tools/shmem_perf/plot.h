// SPDX-License-Identifier: MIT
// shmem_perf --plot: what a run measured, as an SVG. PE 0 collects points while it prints rows, and
// draws them at the end; on other PEs, and without --plot, these do nothing.
#ifndef SHMEM_PERF_PLOT_H
#define SHMEM_PERF_PLOT_H

#include <stdbool.h>

struct plot_point {
  const char *panel;  // points of a panel share its axes
  const char *series; // has a colour; "" is not in the legend
  const char *peer;   // NULL, or whose it is when not ours: the same colour, dashed
  const char *group;  // NULL: a point of a line over bytes; else one of this group of bars
  double bytes, value;
  const char *unit; // ns or us: a logarithmic scale; any other: a linear one
};

#ifdef __cplusplus
extern "C" {
#endif
bool plot_begin(const char *file); // whether the file can be written, else errno
__attribute__((format(printf, 1, 2))) void plot_title(const char *format, ...);
void plot_add(const struct plot_point *point);
bool plot_end(void); // whether the file was written, else errno
#ifdef __cplusplus
}
#endif

#endif

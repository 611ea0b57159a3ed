// SPDX-License-Identifier: MIT
#ifndef _GNU_SOURCE
#define _GNU_SOURCE // strdup
#endif
#include "plot.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// In pixels. A panel is its title, its area and the labels of the axis below; on the right the
// names of lines, or what does not fit of a bar's value. The names of bars are on the left.
enum { WIDTH = 1110, LEFT = 74, RIGHT = 844, HEAD = 44, HEIGHT = 300, FOOT = 56 };
enum { NAMES = RIGHT + 30, SAMPLE = 40, LINE_OF_NAMES = 16, SLOT = 20, BAR = 14, MOST_TICKS = 12 };

// Apart by hue, dark and light in turns, and by dash where there is only grey. The first is that of
// bars.
static const struct look {
  const char *colour, *dash;
} looks[] = {{"#1f5fa8", "none"},    {"#e07b00", "9 3"},         {"#1b7837", "2.5 2.5"},
             {"#d45fa5", "9 3 2 3"}, {"#000000", "16 4"},        {"#b09000", "5 3"},
             {"#5e3c99", "1.5 4"},   {"#4f9fd4", "16 3 2 3 2 3"}};
#define LOOKS (sizeof looks / sizeof *looks)

static FILE *file;
static char title[256];
static struct plot_point *points;
static size_t count, room;

bool plot_begin(const char *name) {
  file = fopen(name, "w");
  return file != NULL;
}

void plot_title(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(title, sizeof title, format, args);
  va_end(args);
}

static const char *copy(const char *text) {
  char *to = strdup(text);
  if (!to) abort();
  return to;
}

void plot_add(const struct plot_point *p) {
  if (!file) return;
  if (count == room) {
    room = room ? 2 * room : 256;
    points = realloc(points, room * sizeof *points);
    if (!points) abort();
  }
  points[count++] = (struct plot_point){.panel = copy(p->panel),
                                        .name = copy(p->name),
                                        .other = p->other,
                                        .bytes = p->bytes,
                                        .value = p->value,
                                        .unit = copy(p->unit)};
}

// --- text ---------------------------------------------------------------------------------------

static void put_text(const char *text) {
  for (const unsigned char *p = (const unsigned char *)text; *p; ++p)
    if (*p == '<')
      fputs("&lt;", file);
    else if (*p == '&')
      fputs("&amp;", file);
    else
      fputc(*p < 32 || *p > 126 ? '?' : *p, file);
}

__attribute__((format(printf, 5, 6))) static void label(double x, double y, const char *anchor,
                                                        double turn, const char *format, ...) {
  char text[320];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"", x, y, anchor);
  if (turn != 0) fprintf(file, " transform=\"rotate(%g %.1f %.1f)\"", turn, x, y);
  fputc('>', file);
  put_text(text);
  fputs("</text>\n", file);
}

static void line(double x1, double y1, double x2, double y2, const char *how) {
  fprintf(file, "<path d=\"M%.1f %.1fL%.1f %.1f\" %s/>\n", x1, y1, x2, y2, how);
}

// 4096 is 4 KiB.
static const char *bytes_text(double bytes) {
  static char text[32];
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  snprintf(text, sizeof text, "%.4g %s", bytes,
           (const char *[]){"B", "KiB", "MiB", "GiB", "TiB"}[unit]);
  return text;
}

static bool is_time(const char *unit) {
  return strcmp(unit, "ns") == 0 || strcmp(unit, "us") == 0;
}

// A time in the unit that keeps it short.
static const char *value_text(double value, const char *unit) {
  static char text[48];
  static const char *const units[] = {"ns", "us", "ms", "s"};
  int u = strcmp(unit, "us") == 0;
  if (is_time(unit)) {
    for (; value >= 1000 && u < 3; ++u) value /= 1000;
    for (; value < 1 && value > 0 && u > 0; --u) value *= 1000;
    unit = units[u];
  }
  snprintf(text, sizeof text, "%.4g %s", value, unit);
  return text;
}

// --- a panel ------------------------------------------------------------------------------------

struct panel {
  const char *name, *unit;
  bool log, bars;
  double left, x_least, x_most; // bytes of the points
  double least, most;           // of the axis of values
  const struct plot_point **of; // its points
  size_t n_points, n_lines;
};

static bool same(const char *a, const char *b) {
  return strcmp(a, b) == 0;
}

static bool together(const struct plot_point *a, const struct plot_point *b) {
  return same(a->panel, b->panel) && same(a->unit, b->unit);
}

// The next point of a line, from point i on, or n_points.
static size_t next_of(const struct panel *p, size_t i, const char *name) {
  while (i < p->n_points && !same(p->of[i]->name, name)) ++i;
  return i;
}

static bool first_of(const struct panel *p, size_t i) {
  return next_of(p, 0, p->of[i]->name) == i;
}

// The power of ten at or below x, or that times 2 or 5.
static double step_below(double x) {
  const double ten = pow(10, floor(log10(x) + 1e-9));
  return x >= 4.999 * ten ? 5 * ten : x >= 1.999 * ten ? 2 * ten : ten;
}

static double next_step(double step) {
  return step_below(2.51 * step);
}

static struct panel make_panel(const struct plot_point *first) {
  struct panel p = {.name = first->panel, .unit = first->unit, .left = LEFT, .x_least = HUGE_VAL};
  p.of = calloc(count, sizeof *p.of);
  if (!p.of) abort();
  double least = HUGE_VAL, most = 0;
  for (const struct plot_point *a = points; a < points + count; ++a) {
    if (!together(a, first)) continue;
    p.of[p.n_points++] = a;
    p.n_lines += first_of(&p, p.n_points - 1);
    p.x_least = fmin(p.x_least, a->bytes);
    p.x_most = fmax(p.x_most, a->bytes);
    if (a->value > 0) least = fmin(least, a->value);
    most = fmax(most, a->value);
    p.bars = a->bytes <= 0;
    if (p.bars) p.left = fmax(p.left, 16 + 7.2 * (double)strlen(a->name));
  }
  // The length of a bar says something only from 0 on.
  p.log = is_time(p.unit) && !p.bars;
  if (most <= 0) least = most = 1;
  p.least = p.log ? step_below(0.85 * least) : 0;
  p.most = p.log ? p.least : step_below(most / 5);
  while (p.most < most) p.most = p.log ? next_step(p.most) : p.most + step_below(most / 5);
  if (p.most < 5 * p.least) p.most = 5 * p.least;
  return p;
}

// From 0 to 1.
static double part_of(const struct panel *p, double value) {
  if (value < p->least) value = p->least;
  return p->log ? log(value / p->least) / log(p->most / p->least) : value / p->most;
}

static double next_tick(const struct panel *p, double value) {
  return p->log ? next_step(value) : value + step_below(p->most / 5);
}

// Times have a unit of their own at each tick; what the others are in, the title says.
static const char *tick_text(const struct panel *p, double value) {
  static char text[32];
  if (is_time(p->unit) && value > 0) return value_text(value, p->unit);
  snprintf(text, sizeof text, "%.6g", value);
  return text;
}

static void point_begin(const struct plot_point *a, const char *element) {
  fprintf(file, "<%s class=\"point%s\" ", element, a->other ? " other" : "");
}

static void point_end(const struct plot_point *a, const char *element) {
  fputs("><title>", file);
  put_text(a->name);
  if (a->bytes > 0) fprintf(file, ": %.0f bytes", a->bytes);
  fprintf(file, ": %.6g ", a->value), put_text(a->unit);
  fprintf(file, "</title></%s>\n", element);
}

// --- lines --------------------------------------------------------------------------------------

static double y_of(const struct panel *p, double value) {
  return HEAD + HEIGHT * (1 - part_of(p, value));
}

static double x_of(const struct panel *p, double bytes) {
  const double wide = RIGHT - LEFT;
  if (p->x_most <= p->x_least) return LEFT + wide / 2;
  return LEFT + wide * (0.02 + 0.96 * log(bytes / p->x_least) / log(p->x_most / p->x_least));
}

static void axes_of_lines(const struct panel *p) {
  const bool only_tens = p->log && p->most / p->least > 5000;
  for (double y = p->least; y <= p->most * 1.001; y = next_tick(p, y)) {
    if (only_tens && fabs(log10(y) - round(log10(y))) > 1e-6) continue;
    line(LEFT, y_of(p, y), RIGHT, y_of(p, y), "class=\"grid\"");
    label(LEFT - 7, y_of(p, y) + 4, "end", 0, "%s", tick_text(p, y));
  }
  label(16, HEAD + HEIGHT / 2.0, "middle", -90, p->log ? "%s (log)" : "%s", p->unit);
  int every = 1;
  while (log2(p->x_most / p->x_least) / every > MOST_TICKS) ++every;
  for (double x = p->x_least; x <= p->x_most; x *= 1 << every) {
    line(x_of(p, x), HEAD, x_of(p, x), HEAD + HEIGHT, "class=\"grid\"");
    label(x_of(p, x), HEAD + HEIGHT + 17, "middle", 0, "%s", bytes_text(x));
  }
  label((LEFT + RIGHT) / 2.0, HEAD + HEIGHT + 36, "middle", 0, "bytes (log)");
  line(LEFT, HEAD + HEIGHT, RIGHT, HEAD + HEIGHT, "class=\"axis\"");
  line(LEFT, HEAD, LEFT, HEAD + HEIGHT, "class=\"axis\"");
}

struct end { // of a line: its name belongs at y, and has room at name_y
  const char *name;
  const struct look *look;
  double x, y, name_y;
};

static int by_y(const void *a, const void *b) {
  const double x = ((const struct end *)a)->y, y = ((const struct end *)b)->y;
  return (x > y) - (x < y);
}

// Names stand beside the ends of their lines, as near as they can without touching each other.
static void place_names(struct end *ends, size_t n) {
  qsort(ends, n, sizeof *ends, by_y);
  double free_from = HEAD;
  for (size_t i = 0; i < n; ++i) {
    ends[i].name_y = fmax(ends[i].y, free_from);
    free_from = ends[i].name_y + LINE_OF_NAMES;
  }
  double free_to = HEAD + HEIGHT;
  for (size_t i = n; i-- > 0; free_to -= LINE_OF_NAMES)
    free_to = ends[i].name_y = fmin(ends[i].name_y, free_to);
}

static void lines(const struct panel *p) {
  struct end *ends = calloc(p->n_lines, sizeof *ends);
  if (!ends) abort();
  size_t n = 0;
  for (size_t i = 0; i < p->n_points; ++i) {
    if (!first_of(p, i)) continue;
    const struct plot_point *const first = p->of[i];
    const struct look *look = &looks[n % LOOKS];
    struct end *end = &ends[n++];
    end->name = first->name, end->look = look;
    fprintf(file,
            "<g class=\"line\" stroke=\"%s\" fill=\"%s\">\n"
            "<polyline fill=\"none\" stroke-dasharray=\"%s\" points=\"",
            look->colour, first->other ? "white" : look->colour, look->dash);
    for (size_t k = i; k < p->n_points; k = next_of(p, k + 1, first->name)) {
      end->x = x_of(p, p->of[k]->bytes), end->y = y_of(p, p->of[k]->value);
      fprintf(file, "%.1f,%.1f ", end->x, end->y);
    }
    fputs("\"/>\n", file);
    for (size_t k = i; k < p->n_points; k = next_of(p, k + 1, first->name)) {
      const struct plot_point *a = p->of[k];
      point_begin(a, "circle");
      fprintf(file, "cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"", x_of(p, a->bytes), y_of(p, a->value));
      point_end(a, "circle");
    }
    fputs("</g>\n", file);
  }
  place_names(ends, n);
  for (const struct end *e = ends; e < ends + n; ++e) {
    char how[128];
    snprintf(how, sizeof how, "class=\"leader\" stroke=\"%s\"", e->look->colour);
    line(e->x + 5, e->y, NAMES - 4, e->name_y, how);
    snprintf(how, sizeof how, "class=\"sample\" stroke=\"%s\" stroke-dasharray=\"%s\"",
             e->look->colour, e->look->dash);
    line(NAMES, e->name_y, NAMES + SAMPLE, e->name_y, how);
    fprintf(file, "<text class=\"of-line\" x=\"%d\" y=\"%.1f\">", NAMES + SAMPLE + 7,
            e->name_y + 4);
    put_text(e->name);
    fputs("</text>\n", file);
  }
  free(ends);
}

// --- bars ---------------------------------------------------------------------------------------

static void bars(const struct panel *p) {
  const double wide = RIGHT - p->left, foot = HEAD + SLOT * (double)p->n_points;
  for (double x = 0; x <= p->most * 1.001; x = next_tick(p, x)) {
    const double at = p->left + wide * part_of(p, x);
    line(at, HEAD, at, foot, "class=\"grid\"");
    label(at, foot + 17, "middle", 0, "%s", tick_text(p, x));
  }
  for (size_t i = 0; i < p->n_points; ++i) {
    const struct plot_point *a = p->of[i];
    const double y = HEAD + SLOT * (double)i, length = wide * part_of(p, a->value);
    label(p->left - 7, y + 14, "end", 0, "%s", a->name);
    point_begin(a, "rect");
    fprintf(file, "x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\" stroke=\"%s\"",
            p->left, y + 3, length, BAR, a->other ? "white" : looks->colour, looks->colour);
    point_end(a, "rect");
    label(p->left + length + 6, y + 14, "start", 0, "%s", value_text(a->value, p->unit));
  }
  line(p->left, HEAD, p->left, foot, "class=\"axis\"");
}

static double panel_height(const struct panel *p) {
  return HEAD + FOOT + (p->bars ? SLOT * (double)p->n_points - 16 : HEIGHT);
}

static void draw(const struct panel *p) {
  fprintf(file, "<text class=\"name\" x=\"%d\" y=\"%d\">", LEFT, HEAD - 14);
  put_text(p->name);
  fputs(": ", file);
  put_text(is_time(p->unit) ? "time of a call" : p->unit);
  fputs(p->bars ? "</text>\n" : " by size</text>\n", file);
  if (p->bars)
    bars(p);
  else
    axes_of_lines(p), lines(p);
}

bool plot_end(void) {
  if (!file) return true;
  struct panel *panels = calloc(count + 1, sizeof *panels);
  if (!panels) abort();
  size_t n = 0;
  double height = 48;
  for (size_t i = 0; i < count; ++i) {
    size_t k = 0;
    while (k < n && !together(panels[k].of[0], &points[i])) ++k;
    if (k < n) continue;
    panels[n] = make_panel(&points[i]);
    height += panel_height(&panels[n++]);
  }
  fprintf(file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
          "viewBox=\"0 0 %d %.0f\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
          "<style>.grid{stroke:#e3e3e3}.axis{stroke:#444}.leader{stroke-width:.7;opacity:.6}"
          "polyline,.sample{stroke-width:2}.name{font-size:14px;font-weight:bold}</style>\n"
          "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
          "<text x=\"%d\" y=\"30\" font-size=\"17\">",
          WIDTH, height, WIDTH, height, LEFT);
  put_text(title);
  fputs("</text>\n", file);
  if (count == 0) label(LEFT, 46, "start", 0, "nothing was measured");
  double top = 40;
  for (size_t k = 0; k < n; ++k) {
    fprintf(file, "<g class=\"panel\" transform=\"translate(0 %.0f)\">\n", top);
    draw(&panels[k]);
    fputs("</g>\n", file);
    top += panel_height(&panels[k]);
    free(panels[k].of);
  }
  free(panels);
  fputs("</svg>\n", file);
  const bool written = !ferror(file);
  return fclose(file) == 0 && written;
}

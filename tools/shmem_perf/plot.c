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

// In pixels. A panel is its title, its area, the labels of x below, and the legend to the right.
enum { WIDTH = 1110, LEFT = 74, AREA = 770, HEAD = 44, HEIGHT = 300, LEGEND = LEFT + AREA + 20 };
enum { LINE_OF_LEGEND = 19, MOST_TICKS = 12 };

// Apart in hue or in lightness for each two that follow.
static const char *const colours[] = {"#1f6fb4", "#d9541e", "#2a9d5c", "#8e44ad", "#b8860b",
                                      "#17a2b8", "#c2185b", "#5d6d7e", "#7cb342", "#3949ab",
                                      "#e57373", "#6d4c41", "#00695c", "#ff9800", "#9fa8da",
                                      "#000000", "#c0ca33", "#f06292"};
#define COLOURS (sizeof colours / sizeof *colours)

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
  char *to = text ? strdup(text) : NULL;
  if (text && !to) abort();
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
                                        .series = copy(p->series),
                                        .peer = copy(p->peer),
                                        .group = copy(p->group),
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

struct entry { // of the legend
  const char *series, *peer;
  size_t colour;
};

struct panel {
  const char *name, *unit;
  bool log, bars;
  double x_least, x_most, y_least, y_most; // y: of the axis
  struct entry *entries;
  const char **groups;
  size_t n_entries, n_groups, n_colours;
};

static bool same(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

static size_t find_group(const struct panel *p, const char *name) {
  size_t i = 0;
  while (i < p->n_groups && !same(p->groups[i], name)) ++i;
  return i;
}

static size_t find_entry(const struct panel *p, const struct plot_point *a) {
  size_t i = 0;
  while (i < p->n_entries &&
         !(same(p->entries[i].series, a->series) && same(p->entries[i].peer, a->peer)))
    ++i;
  return i;
}

// The power of ten at or below x, or that times 2 or 5.
static double step_below(double x) {
  const double ten = pow(10, floor(log10(x) + 1e-9));
  return x >= 4.999 * ten ? 5 * ten : x >= 1.999 * ten ? 2 * ten : ten;
}

static double next_step(double step) {
  return step_below(2.51 * step);
}

static struct panel make_panel(const char *name) {
  struct panel p = {.name = name, .x_least = HUGE_VAL};
  p.entries = calloc(count, sizeof *p.entries);
  p.groups = calloc(count, sizeof *p.groups);
  if (!p.entries || !p.groups) abort();
  double least = HUGE_VAL, most = 0;
  for (const struct plot_point *a = points; a < points + count; ++a) {
    if (!same(a->panel, name)) continue;
    p.unit = a->unit;
    p.bars = a->group != NULL;
    p.x_least = fmin(p.x_least, a->bytes);
    p.x_most = fmax(p.x_most, a->bytes);
    if (a->value > 0) least = fmin(least, a->value);
    most = fmax(most, a->value);
    if (a->group && find_group(&p, a->group) == p.n_groups) p.groups[p.n_groups++] = a->group;
    if (find_entry(&p, a) < p.n_entries) continue;
    size_t colour = p.n_colours;
    for (size_t i = 0; i < p.n_entries; ++i)
      if (same(p.entries[i].series, a->series)) colour = p.entries[i].colour;
    p.n_colours += colour == p.n_colours;
    p.entries[p.n_entries++] = (struct entry){a->series, a->peer, colour};
  }
  p.log = is_time(p.unit);
  if (most <= 0) least = most = 1;
  p.y_least = p.log ? step_below(0.85 * least) : 0;
  p.y_most = p.log ? p.y_least : step_below(most / 5);
  while (p.y_most < most) p.y_most = p.log ? next_step(p.y_most) : p.y_most + step_below(most / 5);
  if (p.y_most < 5 * p.y_least) p.y_most = 5 * p.y_least;
  return p;
}

static double y_of(const struct panel *p, double y) {
  if (y < p->y_least) y = p->y_least;
  const double part = p->log ? log(y / p->y_least) / log(p->y_most / p->y_least) : y / p->y_most;
  return HEAD + HEIGHT * (1 - part);
}

static double x_of(const struct panel *p, double bytes) {
  if (p->x_most <= p->x_least) return LEFT + AREA / 2.0;
  return LEFT + AREA * (0.02 + 0.96 * log(bytes / p->x_least) / log(p->x_most / p->x_least));
}

static void y_axis(const struct panel *p) {
  const bool only_tens = p->log && p->y_most / p->y_least > 5000;
  const double linear = p->log ? 0 : step_below(p->y_most / 5);
  for (double y = p->y_least; y <= p->y_most * 1.001; y = p->log ? next_step(y) : y + linear) {
    if (only_tens && fabs(log10(y) - round(log10(y))) > 1e-6) continue;
    line(LEFT, y_of(p, y), LEFT + AREA, y_of(p, y), "class=\"grid\"");
    if (p->log)
      label(LEFT - 7, y_of(p, y) + 4, "end", 0, "%s", value_text(y, p->unit));
    else
      label(LEFT - 7, y_of(p, y) + 4, "end", 0, "%.6g", y);
  }
  label(16, HEAD + HEIGHT / 2.0, "middle", -90, p->log ? "time of a call (%s; log)" : "%s",
        p->unit);
}

static void x_axis(const struct panel *p) {
  int every = 1;
  while (log2(p->x_most / p->x_least) / every > MOST_TICKS) ++every;
  for (double x = p->x_least; x <= p->x_most; x *= 1 << every) {
    line(x_of(p, x), HEAD, x_of(p, x), HEAD + HEIGHT, "class=\"grid\"");
    label(x_of(p, x), HEAD + HEIGHT + 17, "middle", 0, "%s", bytes_text(x));
  }
  label(LEFT + AREA / 2.0, HEAD + HEIGHT + 36, "middle", 0, "bytes (log)");
}

static void point_text(const struct plot_point *a) {
  fputs("<title>", file);
  put_text(a->series);
  if (a->peer) fputs(", ", file), put_text(a->peer);
  if (*a->series) fputs(": ", file);
  if (a->group)
    put_text(a->group), fputs(": ", file);
  else
    fprintf(file, "%.0f bytes: ", a->bytes);
  fprintf(file, "%.6g ", a->value), put_text(a->unit);
  fputs("</title>", file);
}

static void lines(const struct panel *p) {
  for (size_t e = 0; e < p->n_entries; ++e) {
    const struct entry *entry = &p->entries[e];
    fprintf(file, "<g stroke=\"%s\" fill=\"%s\">\n<polyline fill=\"none\"%s points=\"",
            colours[entry->colour % COLOURS],
            entry->peer ? "white" : colours[entry->colour % COLOURS],
            entry->peer ? " class=\"peer\"" : "");
    for (const struct plot_point *a = points; a < points + count; ++a)
      if (same(a->panel, p->name) && find_entry(p, a) == e)
        fprintf(file, "%.1f,%.1f ", x_of(p, a->bytes), y_of(p, a->value));
    fputs("\"/>\n", file);
    for (const struct plot_point *a = points; a < points + count; ++a) {
      if (!same(a->panel, p->name) || find_entry(p, a) != e) continue;
      fprintf(file, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\">",
              a->peer ? "point of-peer" : "point", x_of(p, a->bytes), y_of(p, a->value));
      point_text(a);
      fputs("</circle>\n", file);
    }
    fputs("</g>\n", file);
  }
}

static bool labels_turned(const struct panel *p) {
  size_t longest = 0;
  for (size_t g = 0; g < p->n_groups; ++g)
    if (strlen(p->groups[g]) > longest) longest = strlen(p->groups[g]);
  return p->bars && 7.6 * (double)longest > (double)AREA / (double)p->n_groups;
}

static void bars(const struct panel *p) {
  const double slot = (double)AREA / (double)p->n_groups;
  const double wide = fmin(48, 0.8 * slot / (double)p->n_entries);
  for (const struct plot_point *a = points; a < points + count; ++a) {
    if (!same(a->panel, p->name)) continue;
    const size_t e = find_entry(p, a);
    const double middle = LEFT + slot * ((double)find_group(p, a->group) + 0.5);
    const double x = middle + wide * ((double)e - (double)p->n_entries / 2);
    const double y = y_of(p, a->value);
    const char *colour = colours[p->entries[e].colour % COLOURS];
    fprintf(file,
            "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
            "stroke=\"%s\">",
            a->peer ? "point of-peer peer" : "point", x, y, 0.9 * wide, HEAD + HEIGHT - y, colour,
            colour);
    point_text(a);
    fputs("</rect>\n", file);
  }
  for (size_t g = 0; g < p->n_groups; ++g) {
    const double x = LEFT + slot * ((double)g + 0.5);
    if (labels_turned(p))
      label(x - 6, HEAD + HEIGHT + 14, "start", 35, "%s", p->groups[g]);
    else
      label(x, HEAD + HEIGHT + 17, "middle", 0, "%s", p->groups[g]);
  }
}

static void legend(const struct panel *p) {
  for (size_t e = 0; e < p->n_entries; ++e) {
    const struct entry *entry = &p->entries[e];
    if (!*entry->series) continue;
    const double y = HEAD + 8 + (double)(LINE_OF_LEGEND * e);
    char how[96];
    snprintf(how, sizeof how, "stroke=\"%s\" stroke-width=\"%d\"%s",
             colours[entry->colour % COLOURS], p->bars ? 8 : 2,
             entry->peer ? " class=\"peer\"" : "");
    line(LEGEND, y, LEGEND + 26, y, how);
    label(LEGEND + 34, y + 4, "start", 0, "%s%s%s", entry->series, entry->peer ? ", " : "",
          entry->peer ? entry->peer : "");
  }
}

static double panel_height(const struct panel *p) {
  const double beside = HEAD + LINE_OF_LEGEND * (double)p->n_entries;
  return fmax(HEAD + HEIGHT, beside) + (labels_turned(p) ? 150 : 56);
}

static void draw(const struct panel *p) {
  fprintf(file, "<text class=\"name\" x=\"%d\" y=\"%d\">", LEFT, HEAD - 14);
  put_text(p->name);
  fputs("</text>\n", file);
  y_axis(p);
  if (p->bars)
    bars(p);
  else
    x_axis(p), lines(p);
  line(LEFT, HEAD + HEIGHT, LEFT + AREA, HEAD + HEIGHT, "class=\"axis\"");
  line(LEFT, HEAD, LEFT, HEAD + HEIGHT, "class=\"axis\"");
  legend(p);
}

bool plot_end(void) {
  if (!file) return true;
  struct panel *panels = calloc(count + 1, sizeof *panels);
  if (!panels) abort();
  size_t n = 0;
  double height = 48;
  for (size_t i = 0; i < count; ++i) {
    size_t k = 0;
    while (k < n && !same(panels[k].name, points[i].panel)) ++k;
    if (k < n) continue;
    panels[n] = make_panel(points[i].panel);
    height += panel_height(&panels[n++]);
  }
  fprintf(file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
          "viewBox=\"0 0 %d %.0f\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
          "<style>.grid{stroke:#e3e3e3}.axis{stroke:#444}.peer{stroke-dasharray:5 3}"
          "polyline{stroke-width:1.8}rect.peer{fill-opacity:.2}"
          ".name{font-size:14px;font-weight:bold}</style>\n"
          "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
          "<text x=\"%d\" y=\"30\" font-size=\"17\">",
          WIDTH, height, WIDTH, height, LEFT);
  put_text(title);
  fputs("</text>\n", file);
  if (count == 0) label(LEFT, 46, "start", 0, "nothing was measured");
  double top = 40;
  for (size_t k = 0; k < n; ++k) {
    fprintf(file, "<g transform=\"translate(0 %.0f)\">\n", top);
    draw(&panels[k]);
    fputs("</g>\n", file);
    top += panel_height(&panels[k]);
    free(panels[k].entries);
    free(panels[k].groups);
  }
  free(panels);
  fputs("</svg>\n", file);
  const bool written = !ferror(file);
  return fclose(file) == 0 && written;
}

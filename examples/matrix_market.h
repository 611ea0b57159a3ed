// SPDX-License-Identifier: MIT
// Matrix Market files: coordinate and array, real, integer and pattern, general, symmetric and
// skew-symmetric. A file becomes a dense matrix of doubles; entries given twice are summed, as
// most readers do. Errors end the program with one line: file, line number, what is wrong.
#ifndef EXAMPLES_MATRIX_MARKET_H
#define EXAMPLES_MATRIX_MARKET_H

#include "util.h"

#include <ctype.h>
#include <math.h>
#include <strings.h>
#include <sys/types.h>

struct mtx {
  size_t rows, cols;
  double *value; // rows x cols, row by row, from calloc
};

struct mtx_reader {
  const char *path;
  FILE *file;
  char *line; // without its end
  size_t room;
  long number;
  bool coordinate, pattern, integer, symmetric, skew;
};

// The next line, blank ones and comments left out. False at the end of the file.
static bool mtx_next(struct mtx_reader *r) {
  ssize_t length;
  while ((length = getline(&r->line, &r->room, r->file)) >= 0) {
    ++r->number;
    if (memchr(r->line, 0, (size_t)length))
      fatal("%s:%ld: not a text file: it has a zero byte", r->path, r->number);
    const char *p = r->line;
    while (isspace((unsigned char)*p)) ++p;
    if (*p != '\0' && *p != '%') return true;
  }
  if (ferror(r->file)) fatal("%s:%ld: %s", r->path, r->number, strerror(errno));
  return false;
}

static void mtx_header(struct mtx_reader *r) {
  if (getline(&r->line, &r->room, r->file) < 0) fatal("%s:1: the file is empty", r->path);
  r->number = 1;
  char banner[32], object[32], format[32], field[32], symmetry[32];
  if (sscanf(r->line, "%31s %31s %31s %31s %31s", banner, object, format, field, symmetry) != 5 ||
      strcasecmp(banner, "%%MatrixMarket") != 0)
    fatal("%s:1: not a Matrix Market file: the header is '%%%%MatrixMarket matrix FORMAT FIELD "
          "SYMMETRY'",
          r->path);
  if (strcasecmp(object, "matrix") != 0)
    fatal("%s:1: the object is '%s', only 'matrix' is read", r->path, object);
  r->coordinate = strcasecmp(format, "coordinate") == 0;
  if (!r->coordinate && strcasecmp(format, "array") != 0)
    fatal("%s:1: the format is '%s', neither 'coordinate' nor 'array'", r->path, format);
  r->pattern = strcasecmp(field, "pattern") == 0;
  r->integer = strcasecmp(field, "integer") == 0;
  if (!r->pattern && !r->integer && strcasecmp(field, "real") != 0)
    fatal("%s:1: the field is '%s'; real, integer and pattern are read", r->path, field);
  if (r->pattern && !r->coordinate) fatal("%s:1: a pattern cannot be an array", r->path);
  r->skew = strcasecmp(symmetry, "skew-symmetric") == 0;
  r->symmetric = r->skew || strcasecmp(symmetry, "symmetric") == 0;
  if (!r->symmetric && strcasecmp(symmetry, "general") != 0)
    fatal("%s:1: the symmetry is '%s'; general, symmetric and skew-symmetric are read", r->path,
          symmetry);
}

// A count or index at *at, in [lowest, highest]. *at moves behind it.
static size_t mtx_count(const struct mtx_reader *r, char **at, const char *what, size_t lowest,
                        size_t highest) {
  char *p = *at;
  while (isspace((unsigned char)*p)) ++p;
  if (*p == '\0') fatal("%s:%ld: the %s is missing", r->path, r->number, what);
  char *end = p;
  errno = 0;
  const unsigned long long value = isdigit((unsigned char)*p) ? strtoull(p, &end, 10) : 0;
  if (end == p || (*end != '\0' && !isspace((unsigned char)*end)))
    fatal("%s:%ld: the %s is not a whole number: '%.20s'", r->path, r->number, what,
          strtok(p, " \t\r\n"));
  if (errno != 0 || value < lowest || value > highest)
    fatal("%s:%ld: the %s is not between %zu and %zu", r->path, r->number, what, lowest, highest);
  *at = end;
  return (size_t)value;
}

static double mtx_value(const struct mtx_reader *r, char **at) {
  char *p = *at, *end;
  while (isspace((unsigned char)*p)) ++p;
  if (*p == '\0') fatal("%s:%ld: the value is missing", r->path, r->number);
  const double value = strtod(p, &end);
  if (end == p || (*end != '\0' && !isspace((unsigned char)*end)))
    fatal("%s:%ld: the value is not a number: '%.20s'", r->path, r->number, strtok(p, " \t\r\n"));
  if (!isfinite(value)) fatal("%s:%ld: the value is not finite", r->path, r->number);
  if (r->integer && value != floor(value))
    fatal("%s:%ld: the value %g is not an integer, as the header says", r->path, r->number, value);
  *at = end;
  return value;
}

static void mtx_end_of_line(const struct mtx_reader *r, char *at) {
  while (isspace((unsigned char)*at)) ++at;
  if (*at != '\0')
    fatal("%s:%ld: '%.20s' does not belong here", r->path, r->number, strtok(at, " \t\r\n"));
}

static void mtx_add(const struct mtx_reader *r, struct mtx *m, size_t row, size_t col,
                    double value) {
  m->value[row * m->cols + col] += value;
  if (r->symmetric && row != col) m->value[col * m->cols + row] += r->skew ? -value : value;
}

static void mtx_coordinates(struct mtx_reader *r, struct mtx *m, size_t entries) {
  for (size_t e = 0; e < entries; ++e) {
    if (!mtx_next(r))
      fatal("%s:%ld: the file ends after %zu of %zu entries", r->path, r->number, e, entries);
    char *at = r->line;
    const size_t row = mtx_count(r, &at, "row", 1, m->rows);
    const size_t col = mtx_count(r, &at, "column", 1, m->cols);
    const double value = r->pattern ? 1 : mtx_value(r, &at);
    mtx_end_of_line(r, at);
    if (r->symmetric && (r->skew ? col >= row : col > row))
      fatal("%s:%ld: entry (%zu, %zu) is not in the lower triangle, which is all that a file "
            "with symmetry holds",
            r->path, r->number, row, col);
    mtx_add(r, m, row - 1, col - 1, value);
  }
}

// Column by column; with symmetry only the lower triangle.
static void mtx_array(struct mtx_reader *r, struct mtx *m) {
  for (size_t col = 0; col < m->cols; ++col) {
    for (size_t row = r->symmetric ? col + r->skew : 0; row < m->rows; ++row) {
      if (!mtx_next(r))
        fatal("%s:%ld: the file ends before entry (%zu, %zu)", r->path, r->number, row + 1,
              col + 1);
      char *at = r->line;
      mtx_add(r, m, row, col, mtx_value(r, &at));
      mtx_end_of_line(r, at);
    }
  }
}

static struct mtx mtx_read(const char *path) {
  struct mtx_reader r = {.path = path, .file = fopen(path, "r")};
  if (!r.file) fatal("%s: %s", path, strerror(errno));
  mtx_header(&r);
  if (!mtx_next(&r)) fatal("%s:%ld: the line with the size is missing", path, r.number);
  const size_t most = (size_t)1 << 31;
  char *at = r.line;
  struct mtx m = {0};
  m.rows = mtx_count(&r, &at, "number of rows", 1, most);
  m.cols = mtx_count(&r, &at, "number of columns", 1, most);
  if (r.symmetric && m.rows != m.cols)
    fatal("%s:%ld: a %zu x %zu matrix cannot be symmetric", path, r.number, m.rows, m.cols);
  const size_t entries = r.coordinate ? mtx_count(&r, &at, "number of entries", 0, SIZE_MAX) : 0;
  mtx_end_of_line(&r, at);
  m.value = calloc(m.rows * m.cols, sizeof *m.value);
  if (!m.value) fatal("%s: no memory for %zu x %zu doubles", path, m.rows, m.cols);
  if (r.coordinate)
    mtx_coordinates(&r, &m, entries);
  else
    mtx_array(&r, &m);
  if (mtx_next(&r)) fatal("%s:%ld: more entries than the size line says", path, r.number);
  free(r.line);
  fclose(r.file);
  return m;
}

#endif

// SPDX-License-Identifier: MIT
// Grey images in PGM: plain (P2) and raw (P5), with 8 and 16 bits a sample. Errors end the program
// with one line that names the file and where in it the trouble is.
#ifndef EXAMPLES_PGM_H
#define EXAMPLES_PGM_H

#include "util.h"

struct pgm {
  size_t width, height;
  unsigned max; // the value of white, 1 to 65535
  bool plain;
  uint16_t *sample; // height rows of width samples, from malloc
};

struct pgm_reader {
  const char *path;
  FILE *file;
  long line;
};

// The next unsigned number; white space and comments (# to the end of the line) before it are
// skipped, and exactly one character after it is read: in a raw file the samples follow at once.
static unsigned pgm_number(struct pgm_reader *r, const char *what, unsigned lowest,
                           unsigned highest) {
  int c = getc(r->file);
  while (c == ' ' || (c >= '\t' && c <= '\r') || c == '#') {
    if (c == '#')
      while (c != '\n' && c != EOF) c = getc(r->file);
    if (c == '\n') ++r->line;
    if (c != EOF) c = getc(r->file);
  }
  if (c == EOF) fatal("%s:%ld: the file ends before the %s", r->path, r->line, what);
  if (c < '0' || c > '9') fatal("%s:%ld: no number where the %s belongs", r->path, r->line, what);
  uint64_t value = 0;
  const long line = r->line;
  for (; c >= '0' && c <= '9'; c = getc(r->file)) {
    value = value * 10 + (uint64_t)(c - '0');
    if (value > highest) fatal("%s:%ld: the %s is above %u", r->path, line, what, highest);
  }
  if (value < lowest) fatal("%s:%ld: the %s is below %u", r->path, line, what, lowest);
  if (c != EOF && c != ' ' && !(c >= '\t' && c <= '\r'))
    fatal("%s:%ld: '%c' right after the %s", r->path, line, c, what);
  if (c == '\n') ++r->line;
  return (unsigned)value;
}

static struct pgm pgm_read(const char *path) {
  struct pgm image = {0};
  struct pgm_reader r = {.path = path, .file = fopen(path, "rb"), .line = 1};
  if (!r.file) fatal("%s: %s", path, strerror(errno));
  const int p = getc(r.file), digit = getc(r.file);
  if (p != 'P' || (digit != '2' && digit != '5'))
    fatal("%s: not a PGM image: it does not begin with P2 or P5", path);
  image.plain = digit == '2';
  image.width = pgm_number(&r, "width", 1, 1u << 30);
  image.height = pgm_number(&r, "height", 1, 1u << 30);
  image.max = pgm_number(&r, "maximum", 1, 65535);
  const size_t count = image.width * image.height;
  image.sample = private_memory(count * sizeof *image.sample, "the image");
  for (size_t i = 0; i < count; ++i) {
    if (image.plain) {
      image.sample[i] = (uint16_t)pgm_number(&r, "sample", 0, image.max);
      continue;
    }
    int c = getc(r.file);
    unsigned value = (unsigned)c;
    if (image.max > 255 && c != EOF) { // the more significant byte comes first
      c = getc(r.file);
      value = value << 8 | (unsigned)c;
    }
    if (c == EOF)
      fatal("%s: the file ends at sample %zu of %zu (row %zu)", path, i, count, i / image.width);
    if (value > image.max)
      fatal("%s: sample %zu (row %zu) is %u, above the maximum %u", path, i, i / image.width, value,
            image.max);
    image.sample[i] = (uint16_t)value;
  }
  fclose(r.file);
  return image;
}

static void pgm_write(const char *path, const struct pgm *image) {
  FILE *file = fopen(path, "wb");
  if (!file) fatal("%s: %s", path, strerror(errno));
  fprintf(file, "P%c\n%zu %zu\n%u\n", image->plain ? '2' : '5', image->width, image->height,
          image->max);
  for (size_t i = 0; i < image->width * image->height; ++i) {
    const unsigned value = image->sample[i];
    if (image->plain) {
      fprintf(file, "%u%c", value, (i + 1) % image->width % 12 == 0 ? '\n' : ' ');
    } else {
      if (image->max > 255) putc((int)(value >> 8), file);
      putc((int)(value & 255), file);
    }
  }
  const bool failed = ferror(file) != 0;
  if (fclose(file) != 0 || failed) fatal("%s: writing failed: %s", path, strerror(errno));
}

#endif

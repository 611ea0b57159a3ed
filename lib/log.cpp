// SPDX-License-Identifier: MIT
#include "log.hpp"
#include "exit.hpp"
#include "state.hpp"
#include <cstdarg>
#include <cstdio>
#include <unistd.h>

namespace shmem {

static void write_line(const char *format, va_list args) {
  char text[1024];
  int n = self.n ? snprintf(text, sizeof text, "shmem: PE %d: ", self.me)
                 : snprintf(text, sizeof text, "shmem: ");
  n += vsnprintf(text + n, sizeof text - n - 1, format, args);
  if (n > int(sizeof text) - 2) n = sizeof text - 2;
  text[n++] = '\n';
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text, n);
}

void say(const char *format, ...) {
  va_list args;
  va_start(args, format);
  write_line(format, args);
  va_end(args);
}

void debug(const char *format, ...) {
  if (!self.env.debug) return;
  va_list args;
  va_start(args, format);
  write_line(format, args);
  va_end(args);
}

void Note::operator()(const char *format, ...) {
  if (self.env.quiet || told.test_and_set()) return;
  va_list args;
  va_start(args, format);
  write_line(format, args);
  va_end(args);
}

void fatal(const char *format, ...) {
  va_list args;
  va_start(args, format);
  write_line(format, args);
  va_end(args);
  end_job(1);
}

void fatal_all(const char *format, ...) {
  if (self.me == 0) {
    va_list args;
    va_start(args, format);
    write_line(format, args);
    va_end(args);
  }
  end_job(1);
}

} // namespace shmem

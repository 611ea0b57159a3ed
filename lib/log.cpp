// SPDX-License-Identifier: MIT
#include "log.hpp"
#include "exit.hpp"
#include "state.hpp"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shmem {

static void write_line(int file, const char *format, va_list args) {
  char text[1024];
  int n = self.n ? snprintf(text, sizeof text, "shmem: PE %d: ", self.me)
                 : snprintf(text, sizeof text, "shmem: ");
  n += vsnprintf(text + n, sizeof text - n - 1, format, args);
  if (n > int(sizeof text) - 2) n = sizeof text - 2;
  text[n++] = '\n';
  [[maybe_unused]] ssize_t written = write(file, text, n);
}

void say(const char *format, ...) {
  va_list args;
  va_start(args, format);
  write_line(STDERR_FILENO, format, args);
  va_end(args);
}

// oshrun names a pipe by its path and its number, which another file at that path has not (PEs in a
// container have processes of their own).
static int open_oshrun() {
  const char *name = getenv("OSHRUN_WORD");
  char path[64];
  unsigned long long number;
  if (!name || sscanf(name, "%63s %llu", path, &number) != 2) return -1;
  const int file = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat s;
  if (file >= 0 && (fstat(file, &s) < 0 || !S_ISFIFO(s.st_mode) || s.st_ino != number)) {
    close(file);
    return -1;
  }
  return file;
}

static void write_last_line(const char *format, va_list args) {
  const int file = open_oshrun();
  write_line(file < 0 ? STDERR_FILENO : file, format, args);
  if (file >= 0) close(file);
}

void last_word(const char *format, ...) {
  va_list args;
  va_start(args, format);
  write_last_line(format, args);
  va_end(args);
}

void no_last_word() {
  const int file = open_oshrun();
  if (file < 0) return;
  [[maybe_unused]] ssize_t written = write(file, "\n", 1);
  close(file);
}

void debug(const char *format, ...) {
  if (!self.env.debug) return;
  va_list args;
  va_start(args, format);
  write_line(STDERR_FILENO, format, args);
  va_end(args);
}

void Note::operator()(const char *format, ...) {
  if (self.env.quiet || told.test_and_set()) return;
  va_list args;
  va_start(args, format);
  write_line(STDERR_FILENO, format, args);
  va_end(args);
}

void fatal(const char *format, ...) {
  va_list args;
  va_start(args, format);
  write_last_line(format, args);
  va_end(args);
  end_job(1);
}

void fatal_all(const char *format, ...) {
  if (self.me == 0) {
    va_list args;
    va_start(args, format);
    write_last_line(format, args);
    va_end(args);
  } else {
    sleep(1); // the launcher ends all as soon as one has ended, and PE 0 may not have come so far
  }
  end_job(1);
}

} // namespace shmem

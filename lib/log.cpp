// SPDX-License-Identifier: MIT
#include "log.hpp"
#include "bootstrap.hpp"
#include "state.hpp"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <pthread.h>
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

// oshrun names a pipe by its path and its inode number, because in a container, which has processes
// of its own, another file may be at that path.
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

// Writes out stdio, but does not wait for ever for a stream whose lock another thread holds, say
// while it reads from the terminal.
static void flush_stdio() {
  pthread_t helper;
  auto flush = [](void *) -> void * {
    fflush(nullptr);
    return nullptr;
  };
  if (pthread_create(&helper, nullptr, flush, nullptr) != 0) return;
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 1;
  pthread_timedjoin_np(helper, nullptr, &until);
}

// The byte stays in the pipe, so that every watch sees it.
void alarm_all() {
  [[maybe_unused]] ssize_t n = write(self.pipe_write, "", 1);
}

bool claim_exit(int status) {
  uint64_t none = 0;
  bool first = self.job->exit.compare_exchange_strong(none, uint64_t(1) << 32 | uint32_t(status));
  alarm_all();
  return first;
}

void flush_together() {
  flush_stdio();
  self.slots[self.local].flushed.store(1);
  for (int tries = 0; tries < 1000; tries++) {
    int waiting = 0;
    for (int i = 0; i < self.n_local; i++) {
      const Slot &slot = self.slots[i];
      waiting += slot.phase != Slot::absent && slot.phase != Slot::done && !slot.flushed;
    }
    if (!waiting || self.job->dead) return;
    usleep(1000);
  }
}

void end_job(int status) {
  self.exiting = true;
  if (self.job && self.n > 1) {
    if (bootstrap::means) bootstrap::means->report({self.me, status, true});
    claim_exit(status);
    flush_together();
  } else {
    flush_stdio();
  }
  _exit(status);
}

bool job_ends() {
  return self.exiting || (self.job && (self.job->exit || self.job->dead));
}
void end_after_watch() {
  sleep(1);
  end_job(1);
}

void fatal(const char *format, ...) {
  va_list args;
  va_start(args, format);
  write_last_line(format, args);
  va_end(args);
  end_job(1);
}

// The launcher kills all PEs as soon as one has ended, and the teller may not have printed the line
// by then. The teller may also be elsewhere and find no fault: then a PE prints the line after a
// second.
static void write_one_line(int teller, const char *format, va_list args) {
  if (self.me != teller) {
    sleep(1);
    if (job_ends()) return;
  }
  write_last_line(format, args);
}
void fatal_all(const char *format, ...) {
  va_list args;
  va_start(args, format);
  write_one_line(0, format, args);
  va_end(args);
  end_job(1);
}
void fatal_team(int first, const char *format, ...) {
  va_list args;
  va_start(args, format);
  write_one_line(first, format, args);
  va_end(args);
  end_job(1);
}

void not_ready(const char *fn) {
  fatal("%s: called before shmem_init or after shmem_finalize", fn);
}

} // namespace shmem

// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <unistd.h>

namespace shmem {

// One line on stderr: "shmem: PE 3: ...". Written with one write(2), so that the lines of several
// PEs do not mix.
[[gnu::format(printf, 1, 2)]] void say(const char *format, ...);
[[gnu::format(printf, 1, 2)]] void debug(const char *format, ...); // only under SHMEM_DEBUG

// A warning: the program goes on. A static Note at each place prints it once in a process, and not
// under SHMEM_QUIET.
struct Note {
  std::atomic_flag told;
  [[gnu::cold, gnu::format(printf, 2, 3)]] void operator()(const char *format, ...);
};

// Prints why the job ends. The launcher kills all PEs as soon as one has ended, and loses what it
// has not read of their stderr (Open MPI 4.1.4 without its delay: this line was lost in 1 of 4
// jobs, 2026-11-21). So oshrun takes the line by a pipe of its own, and prints the first one when
// all PEs are gone. Without oshrun the line goes to stderr.
[[gnu::format(printf, 1, 2)]] void last_word(const char *format, ...);
void no_last_word(); // the program wants this end, whatever its status: no line is needed

// Ends the job with this status: no handlers run, stdio is written out. Before there is a job, ends
// this process.
[[noreturn, gnu::cold]] void end_job(int status);
// The steps of end_job, for other ends. Tells the others that the job ends with this status; false
// when another PE has told them before.
bool claim_exit(int status);
// Wakes the watch of every PE, see exit.cpp.
void alarm_all();
// A launcher kills the others when the first process ends badly, so this waits until all have
// written out their stdio.
void flush_together();

// Whether the job ends before all PEs have called shmem_finalize.
bool job_ends();
// For a thread that meets a dead PE while the watch, or another PE, names it. Waits a second for
// the watch to end this process.
[[noreturn]] void end_after_watch();
// Asks f every 10 ms until it is true, for at most so many ms. Returns the last answer.
template <class F> bool true_within(int ms, F &&f) {
  for (; !f(); ms -= 10) {
    if (ms <= 0) return false;
    usleep(10000);
  }
  return true;
}

// Prints the line and ends the job with status 1.
[[noreturn, gnu::cold, gnu::format(printf, 1, 2)]] void fatal(const char *format, ...);
// The same for an error that every PE of the node meets alike: only the first PE prints it.
[[noreturn, gnu::cold, gnu::format(printf, 1, 2)]] void fatal_all(const char *format, ...);
// The same for an error of all PEs of a team, whose first PE is `first`.
[[noreturn, gnu::cold, gnu::format(printf, 2, 3)]] void fatal_team(int first, const char *format,
                                                                   ...);
// Ends the program, because this routine was called while the library is not up.
[[noreturn, gnu::cold]] void not_ready(const char *fn);

} // namespace shmem

// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>

namespace shmem {

// One line on stderr: "shmem: PE 3: ...". Written with one write(2), so that the lines of several
// PEs do not mix.
[[gnu::format(printf, 1, 2)]] void say(const char *format, ...);
[[gnu::format(printf, 1, 2)]] void debug(const char *format, ...); // only under SHMEM_DEBUG

// What a program should hear of though it goes on. A static Note at each place says it once in a
// process, and not under SHMEM_QUIET.
struct Note {
  std::atomic_flag told;
  [[gnu::cold, gnu::format(printf, 2, 3)]] void operator()(const char *format, ...);
};

// Says it and ends the job with status 1.
[[noreturn, gnu::cold, gnu::format(printf, 1, 2)]] void fatal(const char *format, ...);
// The same for an error that every PE of the node meets alike: only the first PE says it.
[[noreturn, gnu::cold, gnu::format(printf, 1, 2)]] void fatal_all(const char *format, ...);

} // namespace shmem

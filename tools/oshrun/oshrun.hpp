// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <vector>

// Ends oshrun with one line.
[[noreturn, gnu::format(printf, 2, 3)]] void fail(int status, const char *format, ...);

bool is_hostfile(std::string_view option);

// Replaces this process by a command.
[[noreturn]] void become(const std::vector<std::string> &words);

// Where a launcher says that a PE has failed: pass, as it is; or, to be one line of oshrun, by a
// way apart from what PEs write, or among that.
enum class Notices { pass, apart, among };

struct Manner {
  Notices notices;
  bool input;       // it reads stdin
  bool same_folder; // all jobs of a user have theirs in one, which each removes when it is empty
};

// Runs a PMIx launcher that starts its PEs itself, and returns its exit status when all of them are
// gone.
int run_job(const std::vector<std::string> &words, Manner manner);

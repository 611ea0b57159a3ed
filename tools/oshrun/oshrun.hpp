// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <vector>

// Ends oshrun with one line.
[[noreturn, gnu::format(printf, 2, 3)]] void fail(int status, const char *format, ...);

bool is_hostfile(std::string_view option);

// Replaces this process by a command, which is called by that name, or else by its path.
[[noreturn]] void become(const std::vector<std::string> &words, const std::string &name = "");

struct Manner {
  bool sorted;      // what the launcher tells of a PE that failed is to be one line of oshrun
  bool input;       // it reads stdin
  bool same_folder; // all jobs of a user have theirs in one, which each removes when it is empty
  std::string name; // by which the launcher is called
};

// Runs a PMIx launcher that starts its PEs itself, and returns its exit status when all of them are
// gone.
int run_job(const std::vector<std::string> &words, const Manner &manner);

// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

// Ends oshrun with one line.
[[noreturn, gnu::format(printf, 2, 3)]] void fail(int status, const char *format, ...);

// Replaces this process by a command.
[[noreturn]] void become(const std::vector<std::string> &words);

// Runs a PMIx launcher that starts its PEs itself, and returns its exit status when all of them are
// gone. quiet: what it says of a PE that has failed becomes one line. input: it reads stdin.
int run_job(const std::vector<std::string> &words, bool quiet, bool input);

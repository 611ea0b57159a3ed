// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <vector>

// Ends oshrun with one line.
[[noreturn, gnu::format(printf, 2, 3)]] void fail(int status, const char *format, ...);

bool is_hostfile(std::string_view option);

using Words = std::vector<std::string>;

// The state that a program inherits from the caller of oshrun, see inherit.cpp.
class State {
public:
  State();                                  // as it is now
  void set(const std::string &setting);     // NAME=VALUE, for PEs alone
  void leave_out(std::string_view setting); // a variable that an option of the launcher names
  // A variable for the launcher that the user has not set; PEs do not have it.
  void set_for_launcher(const char *name, const char *value);
  // The words that start a program with this state, which the environment carries to it.
  Words started(const Words &program);
  static constexpr const char *carrier = "OSHRUN_STATE";

private:
  std::string text;
  Words settings;
};

// oshrun as a PE: takes up that state, and becomes the program.
[[noreturn]] void become_pe(char **program);

// Replaces this process by a command, which is called by that name, or else by its path.
[[noreturn]] void become(const Words &words, const std::string &name = "");

struct Manner {
  bool sorted;      // what the launcher tells of a PE that failed is to be one line of oshrun
  bool input;       // it reads stdin
  bool same_folder; // all jobs of a user have theirs in one, which each removes when it is empty
  std::string name; // by which the launcher is called
};

// Runs a PMIx launcher that starts its PEs itself, and returns its exit status when all of them are
// gone.
int run_job(const Words &words, const Manner &manner);

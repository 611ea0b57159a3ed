// SPDX-License-Identifier: MIT
// The common functions of shmem_info's parts.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace info {

// One set of facts, written as text or as JSON.
extern bool json;
std::string quoted(const char *text); // as JSON has it
void begin(const char *section);
void end();
void begin_list(const char *name); // of facts that have several sections
void begin_item();
void end_item();
void end_list();
void say(const char *name, const char *text);
void say(const char *name, size_t number);
void say(const char *name, bool yes);
void say_bytes(const char *name, size_t bytes);

// The path of a tool that is installed with this one.
std::string beside(const char *tool);
// Runs a program for at most so many seconds. Gives its output, and its exit status or -1.
int run(const std::vector<std::string> &words, std::string *output, unsigned seconds = 20);

// The error for a word of the command line; returns its status.
int unknown(const char *word);
void say_devices();
int doctor(int argc, char **argv);
// Runs of all tools, which take at most so many seconds together, into this file.
int doctor_amd(const char *path, unsigned seconds);

} // namespace info

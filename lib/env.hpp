// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

namespace shmem {

// The environment, parsed. A field for each row of env.def.
struct Env {
  using flag = bool;
  using boolean = bool;
  using size = size_t;
  using text = const char *;
  using number = int;                                         // -1 when not set
  enum class gpu : int { any = -1, none = -2, current = -3 }; // or its number
  using seconds = double;                                     // 0 when not set
  enum place { anywhere, host, device };                      // of the symmetric heap
  enum reach { network, mapped };                             // how a peer on this node is reached
  enum growth { none, of_device, of_both };                   // which heaps grow
#define VAR(NAME, field, kind, def, aliases, help) kind field;
#include "env.def"
#undef VAR
};

// A row of env.def, which SHMEM_INFO, shmem_info and the manual print.
struct Variable {
  const char *name, *kind, *def, *aliases, *help;
  // Sets the field. On a bad value: false, with what it should have been.
  bool (*parse)(const char *text, Env *env, const char **reason);
};
extern const Variable variables[];
extern const size_t n_variables;

// The text of SHMEM_name, else of the first alias that is set, else null; and the name that was
// found, SHMEM_name if none. A flag counts as set whatever its value, any other variable only when
// it is not empty.
using Name = char[64];
const char *env_text(const Variable &v, Name *used = nullptr);
const char *env_text(const char *name); // the same, of the row with this name

// Parses a size by the specification's grammar: decimal number, at most one suffix, the rest
// ignored; rounded up to a byte. Signs, exponents, hexadecimal, blanks in front and anything that
// does not fit size_t are refused.
bool parse_size(const char *text, size_t *bytes);

// Reads one variable, or all. On a bad value: false, with the line to print in message.
bool read_variable(const Variable &v, Env *env, char *message, size_t length);
bool read_env(Env *env, char *message, size_t length);

// Calls tell with a line for each SHMEM_ variable of the environment that the library does not
// read, because the name is misspelt or another library's. Returns their number.
size_t unknown_variables(void (*tell)(const char *line));

// Prints its value in force, its default and what it is for.
void print_variable(const Variable &v);

} // namespace shmem

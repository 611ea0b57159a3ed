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
#define VAR(NAME, field, kind, def, sma, help) kind field;
#include "env.def"
#undef VAR
};

// A row of env.def, for what prints them: SHMEM_INFO, shmem_info, the manual.
struct Variable {
  const char *name, *kind, *def, *help;
  bool sma;
};
extern const Variable variables[];
extern const size_t n_variables;

// The value in force: SHMEM_name, SMA_name where there is one, or null when neither is set.
const char *env_text(const Variable &v);

// Parses a size by the specification's grammar: decimal number, at most one suffix, the rest
// ignored; rounded up to a byte. Signs, exponents, hexadecimal, blanks in front and anything that
// does not fit size_t are refused.
bool parse_size(const char *text, size_t *bytes);

// Fills env. On a bad value: false, with the line to print in message.
bool read_env(Env *env, char *message, size_t length);

} // namespace shmem

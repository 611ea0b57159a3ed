// SPDX-License-Identifier: MIT
#include "env.hpp"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace shmem {

const Variable variables[] = {
#define VAR(NAME, field, kind, def, sma, help) {#NAME, #kind, def, help, sma != 0},
#include "env.def"
#undef VAR
};
const size_t n_variables = sizeof variables / sizeof *variables;

const char *env_text(const Variable &v) {
  char name[64];
  snprintf(name, sizeof name, "SHMEM_%s", v.name);
  const char *text = getenv(name);
  if (!text && v.sma) {
    snprintf(name, sizeof name, "SMA_%s", v.name);
    text = getenv(name);
  }
  return text;
}

bool parse_size(const char *text, size_t *bytes) {
  // By hand, because strtod takes signs, exponents and hexadecimal, and a double does not hold
  // every 64-bit integer.
  using wide = unsigned __int128;
  wide whole = 0, part = 0, scale = 1;
  bool digits = false;
  const char *p = text;
  for (; *p >= '0' && *p <= '9'; p++) {
    digits = true;
    whole = whole * 10 + (*p - '0');
    if (whole > SIZE_MAX) return false;
  }
  if (*p == '.') {
    bool rest = false;
    for (p++; *p >= '0' && *p <= '9'; p++) {
      digits = true;
      if (scale < 1000000000000000000) {
        part = part * 10 + (*p - '0');
        scale *= 10;
      } else {
        rest |= *p != '0';
      }
    }
    part += rest; // digits beyond the 18th can only matter for rounding up
  }
  if (!digits) return false;
  int shift = 0;
  switch (*p) {
  case 'k':
  case 'K':
    shift = 10;
    break;
  case 'm':
  case 'M':
    shift = 20;
    break;
  case 'g':
  case 'G':
    shift = 30;
    break;
  case 't':
  case 'T':
    shift = 40;
    break;
  case '\0':
    break;
  default:
    return false;
  }
  wide total = (whole << shift) + ((part << shift) + scale - 1) / scale;
  if (total > SIZE_MAX) return false;
  *bytes = size_t(total);
  return true;
}

namespace {

// One parser for each kind. "reason" says what the value should have been.
bool parse(const char *text, bool flag, bool *out, const char **reason) {
  *reason = "expected 0 or 1";
  *out = flag ? text != nullptr : text && *text == '1';
  return flag || !text || !*text || !strcmp(text, "0") || !strcmp(text, "1");
}
bool parse(const char *text, bool, size_t *out, const char **reason) {
  *reason = "expected a number of bytes, then nothing or one of k m g t, such as 512m or 1.5G";
  return parse_size(text, out);
}
bool parse(const char *text, bool, const char **out, const char **) {
  *out = text;
  return true;
}

} // namespace

bool read_env(Env *env, char *message, size_t length) {
  const Variable *row = variables;
  const char *reason = nullptr;
#define VAR(NAME, field, kind, def, sma, help)                                                     \
  {                                                                                                \
    bool flag = !strcmp(#kind, "flag");                                                            \
    const char *set = env_text(*row++), *text = set || flag ? set : def;                           \
    if (!parse(text, flag, &env->field, &reason)) {                                                \
      snprintf(message, length, "SHMEM_%s = \"%s\": %s", #NAME, text, reason);                     \
      return false;                                                                                \
    }                                                                                              \
  }
#include "env.def"
#undef VAR
  return true;
}

} // namespace shmem

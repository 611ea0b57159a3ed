// SPDX-License-Identifier: MIT
#include "env.hpp"
#include "built.h"
#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace shmem {

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
  static const char suffixes[] = "kKmMgGtT";
  const char *suffix = strchr(suffixes, *p);
  if (!suffix) return false;
  const auto shift = *p ? 10 * ((suffix - suffixes) / 2 + 1) : 0;
  wide total = (whole << shift) + ((part << shift) + scale - 1) / scale;
  if (total > SIZE_MAX) return false;
  *bytes = size_t(total);
  return true;
}

namespace {

// One parser for each kind; `reason` becomes what the value should have been. The text of a flag
// that is not set is null; any other kind has its default then.
bool parse(const char *text, bool *out, const char *kind, const char **reason) {
  *reason = "expected 0 or 1";
  const bool flag = !strcmp(kind, "flag");
  *out = flag ? text != nullptr : *text == '1';
  return flag || !strcmp(text, "0") || !strcmp(text, "1");
}
bool parse(const char *text, size_t *out, const char *, const char **reason) {
  *reason = "expected a number of bytes, then nothing or one of k m g t, such as 512m or 1.5G";
  return parse_size(text, out);
}
bool parse(const char *text, const char **out, const char *, const char **) {
  *out = text;
  return true;
}
bool parse(const char *text, Env::place *out, const char *, const char **reason) {
  *out = !*text ? Env::anywhere : !strcmp(text, "host") ? Env::host : Env::device;
  *reason = "expected device or host";
  return *out != Env::device || !strcmp(text, "device");
}
bool parse(const char *text, Env::growth *out, const char *kind, const char **reason) {
  bool yes = false;
  const bool right = !*text || parse(text, &yes, kind, reason);
  *out = !*text ? Env::of_device : yes ? Env::of_both : Env::none;
  return right;
}
bool parse(const char *text, int *out, const char *, const char **reason) {
  *reason = "expected a number from 0";
  *out = -1;
  if (!*text) return true;
  char *end;
  long value = strtol(text, &end, 10);
  *out = int(value);
  return *text >= '0' && *text <= '9' && !*end && value <= INT_MAX;
}
bool parse(const char *text, Env::gpu *out, const char *kind, const char **reason) {
  int number;
  const bool right = parse(text, &number, kind, reason);
  *out = Env::gpu(number);
  if (!strcmp(text, "none")) return *out = Env::gpu::none, true;
  if (!strcmp(text, "current")) return *out = Env::gpu::current, true;
  *reason = "expected a number from 0, none, or current";
  return right;
}
bool parse(const char *text, double *out, const char *, const char **reason) {
  *reason = "expected a number of seconds, more than 0, such as 10 or 0.5";
  *out = 0;
  if (!*text) return true;
  // Not strtod: in a program that has called setlocale its point may be a comma.
  const char *end = text + strlen(text);
  const auto [rest, error] = std::from_chars(text, end, *out);
  return error == std::errc() && *text != '-' && rest == end && *out > 0 && *out < 1e9;
}
bool parse(const char *text, Env::reach *out, const char *kind, const char **reason) {
  bool yes;
  if (!parse(text, &yes, kind, reason)) return false;
  *out = yes ? Env::mapped : Env::network;
  *reason = "the library was built without a network: build it with -Ducx=enabled";
  return yes || strcmp(SHMEM_NET, "none") != 0;
}

// The edit distance of two words. No variable's name has `most` letters, so a longer word is far
// from all of them.
constexpr size_t most = 40;
size_t apart(const char *a, const char *b) {
  size_t n = strlen(b), row[most + 1];
  if (strlen(a) > most || n > most) return most;
  for (size_t j = 0; j <= n; j++) row[j] = j;
  for (; *a; a++) {
    size_t corner = row[0]++;
    for (size_t j = 1; j <= n; j++) {
      const size_t change = corner + (*a != b[j - 1]);
      corner = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[n];
}

} // namespace

const Variable variables[] = {
#define VAR(NAME, field, kind, def, aliases, help)                                                 \
  {#NAME, #kind, def, aliases, help, [](const char *text, Env *env, const char **reason) {         \
     return parse(text, &env->field, #kind, reason);                                               \
   }},
#include "env.def"
#undef VAR
};
const size_t n_variables = sizeof variables / sizeof *variables;

const char *env_text(const Variable &v, Name *used) {
  const bool flag = !strcmp(v.kind, "flag");
  Name name;
  snprintf(name, sizeof name, "SHMEM_%s", v.name);
  if (used) memcpy(*used, name, sizeof name);
  for (const char *rest = v.aliases;;) {
    const char *text = getenv(name);
    if (text && (flag || *text)) {
      if (used) memcpy(*used, name, sizeof name);
      return text;
    }
    if (!rest || sscanf(rest, "%63s", name) != 1) return nullptr;
    rest = strchr(rest, ' ');
    if (rest) rest++;
  }
}

const char *env_text(const char *name) {
  for (const Variable &v : variables)
    if (!strcmp(v.name, name)) return env_text(v);
  return nullptr;
}

bool read_variable(const Variable &v, Env *env, char *message, size_t length) {
  Name name;
  const char *text = env_text(v, &name), *reason = nullptr;
  if (!text && strcmp(v.kind, "flag") != 0) text = v.def;
  if (v.parse(text, env, &reason)) return true;
  snprintf(message, length, "%s = \"%.80s\": %s", name, text, reason);
  v.parse(v.def, env, &reason); // init goes on until all PEs know of each other
  return false;
}

bool read_env(Env *env, char *message, size_t length) {
  bool right = true;
  char further[256];
  for (const Variable &v : variables)
    right &= read_variable(v, env, right ? message : further, right ? length : sizeof further);
  return right;
}

static bool has_word(const char *words, const char *word) {
  const size_t n = strlen(word);
  for (const char *p = words; p; p = strchr(p, ' ')) {
    p += *p == ' ';
    if (!strncmp(p, word, n) && (p[n] == ' ' || !p[n])) return true;
  }
  return false;
}

size_t unknown_variables(void (*tell)(const char *line)) {
  static const char *const known[] = {
#define VAR(NAME, field, kind, def, aliases, help) "SHMEM_" #NAME,
#define ELSEWHERE(NAME) "SHMEM_" #NAME,
#include "env.def"
#undef VAR
  };
  constexpr size_t prefix = 6;
  size_t count = 0;
  for (char **e = environ; *e; e++) {
    if (strncmp(*e, "SHMEM_", prefix) != 0) continue;
    char name[128];
    snprintf(name, sizeof name, "%.*s", int(strcspn(*e, "=")), *e);
    // At most three letters, and not more than half of the word: CPU is not CC.
    const char *nearest = nullptr;
    size_t least = std::min<size_t>(3, (strlen(name) - prefix) / 2) + 1;
    for (const char *ours : known)
      if (size_t far = apart(ours + prefix, name + prefix); far < least)
        least = far, nearest = ours;
    if (nearest && least == 0) continue;
    if (std::any_of(variables, variables + n_variables,
                    [&](const Variable &v) { return has_word(v.aliases, name); }))
      continue;
    char line[256];
    snprintf(line, sizeof line, "%s is not a variable of this library%s%s%s", name,
             nearest ? ": is " : "", nearest ? nearest : "", nearest ? " meant?" : "");
    tell(line);
    count++;
  }
  return count;
}

void print_variable(const Variable &v) {
  Name name;
  const char *text = env_text(v, &name);
  const char *value = text ? text : v.def;
  printf("SHMEM_%s = %s", v.name, *value ? value : text ? "\"\"" : "(unset)");
  if (strcmp(name + strlen("SHMEM_"), v.name) != 0) printf(" (by %s)", name);
  if (text && *v.def) printf(" (default: %s)", v.def);
  printf("\n    %s%s%s\n", v.help, v.aliases ? "; or " : "", v.aliases ? v.aliases : "");
}

} // namespace shmem

// SPDX-License-Identifier: MIT
// A PE inherits from the caller of oshrun: environment, umask, limits, signals ignored and blocked.
// Launchers change all of that, and hand little of it to other nodes: Open MPI sends a node the
// variables that are named, lets a PE ignore and block no signal, and leaves it what libraries in
// its own process set (hwloc's OpenCL plugin loads pocl, which sets HWLOC_PLUGINS_PATH; Ubuntu
// 24.04, 2026-11-26). So the caller's state travels in one variable, and a PE begins as oshrun,
// which takes it up and becomes the program.
#include "oshrun.hpp"
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

constexpr size_t longest = 120000; // Linux takes 128 KiB as one variable

// Whether a variable is not the caller's to pass on: a launcher sets it for each PE, or it names
// one node or one process.
bool of_launcher(std::string_view name) {
  for (const char *start : {"OMPI_", "PMIX_", "PRTE_", "PRRTE_", "PMI_", "SLURM_", "OSHRUN_"})
    if (name.starts_with(start)) return true;
  for (const char *own : {"_", "PWD", "OLDPWD", "SHLVL", "HOSTNAME"})
    if (name == own) return true;
  return false;
}

std::string_view name_of(std::string_view setting) {
  return setting.substr(0, setting.find('='));
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         (c != '\0' && strchr("_-./:=+ ", c));
}

// The text with each unusual character as %XX. A launcher splits its list of variables at some
// characters, which the text must not hold.
std::string coded(std::string_view text) {
  std::string code;
  for (const char c : text) {
    char hex[4];
    snprintf(hex, sizeof hex, "%%%02X", unsigned(static_cast<unsigned char>(c)));
    if (is_plain(c))
      code += c;
    else
      code += hex;
  }
  return code;
}

std::string decoded(std::string_view code) {
  std::string text;
  for (size_t i = 0; i < code.size(); i++)
    if (code[i] == '%') {
      text += char(strtoul(std::string(code.substr(i + 1, 2)).c_str(), nullptr, 16));
      i += 2;
    } else {
      text += code[i];
    }
  return text;
}

// One item of the state: a letter for its kind, and the item.
void take_up(char kind, const std::string &item) {
  switch (kind) {
  case 'u':
    umask(mode_t(atoi(item.c_str())));
    break;
  case 'l': {
    unsigned resource;
    unsigned long soft, hard;
    rlimit here;
    if (sscanf(item.c_str(), "%u %lu %lu", &resource, &soft, &hard) != 3 ||
        getrlimit(__rlimit_resource_t(resource), &here) != 0)
      return;
    // Only root may raise the other. RLIM_INFINITY is the largest number.
    const rlimit limit{std::min<rlim_t>(soft, here.rlim_max),
                       std::min<rlim_t>(hard, here.rlim_max)};
    setrlimit(__rlimit_resource_t(resource), &limit);
    break;
  }
  case 'v':
    if (const size_t end = item.find('='); end != item.npos)
      setenv(item.substr(0, end).c_str(), item.c_str() + end + 1, 1);
    break;
  case 'x':
    unsetenv(item.c_str());
    break;
  default:
    break;
  }
}

} // namespace

State::State() {
  std::string signals(2 * NSIG, '-');
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, nullptr, &blocked);
  for (int s = 1; s < NSIG; s++) {
    struct sigaction action;
    if (sigaction(s, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      signals[size_t(s)] = 'i';
    if (sigismember(&blocked, s) == 1) signals[size_t(NSIG + s)] = 'b';
  }
  const mode_t mask = umask(0);
  umask(mask);
  text = "s" + signals + ",u" + std::to_string(mask);
  for (unsigned r = 0; r < RLIM_NLIMITS; r++)
    if (rlimit limit; getrlimit(__rlimit_resource_t(r), &limit) == 0)
      text += ",l" + std::to_string(r) + " " + std::to_string(limit.rlim_cur) + " " +
              std::to_string(limit.rlim_max);
  for (char **e = environ; *e; e++)
    if (!of_launcher(name_of(*e))) settings.emplace_back(*e);
}

void State::set(const std::string &setting) {
  leave_out(setting);
  settings.push_back(setting);
}

void State::leave_out(std::string_view setting) {
  std::erase_if(settings, [&](const std::string &s) { return name_of(s) == name_of(setting); });
}

void State::set_for_launcher(const char *name, const char *value) {
  if (getenv(name)) return;
  setenv(name, value, 1);
  text += ",x" + std::string(name);
}

Words State::started(const Words &program) {
  std::string all = text;
  for (const std::string &setting : settings) all += ",v" + coded(setting);
  setenv(carrier, (all.size() < longest ? all : text).c_str(), 1);
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
  // On a node that does not have oshrun, the program is started without it.
  Words words{"/bin/sh", "-c", R"([ -x "$0" ] && exec "$0" --as-pe "$@"; exec "$@")",
              std::string(self, n > 0 ? size_t(n) : 0)};
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

void become_pe(char **program) {
  const char *state = getenv(State::carrier);
  const std::string all = state ? state : "";
  unsetenv(State::carrier);
  for (size_t at = 0, end; at < all.size(); at = end + 1) {
    end = std::min(all.find(',', at), all.size());
    if (end == at) continue;
    const std::string item = decoded(std::string_view(all).substr(at + 1, end - at - 1));
    if (all[at] != 's' || item.size() != 2 * NSIG) {
      take_up(all[at], item);
      continue;
    }
    sigset_t blocked;
    sigemptyset(&blocked);
    for (int s = 1; s < NSIG; s++) {
      signal(s, item[size_t(s)] == 'i' ? SIG_IGN : SIG_DFL);
      if (item[size_t(NSIG + s)] == 'b') sigaddset(&blocked, s);
    }
    sigprocmask(SIG_SETMASK, &blocked, nullptr);
  }
  execvp(program[0], program);
  // Launchers look in the working folder, too.
  if (const std::string here = std::string("./") + program[0];
      errno == ENOENT && !strchr(program[0], '/')) {
    execv(here.c_str(), program);
    if (errno == ENOENT) fail(127, "no program '%s'", program[0]);
  }
  fail(errno == ENOENT ? 127 : 126, "%s: %s", program[0], strerror(errno));
}

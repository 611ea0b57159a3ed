// SPDX-License-Identifier: MIT
#include "info.hpp"
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace info {

bool json;

namespace {

const char *separator = ""; // before the next fact of the object that is open
int depth = 1;              // of objects, for the indent

std::string indent() {
  std::string text(1, '\n');
  return text.append(size_t(depth) * 2, ' ');
}
void begin_value(const char *name) {
  if (json) {
    printf("%s%s\"%s\": ", separator, indent().c_str(), name);
  } else {
    std::string words = name;
    for (char &c : words)
      if (c == '_') c = ' ';
    printf("  %-28s ", words.c_str());
  }
  separator = ",";
}

} // namespace

std::string quoted(const char *text) {
  std::string out = "\"";
  while (*text) {
    // A variable may hold bytes that are not UTF-8, JSON may not.
    wchar_t wide;
    mbstate_t state{};
    const size_t n = mbrtowc(&wide, text, MB_LEN_MAX, &state);
    if (n > MB_LEN_MAX) {
      out += "\\ufffd";
      text++;
    } else if (unsigned(*text) < ' ' || *text == '"' || *text == '\\') {
      char escape[8];
      snprintf(escape, sizeof escape, "\\u%04x", unsigned(*text++));
      out += escape;
    } else {
      out.append(text, n);
      text += n;
    }
  }
  return out + '"';
}

void begin(const char *section) {
  if (json)
    printf("%s%s\"%s\": {", separator, indent().c_str(), section);
  else
    printf("\n%s\n", section);
  separator = "";
  depth++;
}
void end() {
  depth--;
  if (json) printf("%s}", indent().c_str());
  separator = ",";
}
void begin_list(const char *name) {
  if (json) printf("%s%s\"%s\": [", separator, indent().c_str(), name);
  separator = "";
  depth++;
}
void begin_item() {
  if (json) printf("%s%s{", separator, indent().c_str());
  separator = "";
  depth++;
}
void end_item() {
  end();
}
void end_list() {
  depth--;
  if (json) printf("%s]", indent().c_str());
  separator = ",";
}
void say(const char *name, const char *text) {
  begin_value(name);
  printf(json ? "%s" : "%s\n", json ? quoted(text).c_str() : text);
}
void say(const char *name, size_t number) {
  begin_value(name);
  printf(json ? "%zu" : "%zu\n", number);
}
void say(const char *name, bool yes) {
  begin_value(name);
  if (json)
    printf(yes ? "true" : "false");
  else
    printf(yes ? "yes\n" : "no\n");
}
void say_bytes(const char *name, size_t bytes) {
  if (json) return say(name, bytes);
  begin_value(name);
  if (bytes >= size_t(1) << 30)
    printf("%.1f GiB\n", double(bytes) / (1 << 30));
  else
    printf("%.1f MiB\n", double(bytes) / (1 << 20));
}

// So that both always find the same.
std::string beside(const char *tool) {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  const std::string self(path, n > 0 ? size_t(n) : 0);
  return self.substr(0, self.rfind('/') + 1) + tool;
}

int run(const std::vector<std::string> &words, std::string *output, unsigned seconds) {
  std::vector<char *> argv;
  argv.reserve(words.size() + 1);
  for (const std::string &word : words) argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  int ends[2], status = -1;
  fflush(nullptr);
  const pid_t child = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
  if (child == 0) {
    setpgid(0, 0);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    alarm(seconds); // exec keeps it, so it ends the program
    execv(argv[0], argv.data());
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
  }
  if (child < 0) return -1;
  close(ends[1]);
  char text[4096];
  for (ssize_t n; (n = read(ends[0], text, sizeof text)) > 0;) output->append(text, size_t(n));
  close(ends[0]);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace info

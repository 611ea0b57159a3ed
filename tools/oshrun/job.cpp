// SPDX-License-Identifier: MIT
// One job. oshrun stays beside the launcher for two things that launchers do not do: when it
// returns, no process of a job that failed is left, and one line says what happened, as the last.
#include "oshrun.hpp"
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Pipe {
  int out = -1, in = -1;
  bool open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) return false;
    out = ends[0];
    in = ends[1];
    fcntl(out, F_SETFL, O_NONBLOCK);
    return true;
  }
  void read_to(std::string &text) const {
    char part[4096];
    for (ssize_t n; out >= 0 && (n = read(out, part, sizeof part)) > 0;)
      text.append(part, size_t(n));
  }
};

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno != EINTR) return;
    if (n > 0) text.remove_prefix(size_t(n));
  }
}

// What mpirun itself says, as opposed to the PEs. Most of it passes; of a PE that failed, which it
// tells in two blocks between rules, it is read who it was and why.
class Notes {
public:
  std::string text;
  bool failure = false;     // one of those blocks was there
  std::string who = "a PE"; // mpirun leaves it out when the PE fails while others start
  std::string cause;

  void sort(bool end) {
    while (!text.empty()) {
      const bool block = starts_with_rule(text);
      size_t stop = block ? end_of_block() : text.find('\n');
      if (stop == text.npos) {
        if (!end) return;
        stop = text.size() - 1;
      }
      const std::string_view part(text.data(), stop + 1);
      if (!block || !read_failure(part)) write_all(part);
      text.erase(0, stop + 1);
    }
  }

private:
  static bool starts_with_rule(std::string_view s) {
    return s.starts_with("--------------------------------------------------");
  }
  size_t end_of_block() const {
    for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1))
      if (starts_with_rule(std::string_view(text).substr(at + 1))) return text.find('\n', at + 1);
    return text.npos;
  }
  // The number behind a word of the block, or -1.
  static int after(std::string_view block, std::string_view word) {
    const size_t at = block.find(word);
    return at == block.npos ? -1 : atoi(std::string(block.substr(at + word.size(), 16)).c_str());
  }
  void pe(int rank) {
    if (rank >= 0) who = "PE " + std::to_string(rank);
  }
  bool read_failure(std::string_view block) {
    auto has = [&](std::string_view words) { return block.find(words) != block.npos; };
    if (has(" noticed that process rank ")) {
      pe(after(block, "process rank "));
      const size_t on = block.find("exited on signal ");
      if (on != block.npos)
        cause = "was ended by" + std::string(block.substr(on + 9, block.find(").", on) - on - 8));
    } else if (has(" detected that one or more processes exited with non-zero status")) {
      const size_t name = block.find("Process name: [["), comma = block.find("],", name);
      if (comma != block.npos) pe(after(block.substr(comma), "],"));
      if (const int status = after(block, "Exit code:"); status > 0)
        cause = "ended with status " + std::to_string(status);
    } else if (has(" has exited due to process rank ")) {
      pe(after(block, "process rank "));
      cause = "ended without shmem_finalize";
    } else if (!has(" job  terminated normally, but ") &&
               !has(" noticed that the job aborted, but has no info ")) {
      return false;
    }
    return failure = true;
  }
};

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

std::vector<pid_t> children() {
  std::vector<pid_t> list;
  if (FILE *file = fopen("/proc/thread-self/children", "re")) {
    for (int pid; fscanf(file, "%d", &pid) == 1;) list.push_back(pid);
    fclose(file);
  }
  return list;
}

// PEs that the launcher has left are children of this process now.
void end_the_rest(const std::vector<pid_t> &before) {
  const double until = now() + 10;
  for (;;) {
    bool left = false;
    for (const pid_t pid : children()) {
      bool ours = true;
      for (const pid_t other : before) ours = ours && pid != other;
      if (!ours) continue;
      kill(pid, SIGKILL);
      left = waitpid(pid, nullptr, WNOHANG) == 0 || left;
    }
    if (!left) return;
    if (now() > until) {
      fprintf(stderr, "oshrun: processes of the job do not end\n");
      return;
    }
    const timespec t{0, 1000000};
    nanosleep(&t, nullptr);
  }
}

// The signals that end this process unless somebody, as nohup, has them ignored.
sigset_t taken_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    struct sigaction action;
    if (sigaction(s, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&set, s);
  }
  sigaddset(&set, SIGCHLD);
  return set;
}

struct Job {
  pid_t launcher;
  bool input;
  double asked = 0; // to end, when
  Notes notes;
  std::string word; // what the library says of the end, see last_word in lib/log.hpp

  void pass_on(const signalfd_siginfo &info) {
    const int s = int(info.ssi_signo);
    if (s == SIGUSR1 || s == SIGUSR2) {
      kill(launcher, s);
    } else if (!asked) {
      asked = now();
      // Those of the terminal have reached a launcher that shares it.
      if (!input || info.ssi_code != SI_KERNEL) kill(launcher, s == SIGINT ? SIGINT : SIGTERM);
    } else if (now() - asked > 1) { // timeout(1) sends a signal twice, a user who is tired later
      kill(launcher, SIGKILL);
    }
  }

  void say_why(int status) {
    if (asked) return;
    if (!word.empty()) {
      word.erase(word.find('\n'));
      if (word.empty()) return; // as the program wanted it
      const size_t by = notes.cause.find("signal ");
      if (by != std::string::npos) word += ": " + notes.cause.substr(by);
      write_all(word + "\n");
    } else if (notes.failure) {
      if (notes.cause.empty() && status > 128)
        notes.cause = "was ended by signal " + std::to_string(status - 128) + " (" +
                      strsignal(status - 128) + ")";
      else if (notes.cause.empty())
        notes.cause = "ended with status " + std::to_string(status);
      write_all("oshrun: " + notes.who + " " + notes.cause + "\n");
    }
  }
};

std::vector<char *> arguments(const std::vector<std::string> &words) {
  std::vector<char *> list;
  for (const std::string &word : words) list.push_back(const_cast<char *>(word.c_str()));
  list.push_back(nullptr);
  return list;
}

} // namespace

void become(const std::vector<std::string> &words) {
  execv(words[0].c_str(), arguments(words).data());
  fail(126, "%s: %s", words[0].c_str(), strerror(errno));
}

int run_job(const std::vector<std::string> &given, bool quiet, bool input) {
  std::vector<std::string> words = given;
  Pipe notes, word;
  if (quiet && notes.open()) {
    // mpirun's own words go there. It closes it in the PEs, so an MPI in them needs the default.
    setenv("OPAL_OUTPUT_STDERR_FD", std::to_string(notes.in).c_str(), 1);
    words.insert(words.begin() + 1, {"-x", "OPAL_OUTPUT_STDERR_FD=2"});
  }
  struct stat s;
  unsetenv("OSHRUN_WORD");
  if (quiet && word.open() && fstat(word.in, &s) == 0) {
    // Launchers close all files in a PE, so it opens this one by name; the number makes sure of it.
    const std::string name = "/proc/" + std::to_string(getpid()) + "/fd/" +
                             std::to_string(word.in) + " " + std::to_string(s.st_ino);
    setenv("OSHRUN_WORD", name.c_str(), 1);
  }
  std::vector<pid_t> before;
  if (waitpid(-1, nullptr, WNOHANG) == 0) before = children(); // of a shell that has become oshrun
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const sigset_t taken = taken_signals();
  sigset_t outer;
  sigprocmask(SIG_BLOCK, &taken, &outer);
  const int signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  const pid_t self = getpid(), launcher = fork();
  if (launcher < 0) fail(1, "starting %s: %s", words[0].c_str(), strerror(errno));
  if (launcher == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); // ends the job in its own way when oshrun is killed
    if (getppid() != self) _exit(1);
    // A group of its own: signals of the terminal come once, by way of oshrun, which would
    // otherwise not know whether the launcher has them. Unless it is to read the terminal.
    if (!input) setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN); // it writes to the terminal all the same
    sigprocmask(SIG_SETMASK, &outer, nullptr);
    if (notes.in >= 0) fcntl(notes.in, F_SETFD, 0);
    become(words);
  }
  Job job{launcher, input, 0, {}, {}};
  int status = 0;
  for (bool ended = false; !ended;) {
    pollfd fds[] = {{signals, POLLIN, 0}, {notes.out, POLLIN, 0}, {word.out, POLLIN, 0}};
    if (poll(fds, 3, -1) < 0 && errno != EINTR) break;
    signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info)
      if (info.ssi_signo != SIGCHLD) job.pass_on(info);
    ended = waitpid(launcher, &status, WNOHANG) == launcher;
    notes.read_to(job.notes.text);
    job.notes.sort(ended);
    word.read_to(job.word);
  }
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (code != 0) end_the_rest(before);
  job.say_why(code);
  return code;
}

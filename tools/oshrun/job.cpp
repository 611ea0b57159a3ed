// SPDX-License-Identifier: MIT
// One job. oshrun stays beside the launcher for two things that launchers do not do: when it
// returns, no process of a job that failed is left, and one line says what happened, as the last.
#include "oshrun.hpp"
#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <netdb.h>
#include <optional>
#include <poll.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

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

// Standard error, which may be a pipe that no process reads for a while: signals are handled all
// the same.
class Output {
public:
  bool waits() const { return !text.empty(); }
  void add(std::string_view more) {
    text.append(more);
    if (!more.empty()) open = more.back() != '\n';
  }
  void add_line(const std::string &line) { add((open ? "\n" : "") + line + "\n"); }
  // As much as does not block once poll has said that there is room.
  void write_some() {
    const ssize_t n = write(STDERR_FILENO, text.data(), std::min(text.size(), size_t(PIPE_BUF)));
    if (n < 0 && errno != EINTR && errno != EAGAIN) text.clear(); // no process will ever read it
    if (n > 0) text.erase(0, size_t(n));
  }
  void write_all() {
    for (pollfd room{STDERR_FILENO, POLLOUT, 0}; waits(); write_some()) poll(&room, 1, -1);
  }

private:
  std::string text;
  bool open = false; // the last line, of a PE
};

// Sorts the launcher's own lines from the lines of the PEs. All lines pass, but for the launcher's
// report of a PE that failed, in one or two blocks between rules: from these this learns the PE and
// the cause.
class Notes {
public:
  std::string text;         // the last input that is not sorted yet
  bool failure = false;     // one of those blocks was there
  bool spoken = false;      // the launcher said something of its own, or it is not known
  std::string who = "a PE"; // launchers leave it out when the PE fails while others start
  std::string cause;
  bool unstarted = false; // a node's daemon, which has said why
  std::string lost;       // the node of a daemon that has died

  bool holds() const { return !block.empty() || !crash.empty() || !text.empty(); }

  // A rule may begin a block; the text after it decides. `over`: no text follows.
  void sort(Output &out, bool over) {
    size_t end;
    for (; (end = text.find('\n')) != text.npos; text.erase(0, end + 1))
      take_line(std::string_view(text).substr(0, end + 1), out);
    // PRRTE 3 ends with a byte of zero when it has lost a node.
    if (text == std::string(1, '\0')) {
      if (!over) return;
      text.clear();
    }
    // An unfinished line passes at once, unless it may begin a rule.
    size_t pass = block.empty() ? text.find_last_not_of('-') + 1 : 0;
    if (over) {
      out.add(std::exchange(block, ""));
      out.add(std::exchange(crash, ""));
      pass = text.size();
    }
    out.add(std::string_view(text).substr(0, pass));
    text.erase(0, pass);
  }

private:
  static constexpr size_t rule_length = 74; // Open MPI 4, PRRTE 3 and 5
  std::string block;        // a rule, and the lines after it when they tell of a failure
  std::string crash;        // the report of a process that crashed, as far as it has come
  std::string host_and_pid; // of the process, with which each line of the report begins
  bool daemon_crashed = false;

  void take_line(std::string_view line, Output &out) {
    if (of_crash(line, out)) return;
    // The end of a line is a rule; the text before it is of a PE that did not end its line.
    const size_t dashes = line.size() - 1 - (line.find_last_not_of("-\n") + 1);
    const bool rule = dashes >= rule_length;
    const size_t words = rule ? line.size() - 1 - rule_length : 0;
    spoken = spoken || rule || of_launcher(line);
    const bool inside = block.find_first_not_of("-\n") != block.npos;
    if (inside || (!block.empty() && (line == "\n" || tells_failure(line)))) {
      block += line;
      if (inside && rule) read_failure(std::exchange(block, ""));
      return;
    }
    out.add(std::exchange(block, ""));
    // More of the blocks that are not shown.
    if (failure && (line.find(" sent help message help-errmgr") != line.npos ||
                    line.find(" \"orte_base_help_aggregate\" to 0 ") != line.npos))
      return;
    if (of_no_matter(line)) return;
    out.add(line.substr(0, rule ? words : line.npos));
    if (rule) block = line.substr(words);
  }
  // A daemon of Open MPI 4 may crash when the daemon ends while a PE joins (PMIx 4.2.2, once in CI,
  // 2026-11-30). This is not why the job ends, so neither the report nor the shell's line after the
  // report is shown. Reports of PEs pass.
  bool of_crash(std::string_view line, Output &out) {
    if (line.starts_with('[') && line.ends_with("] *** Process received signal ***\n")) {
      out.add(std::exchange(crash, ""));
      host_and_pid = line.substr(0, line.find(']') + 1);
    } else if (crash.empty() || !line.starts_with(host_and_pid)) {
      return daemon_crashed && line.starts_with("Segmentation fault");
    }
    crash += line;
    if (line.find("] *** End of error message ***") == line.npos) return true;
    daemon_crashed = crash.find("(PMIx_server_finalize+") != crash.npos;
    if (!daemon_crashed) out.add(crash);
    crash.clear();
    return true;
  }
  static bool of_launcher(std::string_view line) {
    for (const char *name : {"mpirun", "mpiexec", "orterun", "prterun", "prun", "srun"})
      if (line.starts_with(std::string(name) + ":")) return true;
    return false;
  }
  // Warnings where nothing is wrong.
  static bool of_no_matter(std::string_view line) {
    // A node's daemon was quicker than its launcher, or has gone at the end (PRRTE 3). On a loaded
    // machine that is so once in 50 jobs (Open MPI 4, 2026-11). Or a PE that joins has ended before
    // the daemon's answer.
    for (const char *words :
         {"] plm:ssh: Warning: setpgid(", "] plm:rsh: Warning: setpgid(",
          "] UNSUPPORTED DAEMON ERROR STATE: ", "] PMIX ERROR: UNREACHABLE in file "})
      if (line.starts_with('[') && line.find(words) != line.npos) return true;
    // Libevent's: Open MPI 4's mpirun closes the socket of a PE that ends while it joins, before it
    // forgets it (on a loaded machine once in 80 jobs that fail at init).
    return line.starts_with("[warn] Epoll MOD(") && line.ends_with(": Bad file descriptor\n");
  }
  static bool tells_failure(std::string_view line) {
    for (const char *words :
         {" noticed that process rank ", " noticed that the job aborted, but has no info ",
          " detected that one or more processes exited with non-zero status",
          " has exited due to process rank ", " has exited because process rank ",
          " terminated normally, but ", " was unable to reliably start one or more daemons",
          " does not know how to route a message to",
          " has lost communication with a remote daemon"})
      if (line.find(words) != line.npos) return true;
    return false;
  }
  void read_failure(std::string told) {
    failure = true;
    if (const size_t daemon = told.find("Remote daemon:"); daemon != told.npos) {
      const size_t on = told.find(" on node ", daemon) + strlen(" on node ");
      lost = told.substr(on, told.find('\n', on) - on);
    }
    unstarted = unstarted || told.find(" unable to reliably start ") != told.npos;
    // The number behind a word, or -1.
    auto after = [&](const char *word) {
      const size_t at = told.find(word);
      return at == told.npos ? -1 : atoi(told.c_str() + at + strlen(word));
    };
    int rank = after("process rank ");
    // [[job,1],rank] of Open MPI 4, [job,rank] of PRRTE
    if (const size_t name = told.find("Process name:"); name != told.npos)
      rank = atoi(told.c_str() + told.rfind(',', told.find('\n', name)) + 1);
    if (rank >= 0) who = "PE " + std::to_string(rank);
    const int status = after("Exit code:");
    std::replace(told.begin(), told.end(), '\n', ' '); // lines break anywhere
    if (const size_t on = told.find("exited on signal "); on != told.npos)
      cause = "was ended by " + told.substr(on + 10, told.find(").", on) - on - 9);
    else if (status > 0)
      cause = "ended with status " + std::to_string(status);
    else if (told.find(" exiting improperly") != told.npos)
      cause = "ended without shmem_finalize";
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

// The folders of launchers while they run.
class Folders {
public:
  // Open MPI 4 has a folder for all jobs of a user, in which each has its own. A job that ends
  // removes the folder when it is empty, even between the two steps of a job that begins, which
  // fails then (beside a loop that makes and removes it 67 of 100 mpirun do; 2026-11). The folder
  // is not empty as long as this lives.
  explicit Folders(bool same)
      : held(same ? of_user() + "/oshrun." + std::to_string(getpid()) : "") {
    for (int tries = 1000; same && tries > 0; tries--) { // a link to nowhere would never do
      if (mkdir(held.c_str(), 0700) == 0 || errno != ENOENT) break;
      mkdir(of_user().c_str(), 0700); // the launcher says what keeps it from that
    }
  }
  // Launchers remove their own unless they die themselves: mpirun of Open MPI 4 does when a PE ends
  // while it joins (by SIGPIPE or a fault in PMIx; 2026-11: 1 of 200 jobs that fail at init).
  void remove(pid_t launcher, bool died) const {
    std::error_code ignored;
    const std::string pid = std::to_string(launcher);
    if (died) {
      std::filesystem::remove_all(of_user() + "/pid." + pid, ignored);
      std::filesystem::remove_all(base("PRTE_MCA_prte_tmpdir_base") + "prterun." + host() + "." +
                                      pid + "." + std::to_string(geteuid()), // PRRTE 3.0.8
                                  ignored);
    }
    if (!held.empty()) rmdir(held.c_str());
    if (died || !held.empty()) rmdir(of_user().c_str()); // unless other jobs have theirs there
  }

private:
  std::string held;

  static std::string base(const char *setting) {
    std::string where = "/tmp";
    for (const char *name : {"TEMP", "TMP", "TMPDIR", setting}) // the last one counts most
      if (const char *value = getenv(name)) where = value;
    return where + "/";
  }
  static std::string host() {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    name[strcspn(name, ".")] = '\0';
    return name;
  }
  static std::string of_user() {
    return base("OMPI_MCA_orte_tmpdir_base") + "ompi." + host() + "." + std::to_string(geteuid());
  }
};

// The signals that end this process unless the caller, as nohup, ignores them.
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

// A launcher waits for minutes for its processes on a node that has been cut off (Open MPI 4.1.4;
// 2026-11-22). It is ended so long after a PE has said why the job ends.
constexpr double patience = 8; // seconds

// The hosts of the command line that no name service knows. Called only if a job has not started:
// ssh may know a name for another host.
std::string unknown_hosts(const Words &words) {
  std::string all;
  for (size_t i = 0; i + 1 < words.size(); i++) {
    std::string list = words[i + 1];
    if (is_hostfile(words[i])) {
      list.clear();
      if (FILE *lines = fopen(words[i + 1].c_str(), "re")) {
        for (char line[1024]; fgets(line, sizeof line, lines);) {
          line[strcspn(line, "# \t\n")] = '\0';
          list += std::string(line) + ",";
        }
        fclose(lines);
      }
    } else if (words[i] != "-H" && words[i] != "-host" && words[i] != "--host") {
      continue;
    }
    for (size_t from = 0, to; from < list.size(); from = to + 1) {
      to = std::min(list.find(',', from), list.size());
      std::string host = list.substr(from, to - from);
      host.erase(std::min(host.find(':'), host.size()));
      host.erase(0, host.find('@') + 1); // a user's name
      addrinfo *found = nullptr;
      if (!host.empty() && getaddrinfo(host.c_str(), nullptr, nullptr, &found) != 0)
        all += (all.empty() ? "" : ", ") + host;
      else if (found)
        freeaddrinfo(found);
    }
  }
  return all;
}

struct Job {
  pid_t launcher;
  bool input;
  std::optional<double> asked; // to end, when
  Notes notes;
  Output out;
  std::string word; // the library's line about the end, see last_word in lib/log.hpp

  void pass_on(const signalfd_siginfo &info) {
    const int s = int(info.ssi_signo);
    if (s == SIGUSR1 || s == SIGUSR2) {
      kill(launcher, s);
    } else if (!asked) {
      asked = now();
      // Those of the terminal have reached a launcher that shares it.
      if (!input || info.ssi_code != SI_KERNEL) kill(launcher, s == SIGINT ? SIGINT : SIGTERM);
    } else if (now() - *asked > 1) { // timeout(1) sends a signal twice, a user who is tired later
      kill(launcher, SIGKILL);
    }
  }

  void say_why(int status, bool died, const Words &words) {
    if (asked) return;
    // PEs go with their launcher, or their node's daemon, and a PE may see its neighbour go before
    // it goes itself: its line is true then, and not why the job ends.
    const bool follows = word.find(" has died") != std::string::npos;
    if (follows && (died || !notes.lost.empty())) word.clear();
    if (!word.empty()) {
      word.erase(word.find('\n'));
      if (word.empty()) return; // as the program wanted it
      const size_t by = notes.cause.find("signal ");
      if (by != std::string::npos) word += ": " + notes.cause.substr(by);
      out.add_line(word);
    } else if (const std::string hosts =
                   notes.unstarted || !notes.lost.empty() ? unknown_hosts(words) : "";
               notes.unstarted || !hosts.empty()) {
      out.add_line("oshrun: " +
                   (hosts.empty()
                        ? "a node could not be started"
                        : "no such host: " + hosts + ", so the job could not be started") +
                   ": ssh must reach each node without a password, and find Open MPI there");
    } else if (!notes.lost.empty()) {
      out.add_line("oshrun: the launcher has lost its daemon on " + notes.lost +
                   ", or the node: the job ends");
    } else if (notes.failure) {
      if (notes.cause.empty() && status > 128)
        notes.cause = "was ended by signal " + std::to_string(status - 128) + " (" +
                      strsignal(status - 128) + ")";
      else if (notes.cause.empty())
        notes.cause = "ended with status " + std::to_string(status);
      out.add_line("oshrun: " + notes.who + " " + notes.cause);
    } else if (died) {
      out.add_line("oshrun: the launcher was ended by signal " + std::to_string(status - 128) +
                   " (" + strsignal(status - 128) + "), and the job with it");
    } else if (status == 1 && !notes.spoken) {
      // mpirun of Open MPI 4 in 11 of 70 jobs of which a PE ends at once with status 0 (2026-11).
      out.add_line("oshrun: the launcher ended the job with status " + std::to_string(status) +
                   " and does not say why: has a PE ended before shmem_init?");
    }
  }
};

std::vector<char *> arguments(const Words &words) {
  std::vector<char *> list;
  list.reserve(words.size() + 1);
  for (const std::string &word : words) list.push_back(const_cast<char *>(word.c_str()));
  list.push_back(nullptr);
  return list;
}

} // namespace

void become(const Words &words, const std::string &name) {
  std::vector<char *> list = arguments(words);
  std::string called = name.empty() ? words[0] : name;
  list[0] = called.data();
  execv(words[0].c_str(), list.data());
  fail(126, "%s: %s", words[0].c_str(), strerror(errno));
}

int run_job(const Words &words, const Manner &manner) {
  Pipe notes, word;
  if (manner.sorted) notes.open();
  struct stat s;
  unsetenv("OSHRUN_WORD");
  if (notes.in >= 0 && word.open() && fstat(word.in, &s) == 0) {
    // Launchers close all files in a PE, so it opens this one by name; the number makes sure of it.
    const std::string name = "/proc/" + std::to_string(getpid()) + "/fd/" +
                             std::to_string(word.in) + " " + std::to_string(s.st_ino);
    setenv("OSHRUN_WORD", name.c_str(), 1);
  }
  std::vector<pid_t> before;
  if (waitpid(-1, nullptr, WNOHANG) == 0) before = children(); // of a shell that has become oshrun
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signal(SIGCHLD, SIG_DFL); // where it is ignored, no child's end is told, and the wait never ends
  const sigset_t taken = taken_signals();
  sigset_t outer, blocked = taken;
  sigaddset(&blocked, SIGPIPE); // the job goes on when no process reads its output any more
  sigprocmask(SIG_BLOCK, &blocked, &outer);
  const int signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  const Folders folders(manner.same_folder);
  const pid_t self = getpid(), launcher = fork();
  if (launcher < 0) fail(1, "starting %s: %s", words[0].c_str(), strerror(errno));
  if (launcher == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); // ends the job in its own way when oshrun is killed
    if (getppid() != self) _exit(1);
    // A group of its own: signals of the terminal come once, by way of oshrun, which would
    // otherwise not know whether the launcher has them. Unless it is to read the terminal.
    if (!manner.input) setpgid(0, 0);
    // It writes to the terminal all the same. Blocked, because launchers unblock all signals in a
    // PE, and an ignored signal stays ignored.
    sigaddset(&outer, SIGTTOU);
    sigprocmask(SIG_SETMASK, &outer, nullptr);
    if (notes.in >= 0) dup2(notes.in, STDERR_FILENO);
    become(words, manner.name);
  }
  Job job{launcher, manner.input, {}, {}, {}, {}};
  job.notes.spoken = !manner.sorted;
  int status = 0;
  std::optional<double> told; // the end, when
  bool left = false;          // the launcher did not end by itself
  for (bool ended = false; !ended;) {
    pollfd fds[] = {{signals, POLLIN, 0},
                    {job.out.waits() ? STDERR_FILENO : -1, POLLOUT, 0},
                    {job.out.waits() ? -1 : notes.out, POLLIN, 0},
                    {word.out, POLLIN, 0}};
    // A block comes at once: a rule that nothing follows was a program's.
    const int found = poll(fds, 4, job.notes.holds() || told ? 1000 : -1);
    if (found < 0 && errno != EINTR) break;
    signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info)
      if (info.ssi_signo != SIGCHLD) job.pass_on(info);
    if (fds[1].revents) job.out.write_some();
    ended = waitpid(launcher, &status, WNOHANG) == launcher;
    if (ended || fds[2].revents) notes.read_to(job.notes.text);
    job.notes.sort(job.out, ended || found == 0);
    word.read_to(job.word);
    if (!told && job.word.find_first_not_of('\n') == 0) told = now();
    if (!ended && !left && told && now() - *told > patience) left = kill(launcher, SIGKILL) == 0;
  }
  int code = left ? 1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (code == 0 && !job.notes.lost.empty()) code = 1; // PRRTE 3.0.8 may end with 0
  if (code != 0) end_the_rest(before);
  folders.remove(launcher, left || code > 128);
  job.say_why(code, !left && WIFSIGNALED(status), words);
  sigprocmask(SIG_UNBLOCK, &taken, nullptr); // there is no job left that they could end
  job.out.write_all();
  return code;
}

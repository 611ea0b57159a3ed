// SPDX-License-Identifier: MIT
// Starts the PEs of an OpenSHMEM program with the PMIx launcher of this machine, and waits for it:
// see job.cpp for why. Start-up time counts, so this starts no other program on the usual path.
#include "../../lib/bootstrap/variables.hpp"
#include "oshrun.hpp"
#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

void fail(int status, const char *format, ...) {
  va_list words;
  va_start(words, format);
  fputs("oshrun: ", stderr);
  vfprintf(stderr, format, words);
  fputs("\n", stderr);
  exit(status);
}

bool is_hostfile(std::string_view option) {
  return option == "-hostfile" || option == "--hostfile" || option == "-machinefile" ||
         option == "--machinefile";
}

namespace {

const char usage[] =
    R"(usage: oshrun [-n PES] [launcher options] [--] program [arguments]

  -n, -np PES   number of processing elements (default: the launcher's own)
  --stdin PE    the PE that reads standard input, or all (default: none)
  -h, --help    this text
  --version     version of the library
  --which       print the launcher that oshrun would use, and end

oshrun passes every other option to the launcher (--hostfile, --bind-to, ...).
The launcher is the first of prterun, mpirun and srun --mpi=pmix in PATH, or
SHMEM_LAUNCHER: a name, a path, or a command with options.
A job may have more PEs than cores. When the PEs fit the cores, each PE is bound
to one core, unless the program is known to have threads: the program asks for a
thread level above SHMEM_THREAD_SINGLE, uses OpenMP, has threads before
shmem_init, or uses a GPU. Other PEs may run on all cores of their NUMA node.
An option --bind-to has priority: --bind-to none leaves all PEs free.
A PE has the environment, umask, limits and signals of the caller.
When a PE fails, the launcher ends the other PEs, and the last line names the
PE; SHMEM_DEBUG=1 shows the launcher's own lines as well.
The exit status is that of the first PE that failed, or the argument of
shmem_global_exit; 127 stands for a program that does not exist.
)";

std::string env(const char *name) {
  const char *value = getenv(name);
  return value ? value : "";
}

template <class... T> bool any_of(std::string_view word, T... of) {
  return ((word == of) || ...);
}

bool is_command(const std::string &path) {
  struct stat s;
  return stat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode) && access(path.c_str(), X_OK) == 0;
}

// The path of a command as the shell would find it, or nothing.
std::string find(const std::string &command) {
  if (command.find('/') != std::string::npos) return is_command(command) ? command : "";
  const std::string path = env("PATH");
  for (size_t at = 0, end; at <= path.size(); at = end + 1) {
    end = std::min(path.find(':', at), path.size());
    std::string file = (end == at ? "." : path.substr(at, end - at)) + "/" + command;
    if (is_command(file)) return file;
  }
  return "";
}

struct Line { // the command line, as far as the program
  Words options, program;
  long pes = 0;
  std::string input; // --stdin
  bool which = false;
  bool bound = false;   // the user chooses the binding,
  bool mapped = false;  // the mapping
  bool plain = true;    // the program is where the words say
  bool certain = true;  // no option of it is unknown, so the program begins where it was found
  bool several = false; // programs, as --app and : have
};

long pes_of(const char *option, const char *word) {
  if (!word) fail(2, "option %s wants the number of PEs", option);
  const std::string_view digits = word;
  const long n = digits.find_first_not_of("0123456789") == digits.npos ? atol(word) : 0;
  if (n < 1) fail(2, "bad number of PEs '%s': a whole number from 1 up is wanted", word);
  return n;
}

bool chooses_binding(std::string_view option, const std::string &value) {
  return option.starts_with("--bind-to") || option.starts_with("-bind-to") ||
         any_of(option, "-rf", "--rankfile", "--cpu-list", "--cpu-set", "-cpu-set", "-cpu-list",
                "-cpus-per-proc", "--cpus-per-proc") ||
         (any_of(option, "-map-by", "--map-by") && strcasestr(value.c_str(), ":pe")) ||
         (option.ends_with("mca") &&
          (value.find("binding_policy") != value.npos || value == "bindto"));
}

bool chooses_mapping(std::string_view option, const std::string &value) {
  return option.starts_with("--map-by") || option.starts_with("--npernode") ||
         any_of(option, "-map-by", "-rf", "--rankfile", "-N", "-npernode", "-pernode", "--pernode",
                "-npersocket", "--npersocket", "-bynode", "--bynode", "-byslot", "--byslot",
                "-cpus-per-proc", "--cpus-per-proc", "-oversubscribe", "--oversubscribe",
                "-nooversubscribe", "--nooversubscribe") ||
         (option.ends_with("mca") &&
          (value.find("mapping_policy") != value.npos || value == "mapby"));
}

// The command line is read only as far as the program. An option not known here counts as one
// without a value; a wrong guess merely ends the reading early, the launcher sees every word.
// getopt_long refuses an option that it does not know, and reads -np as two options.
Line read_line(char **word) {
  Line line;
  while (*word) {
    const std::string_view w = *word;
    int words = 1;
    if (any_of(w, "-n", "-np", "--n", "--np")) {
      line.pes = pes_of(*word, word[1]);
      line.options.insert(line.options.end(), {"-n", word[1]}); // the one spelling that all share
      word += 2;
      continue;
    }
    if (any_of(w, "-stdin", "--stdin")) {
      if (!word[1]) fail(2, "option %s wants a PE, all or none", *word);
      line.input = word[1];
      word += 2;
      continue;
    }
    if (any_of(w, "-h", "-help", "--help")) {
      fputs(usage, stdout);
      exit(0);
    }
    if (w == "--version") {
      puts("oshrun (libshmem) " VERSION);
      exit(0);
    }
    const std::string next = word[1] ? word[1] : "";
    if (is_hostfile(w) && access(next.c_str(), R_OK) < 0)
      fail(1, "hostfile '%s': %s", next.c_str(), strerror(errno));
    line.bound = line.bound || chooses_binding(w, next);
    line.mapped = line.mapped || chooses_mapping(w, next);
    if (w == "--which") {
      line.which = true;
    } else if (w == "--") {
      line.options.push_back(*word++);
      break;
    } else if (any_of(w, "--app", "-app", "--multi-prog") || w.starts_with("--app=")) {
      line.several = true; // named in a file
      break;
    } else if (any_of(w, "-mca", "--mca", "-gmca", "--gmca", "--omca", "--prtemca", "--pmixmca",
                      "--gpmixmca")) {
      words = 3;
    } else if (any_of(w, "-wd", "-wdir", "--wd", "--wdir", "-path", "--path", "-prefix",
                      "--prefix")) {
      line.plain = false;
      line.certain = line.certain && !w.ends_with("path");
      words = 2;
    } else if (any_of(w, "-c", "-H", "-N", "-p", "-t", "-w", "-x", "-df", "-hf", "-rf", "-sf",
                      "-host", "--host", "-hostfile", "--hostfile", "-machinefile", "--machinefile",
                      "--default-hostfile", "--rankfile", "-bind-to", "--bind-to", "-map-by",
                      "--map-by", "-rank-by", "--rank-by", "-npernode", "--npernode",
                      "-output-filename", "--output-filename", "--output", "-timeout", "--timeout",
                      "--display", "--runtime-options", "--personality", "--cpu-list", "--cpu-set",
                      "--report-uri", "--report-pid", "--dvm-uri", "--tune", "--am")) {
      words = 2;
    } else if (!w.starts_with("-")) {
      break;
    } else if (!any_of(w, "-q", "-v", "--quiet", "-oversubscribe", "--oversubscribe",
                       "-nooversubscribe", "--nooversubscribe", "-tag-output", "--tag-output",
                       "-timestamp-output", "--timestamp-output", "-report-bindings",
                       "--report-bindings", "-pernode", "--pernode", "-bynode", "--bynode",
                       "-byslot", "--byslot", "-nolocal", "--nolocal", "-display-map",
                       "--display-map", "--allow-run-as-root")) {
      line.plain = line.certain = false; // this one may have taken the next word
    }
    if (line.which) {
      word++;
      continue;
    }
    for (; words > 0 && *word; words--) line.options.push_back(*word++);
  }
  for (; *word; word++) {
    line.several = line.several || std::string_view(*word) == ":";
    line.program.push_back(*word);
  }
  if (line.program.empty() && !line.which) fail(2, "no program given (oshrun --help tells more)");
  return line;
}

enum class Kind { orte, prte, srun, hydra, unknown };

// The output of a command, for the last resort of kind_of.
std::string output_of(const std::string &command) {
  std::string text;
  if (FILE *pipe = popen((command + " --version 2>&1 </dev/null").c_str(), "r")) {
    char part[512];
    while (size_t n = fread(part, 1, sizeof part, pipe)) text.append(part, n);
    pclose(pipe);
  }
  return text;
}

// Every MPI calls its launcher mpirun. Which one it is shows in the names beside it (to ask it, the
// last resort, takes 10 ms more): Open MPI 4's is a link to orterun, MPICH's one to mpiexec.hydra,
// and Open MPI 5's starts the prterun beside it.
Kind kind_of(const std::string &path) {
  const size_t slash = path.rfind('/');
  const std::string name = path.substr(slash + 1), beside = path.substr(0, slash + 1);
  if (name == "srun") return Kind::srun;
  if (name == "prterun") return Kind::prte;
  if (name == "orterun") return Kind::orte;
  auto same = [&](const char *other) {
    struct stat a, b;
    return stat(path.c_str(), &a) == 0 && stat((beside + other).c_str(), &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
  };
  if (same("orterun")) return Kind::orte;
  if (same("mpiexec.hydra")) return Kind::hydra;
  if (is_command(beside + "prterun")) return Kind::prte;
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const std::string says = output_of(quoted + "'");
  const size_t ompi = says.find("(Open MPI) ");
  if (ompi != says.npos) {
    const int major = atoi(says.c_str() + ompi + strlen("(Open MPI) "));
    return major >= 1 && major <= 4 ? Kind::orte : Kind::prte;
  }
  if (says.find("PRRTE") != says.npos) return Kind::prte;
  for (const char *mark : {"HYDRA", "Hydra", "Intel(R) MPI"})
    if (says.find(mark) != says.npos) return Kind::hydra;
  return Kind::unknown;
}

struct Launcher {
  Kind kind;
  std::string path;
  Words extra;
};

Launcher choose_launcher() {
  const char *install = "install Open MPI (apt-get install openmpi-bin) or PRRTE";
  const std::string wanted = env("SHMEM_LAUNCHER");
  if (!wanted.empty()) {
    Launcher l{Kind::unknown, find(wanted), {}};
    if (l.path.empty()) { // with options
      std::string word;
      for (const char c : wanted + ' ')
        if (c != ' ' && c != '\t')
          word += c;
        else if (!word.empty())
          l.extra.push_back(std::exchange(word, ""));
      const std::string name = l.extra.empty() ? wanted : l.extra[0];
      if (!l.extra.empty()) {
        l.path = find(name);
        l.extra.erase(l.extra.begin());
      }
      if (l.path.empty())
        fail(127, "SHMEM_LAUNCHER: no command '%s' here; unset it or %s", name.c_str(), install);
    }
    l.kind = kind_of(l.path); // an unknown one is the user's own script: run it as it is
    if (l.kind == Kind::hydra)
      fail(127, "SHMEM_LAUNCHER: %s, Hydra of MPICH, does not offer PMIx; unset it and %s",
           l.path.c_str(), install);
    return l;
  }
  // orterun and mpirun.openmpi: Debian's names for Open MPI where mpirun is another MPI's. srun is
  // last inside an allocation too, as the others know Slurm and start a job in less time.
  std::string hydra;
  for (const char *name : {"prterun", "mpirun", "orterun", "mpirun.openmpi", "srun"}) {
    Launcher l{Kind::unknown, find(name), {}};
    if (l.path.empty()) continue;
    l.kind = kind_of(l.path);
    if (l.kind == Kind::hydra)
      hydra = " (" + l.path + ", Hydra of MPICH, does not offer PMIx)";
    else if (l.kind != Kind::unknown)
      return l;
  }
  fail(127, "no PMIx launcher found%s: %s, or name one in SHMEM_LAUNCHER", hydra.c_str(), install);
}

// Launchers say it in ten lines, and with a status of their own.
void check_program(const Line &line) {
  if (!line.plain || line.several) return;
  const std::string &name = line.program[0];
  // Without a slash the launcher may look in more places.
  const bool here = name.find('/') != name.npos;
  if (!find(name).empty() || (!here && is_command("./" + name))) return;
  struct stat s;
  if (!here || stat(name.c_str(), &s) != 0) fail(127, "no program '%s'", name.c_str());
  fail(126, S_ISDIR(s.st_mode) ? "'%s' is a folder, not a program" : "'%s' is not executable",
       name.c_str());
}

void set(const char *name, const std::string &value) {
  setenv(name, value.c_str(), 0); // a setting of the user wins
}

// Whether the process that started this leaves it all cores of the machine. Launchers bind by
// the machine's topology and would hand out those too that taskset took away.
bool has_all_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) < 0 ||
         CPU_COUNT(&cores) >= sysconf(_SC_NPROCESSORS_ONLN);
}

// Defaults go by environment wherever the launcher allows it, since any option and any setting of
// the user then overrides them. None of the other settings of Open MPI 4.1.4 that were tried
// (network interface, IPv6, session directory, plugins of hwloc) made 8 PEs of /bin/true start
// measurably faster (median of 40: 82 ms, 75 to 88 with them; 2 cores, 2026-11-21).
//
// Binding: both Open MPIs bind 1 or 2 PEs to one core each, where the threads of a PE
// (SHMEM_THREAD_MULTIPLE, OpenMP) starve each other and OpenMP counts one core, and more PEs to a
// NUMA node, or not at all when cores are short. So the launcher is asked for a NUMA node, which
// keeps memory near and threads free, and each PE takes one core of it in shmem_init, where it
// knows whether its program has threads (lib/bind.cpp).
Words set_defaults(const Launcher &launcher, const Line &line) {
  // PMIx keeps the job's data in files mapped by every PE, which costs a PE 10 ms at its start; in
  // memory it is 2 (PMIx 4.2.2, 2026-11-21: PMIx_Init 12.5 ms, 2.5 so; one PE). In memory the data
  // also leaves no file in /tmp when a launcher is killed.
  set("PMIX_MCA_gds", "hash");
  const char *binding = has_all_cores() ? "numa:if-supported" : "none";
  const char *policy = nullptr;
  bool bound = line.bound, mapped = line.mapped;
  for (size_t i = 0; i < launcher.extra.size(); i++) {
    const std::string next = i + 1 < launcher.extra.size() ? launcher.extra[i + 1] : "";
    bound = bound || chooses_binding(launcher.extra[i], next);
    mapped = mapped || chooses_mapping(launcher.extra[i], next);
  }
  Words options;
  switch (launcher.kind) {
  case Kind::orte:
    for (const char *name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      setenv(name, "1", 1); // containers run as root
    set("OMPI_MCA_rmaps_base_oversubscribe", "1");
    // Open MPI waits so many seconds before it ends the PEs of a job that has failed, and again
    // before it kills them (a job of 3 PEs ends 2.1 s after one has died, and 0.06 s with 0;
    // 2026-11-21).
    set("OMPI_MCA_odls_base_sigkill_timeout", "0");
    policy = "OMPI_MCA_hwloc_base_binding_policy";
    // It refuses to start even a local job where there is no ssh: name an agent that just fails.
    if (find("ssh").empty() && find("rsh").empty()) set("OMPI_MCA_plm_rsh_agent", "false");
    break;
  case Kind::prte:
    for (const char *name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                             "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"})
      setenv(name, "1", 1);
    set("PRTE_MCA_odls_base_sigkill_timeout", "0");
    // By slot, or PRRTE 3 fills the first node, however many slots it has (3.0.8, 2026-11-23).
    // By options: variables are called otherwise from PRRTE 4 on, which complains about the older
    // names in eight lines each, and PRRTE 3 does not know the newer ones (2026-11: 3.0.8, 5.0.0).
    if (!mapped && !getenv("PRTE_MCA_rmaps_default_mapping_policy") && !getenv("PRTE_MCA_mapby"))
      options.insert(options.end(), {"--map-by", "slot:OVERSUBSCRIBE"});
    bound = bound || getenv("PRTE_MCA_hwloc_default_binding_policy") || getenv("PRTE_MCA_bindto");
    // From PRRTE 3 on "if supported" does not mean more PEs than cores any more.
    if (has_all_cores()) binding = "numa:if-supported:overload-allowed";
    if (!bound) options.insert(options.end(), {"--bind-to", binding});
    break;
  case Kind::srun: {
    set("SLURM_MPI_TYPE", "pmix");
    // Not outside an allocation: there it would ask for one core a node.
    const long cores =
        env("SLURM_CPUS_ON_NODE").empty() ? 1 : atol(env("SLURM_CPUS_ON_NODE").c_str());
    const long nodes =
        env("SLURM_JOB_NUM_NODES").empty() ? 1 : atol(env("SLURM_JOB_NUM_NODES").c_str());
    if (!env("SLURM_JOB_ID").empty() && std::max(line.pes, 1l) > cores * nodes)
      setenv("SLURM_OVERCOMMIT", "1", 1);
    break;
  }
  default:
    break;
  }
  unsetenv("OSHRUN_BIND"); // of an oshrun around this one
  if (policy) {
    bound = bound || getenv(policy);
    set(policy, binding);
  }
  if (!bound && (policy || launcher.kind == Kind::prte)) setenv("OSHRUN_BIND", "core", 1);
  return options;
}

// Open MPI and PRRTE take a launcher that is called by its full path as --prefix, and put the
// folders of that first in PATH and LD_LIBRARY_PATH of each PE: before those of a virtual
// environment. By its name alone the launcher finds the same files, which it was built to find.
std::string name_of(const Launcher &launcher) {
  std::string name = launcher.path.substr(launcher.path.rfind('/') + 1);
  if (find(name) == launcher.path) return name;
  // The user's own, where PATH does not lead: on other nodes, too, the daemon beside it.
  const std::string daemon = launcher.path.substr(0, launcher.path.rfind('/') + 1) + "orted";
  if (launcher.kind != Kind::orte || daemon[0] != '/' || !is_command(daemon)) return launcher.path;
  set("OMPI_MCA_orte_launch_agent", daemon);
  return name;
}

// The library that records what PEs call, before libshmem: installed, or in the tree of a build.
std::string tracer() {
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
  const std::string here(self, n > 0 ? size_t(n) : 0), folder = here.substr(0, here.rfind('/') + 1);
  for (const char *libs : {LIBDIR, "shmem_trace"}) {
    std::string file = folder + libs + "/libshmem_trace.so";
    if (access(file.c_str(), R_OK) == 0) return file;
  }
  fail(1, "SHMEM_TRACE: no libshmem_trace.so in %s%s", folder.c_str(), LIBDIR);
}

// The variables by which PEs load that file first. The loader splits its list at blanks and knows
// no other way to write one, so a file in a folder that has one is looked for by its name.
Words preload(const std::string &file) {
  auto in_front = [](const char *name, const std::string &value) {
    const std::string before = env(name);
    return std::string(name) + "=" + value + (before.empty() ? "" : ":" + before);
  };
  if (file.find(' ') == file.npos) return {in_front("LD_PRELOAD", file)};
  const size_t slash = file.rfind('/');
  return {in_front("LD_PRELOAD", file.substr(slash + 1)),
          in_front("LD_LIBRARY_PATH", file.substr(0, slash))};
}

// PEs on other nodes get only the variables that are named (srun sends all).
void name_variables(Words &words) {
  for (char **e = environ; *e; e++) {
    const std::string_view entry = *e, name = entry.substr(0, entry.find('='));
    if ((name.starts_with("SHMEM_") || name.starts_with("SMA_")) &&
        name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
            name.npos)
      words.insert(words.end(), {"-x", std::string(name)});
  }
}

// Variables that the user's options set are not the caller's.
void leave_to_options(const Words &options, State &state) {
  for (size_t i = 0; i + 1 < options.size(); i++) {
    if (options[i] == "-x") state.leave_out(options[i + 1]);
    if (any_of(options[i], "-prefix", "--prefix"))
      for (const char *name : {"PATH", "LD_LIBRARY_PATH"}) state.leave_out(name);
  }
}

} // namespace

int main(int, char **argv) {
  if (argv[1] && argv[2] && std::string_view(argv[1]) == "--as-pe") become_pe(argv + 2);
  State state; // before this process changes it
  const Line line = read_line(argv + 1);
  const Launcher launcher = choose_launcher();
  if (line.which) {
    fputs(launcher.path.c_str(), stdout);
    for (const std::string &word : launcher.extra) printf(" %s", word.c_str());
    puts("");
    return 0;
  }
  const bool pmix = launcher.kind == Kind::orte || launcher.kind == Kind::prte;
  if (launcher.kind != Kind::unknown) check_program(line);
  const Words defaults = set_defaults(launcher, line);
  Words words{launcher.path};
  words.insert(words.end(), launcher.extra.begin(), launcher.extra.end());
  const bool with_state = pmix && line.certain && !line.several;
  if (pmix) name_variables(words);
  if (with_state) words.insert(words.end(), {"-x", State::carrier});
  if (!env("SHMEM_TRACE").empty() && !line.program.empty()) {
    const Words sets = preload(tracer()); // not for the launcher itself, where that can be
    if (launcher.kind == Kind::srun) words.push_back("--export=ALL");
    for (const std::string &set : sets)
      if (launcher.kind == Kind::srun)
        words.back() += "," + set;
      else if (with_state)
        state.set(set);
      else if (pmix)
        words.insert(words.end(), {"-x", set});
      else
        setenv(set.substr(0, set.find('=')).c_str(), set.c_str() + set.find('=') + 1, 1);
  }
  if (!line.input.empty()) {
    if (launcher.kind == Kind::srun)
      words.push_back("--input=" + line.input);
    else
      words.insert(words.end(), {"--stdin", line.input});
  }
  // A while-read loop around this would lose its lines to PE 0.
  if (line.input.empty() || line.input == "none") {
    close(STDIN_FILENO);
    open("/dev/null", O_RDONLY);
  }
  const bool sorted = !line.several && !getenv("SHMEM_DEBUG") && !getenv("SMA_DEBUG");
  words.insert(words.end(), defaults.begin(), defaults.end());
  words.insert(words.end(), line.options.begin(), line.options.end());
  if (with_state) {
    const auto &[name, value] = shmem::bootstrap::hwloc_without_gpus;
    state.set_for_launcher(name, value);
    for (const Words *options : {&launcher.extra, &line.options}) leave_to_options(*options, state);
    for (std::string &word : state.started(line.program)) words.push_back(std::move(word));
  } else {
    words.insert(words.end(), line.program.begin(), line.program.end());
  }
  if (pmix)
    return run_job(words, {.sorted = sorted,
                           .input = !line.input.empty(),
                           .same_folder = launcher.kind == Kind::orte,
                           .name = name_of(launcher)});
  become(words);
}

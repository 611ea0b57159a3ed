// SPDX-License-Identifier: MIT
// The library, what this machine offers it, and the settings in force.
#include "built.h"
#include "env.hpp"
#include "info.hpp"
#include "memory/limit.hpp"
#include "network.hpp"
#include <clocale>
#include <cstdio>
#include <cstring>
#include <getopt.h>
#include <gnu/libc-version.h>
#include <hwloc.h>
#include <sched.h>
#define SHMEM_NO_GENERICS
#include <shmem.h>
#include <sys/resource.h>
#include <sys/utsname.h>

using namespace info;

namespace {

const char help[] =
    "usage: shmem_info [--json]\n"
    "       shmem_info doctor [--amd [--seconds N] [FILE]]\n"
    "\n"
    "  --json        the same as JSON\n"
    "  -h, --help    this text\n"
    "  --version     version of the library\n"
    "\n"
    "Shows the parts of the library, the machine and its GPUs, the launcher that oshrun takes, "
    "and\n"
    "the environment variables with their values, without a launcher. The exit status is 1 when a\n"
    "variable has a value that would end a program.\n"
    "\n"
    "doctor tries out the usual causes of trouble, and names the remedies. The exit status is 1\n"
    "when there is a fault. doctor --amd runs all tools, for at most N seconds together (180), "
    "and\n"
    "writes their output into FILE (shmem-amd.txt): please send us the file of a GPU that we "
    "lack.\n";

void say_library() {
  const std::string specification =
      std::to_string(SHMEM_MAJOR_VERSION) + "." + std::to_string(SHMEM_MINOR_VERSION);
  begin("library");
  say("name", SHMEM_VENDOR_STRING);
  say("version", SHMEM_LIBRARY_VERSION);
  say("specification", ("OpenSHMEM " + specification).c_str());
  say("gpu", SHMEM_GPU);
  say("bootstrap", SHMEM_BOOTSTRAP);
  say("net", SHMEM_NET);
#ifdef __clang__
  say("compiler", __VERSION__); // says Clang itself
#else
  say("compiler", "GCC " __VERSION__);
#endif
  end();
}

// The cores that programs started here may use, as the launcher and the library count them.
int count_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) < 0 ? 1 : CPU_COUNT(&set);
}

void say_machine() {
  begin("machine");
  utsname name;
  if (uname(&name) == 0)
    say("platform", (std::string(name.sysname) + " " + name.release + " " + name.machine +
                     ", glibc " + gnu_get_libc_version())
                        .c_str());
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) == 0 && hwloc_topology_load(topology) == 0) {
    auto count = [&](hwloc_obj_type_t type) { return hwloc_get_nbobjs_by_type(topology, type); };
    say("numa_nodes", size_t(count(HWLOC_OBJ_NUMANODE)));
    if (count(HWLOC_OBJ_CORE) > 0) say("cores", size_t(count(HWLOC_OBJ_CORE)));
    say("hardware_threads", size_t(count(HWLOC_OBJ_PU)));
    hwloc_topology_destroy(topology);
  }
  say("usable_hardware_threads", size_t(count_cores()));
  end();
}

// The word in brackets of "always [madvise] never".
std::string chosen(const char *path) {
  char text[256] = "";
  if (FILE *file = fopen(path, "re")) {
    if (!fgets(text, sizeof text, file)) *text = '\0';
    fclose(file);
  }
  const char *from = strchr(text, '['), *to = strchr(text, ']');
  if (from && to) return std::string(from + 1, to);
  return std::string(text, strcspn(text, "\n"));
}

void say_memory() {
  begin("memory");
  const size_t limit = shmem::memory_limit(), cores = size_t(count_cores());
  say_bytes("usable", limit);
  // The same division as at init, where the library refuses more.
  say("pes_one_a_thread", cores);
  say_bytes("symmetric_size_at_most", limit / cores);
  rlimit space;
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    say_bytes("limit_on_address_space", space.rlim_cur);
  // shmem_enabled is the one for the heap, which is a memfd; the others for private memory.
  for (const char *file : {"shmem_enabled", "enabled", "defrag"}) {
    const std::string value =
        chosen((std::string("/sys/kernel/mm/transparent_hugepage/") + file).c_str());
    if (!value.empty()) say((std::string("huge_pages_") + file).c_str(), value.c_str());
  }
  end();
}

void say_network() {
  if (!strcmp(SHMEM_NET, "none")) return;
  const Network n = look_at_network();
  begin("network");
  say("ucx_built_with", n.built_with.c_str());
  say("ucx_version", n.version.c_str());
  say("ucx_library", n.path.c_str());
  say("transports_allowed", n.allowed_transports.c_str());
  say("interfaces_allowed", n.allowed_interfaces.c_str());
  if (!n.memory.empty()) say("memory_types", n.memory.c_str());
  if (!n.transports.empty()) say("transports", n.transports.c_str());
  std::string listens;
  for (const Listener &l : n.listens)
    listens += (listens.empty() ? "" : ", ") + l.address + " on " + l.interface;
  if (!listens.empty()) say("listens", listens.c_str());
  if (n.address_bytes) say("address_bytes", n.address_bytes);
  if (n.small_seconds > 0) say("expected_ns_of_8_bytes", size_t(n.small_seconds * 1e9));
  if (n.bytes_per_second > 0) say("expected_mb_per_second", size_t(n.bytes_per_second / 1e6));
  rlimit locked;
  if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY)
    say_bytes("limit_on_locked_memory", locked.rlim_cur);
  if (!n.error.empty()) say("error", n.error.c_str());
  end();
}

void say_launcher() {
  std::string line;
  const int status = run({beside("oshrun"), "--which"}, &line);
  begin("launcher");
  say(status == 0 ? "command" : "error", line.substr(0, line.find('\n')).c_str());
  end();
}

bool say_environment() {
  bool good = true;
  printf(json ? ",\n  \"environment\": [" : "\nenvironment\n");
  for (size_t i = 0; i < shmem::n_variables; i++) {
    const shmem::Variable &v = shmem::variables[i];
    shmem::Env env;
    char message[256];
    const bool ok = read_variable(v, &env, message, sizeof message);
    if (json) {
      const char *text = env_text(v);
      printf("%s\n    {\"name\": \"SHMEM_%s\", \"value\": %s, \"default\": %s, \"help\": %s",
             i ? "," : "", v.name, quoted(text ? text : v.def).c_str(), quoted(v.def).c_str(),
             quoted(v.help).c_str());
      printf(", \"set\": %s", text ? "true" : "false");
      if (!ok) printf(", \"error\": %s", quoted(message).c_str());
      printf("}");
    } else {
      print_variable(v);
      if (!ok) printf("    error: %s\n", message);
    }
    good &= ok;
  }
  if (json) printf("\n  ]");
  return good;
}

} // namespace

int info::unknown(const char *word) {
  fprintf(stderr, "shmem_info: unknown argument '%s' (shmem_info --help tells more)\n", word);
  return 2;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "doctor")) return doctor(argc - 1, argv + 1);
  static const option options[] = {{"help", no_argument, nullptr, 'h'},
                                   {"json", no_argument, nullptr, 'j'},
                                   {"version", no_argument, nullptr, 'v'},
                                   {}};
  opterr = 0;
  for (int c; (c = getopt_long(argc, argv, "h", options, nullptr)) != -1;) {
    if (c == 'h') return fputs(help, stdout) < 0;
    if (c == 'v') return printf("shmem_info (libshmem) %s\n", SHMEM_LIBRARY_VERSION) < 0;
    if (c == '?') return unknown(argv[optind - 1]);
    json = true;
  }
  if (optind < argc) return unknown(argv[optind]);
  setlocale(LC_CTYPE, "C.UTF-8");
  if (json) printf("{");
  say_library();
  say_machine();
  say_memory();
  say_devices();
  say_network();
  say_launcher();
  const bool good = say_environment();
  if (json) printf("\n}\n");
  return fflush(stdout) == 0 && good ? 0 : 1;
}

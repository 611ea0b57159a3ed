// SPDX-License-Identifier: MIT
// shmem_info doctor: tries the steps that usually go wrong, in the order in which a program meets
// them.
#include "../../device/runtime.hpp"
#include "bootstrap/variables.hpp"
#include "built.h"
#include "env.hpp"
#include "info.hpp"
#include "memory/limit.hpp"
#include "network.hpp"
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <hip/hip_runtime_api.h>
#include <optional>
#include <shmemx.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace info {

namespace {

int failures;

__attribute__((format(printf, 2, 3))) void verdict(const char *word, const char *format, ...) {
  va_list args;
  va_start(args, format);
  printf("%-5s ", word);
  vprintf(format, args);
  printf("\n");
  va_end(args);
  failures += !strcmp(word, "FAIL");
}
#define GOOD(...) verdict("ok", __VA_ARGS__)
#define WARN(...) verdict("warn", __VA_ARGS__)
#define FAIL(...) verdict("FAIL", __VA_ARGS__)
// The remedy for the last line.
void mend(const char *text) {
  printf("      %s\n", text);
}

std::string first_line(const std::string &text) {
  return text.substr(0, text.find('\n'));
}
// The library's line about it, or the end of the output.
std::string gist(const std::string &text) {
  std::string ours, all;
  size_t lines = 0;
  for (size_t from = 0, to; from < text.size(); from = to + 1) {
    to = std::min(text.find('\n', from), text.size());
    const std::string line = "\n      " + text.substr(from, to - from);
    if (text.compare(from, 6, "shmem:") == 0 && lines++ < 4) ours += line;
    all += line;
  }
  return !ours.empty()      ? ours
         : all.size() > 500 ? "\n      ..." + all.substr(all.size() - 500)
                            : all;
}

// A variable of another library, or one that is misspelt, is silently not read.
void check_environment() {
  bool good = true;
  for (size_t i = 0; i < shmem::n_variables; i++) {
    shmem::Env env;
    char message[256];
    if (read_variable(shmem::variables[i], &env, message, sizeof message)) continue;
    FAIL("%s", message);
    good = false;
  }
  good &= shmem::unknown_variables([](const char *line) { WARN("%s", line); }) == 0;
  if (good) GOOD("environment: every SHMEM_ variable is known, and has a value that is");
}

void check_launcher() {
  std::string line;
  if (run({beside("oshrun"), "--which"}, &line) != 0) {
    FAIL("launcher: %s", first_line(line).c_str());
    mend("install Open MPI or PRRTE (openmpi-bin, prrte), or set SHMEM_LAUNCHER");
  } else {
    GOOD("launcher: %s", first_line(line).c_str());
  }
  // Another library's oshrun first in PATH starts the program as so many jobs of one PE, or fails.
  const char *path = getenv("PATH");
  for (std::string rest = path ? path : ""; !rest.empty();) {
    const size_t colon = rest.find(':');
    const std::string tool = rest.substr(0, colon) + "/oshrun";
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    if (access(tool.c_str(), X_OK) != 0) continue;
    char there[PATH_MAX], ours[PATH_MAX];
    if (realpath(tool.c_str(), there) && realpath(beside("oshrun").c_str(), ours) &&
        strcmp(there, ours) != 0) {
      WARN("PATH: oshrun is %s, which belongs to another library", tool.c_str());
      mend(("put " + beside("") + " first in PATH").c_str());
    }
    break;
  }
}

void check_pmix() {
  if (strcmp(SHMEM_BOOTSTRAP, "pmix") != 0)
    return WARN("PMIx: not built in (-Dpmix=enabled): every program is one PE");
  // By name: this program must start where the library is missing.
  void *pmix = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
  auto version =
      reinterpret_cast<const char *(*)()>(pmix ? dlsym(pmix, "PMIx_Get_version") : nullptr);
  int major = 0, minor = 0;
  const char *text = version ? version() : "not found";
  if (sscanf(text, "%*[^0-9]%d.%d", &major, &minor) == 2 &&
      (major > 4 || (major == 4 && minor >= 2)))
    return GOOD("PMIx: %.*s", int(strcspn(text, " (") + strcspn(text + strcspn(text, " ("), "(")),
                text);
  FAIL("PMIx: libpmix.so.2: %.80s; 4.2 or later is needed", text);
  mend("install libpmix2 of the launcher's version, and see that the loader finds it first");
}

void check_shared_memory() {
  const size_t bytes = size_t(1) << 20;
  const int fd = memfd_create("shmem_info", MFD_CLOEXEC);
  void *p = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, off_t(bytes)) == 0)
    p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) {
    FAIL("shared memory: a memfd of 1 MiB: %s", strerror(errno));
    mend("a container's seccomp profile or a memory limit forbids it");
  } else {
    GOOD("shared memory: a memfd can be mapped");
    munmap(p, bytes);
  }
  if (fd >= 0) close(fd);

  shmem::Env env;
  char message[256];
  for (size_t i = 0; i < shmem::n_variables; i++)
    read_variable(shmem::variables[i], &env, message, sizeof message);
  const size_t limit = shmem::memory_limit();
  if (env.symmetric_size > limit) {
    FAIL("memory: SHMEM_SYMMETRIC_SIZE asks for %.1f GiB a PE, and %.1f GiB may be used here",
         double(env.symmetric_size) / (1 << 30), double(limit) / (1 << 30));
    mend("lower it, or lift the container's memory limit");
  } else {
    GOOD("memory: %.1f GiB may be used, room for %zu PEs with SHMEM_SYMMETRIC_SIZE",
         double(limit) / (1 << 30), env.symmetric_size ? limit / env.symmetric_size : 0);
  }
  if (env.heap_grow == shmem::Env::of_both && env.symmetric_max > limit) {
    WARN("memory: SHMEM_SYMMETRIC_MAX is %.1f GiB a PE, but all heaps together grow to %.1f GiB",
         double(env.symmetric_max) / (1 << 30), double(limit) / (1 << 30));
    mend("lower it, or lift the container's memory limit");
  }
  rlimit space;
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    WARN("address space: limited to %.1f GiB (ulimit -v); a PE maps the heaps of all others",
         double(space.rlim_cur) / (1 << 30));
    mend("ulimit -v unlimited");
  }
}

void check_node(const char *path, const char *how) {
  if (access(path, F_OK) != 0)
    return WARN("%s: not there: no driver, or not in this container", path);
  if (access(path, R_OK | W_OK) == 0) return GOOD("%s: may be opened", path);
  FAIL("%s: %s", path, strerror(errno));
  mend(how);
}

void check_nodes() {
  const auto &driver = shmem::runtime::driver;
  for (const char *nodes : driver.nodes) {
    glob_t found; // a path that is no pattern exists or does not
    if (!nodes || glob(nodes, GLOB_NOMAGIC, nullptr, &found) != 0) continue;
    for (size_t i = 0; i < found.gl_pathc; i++) check_node(found.gl_pathv[i], driver.how);
    globfree(&found);
  }
}

constexpr uint64_t sign = 0x736b616564687365;

// The other half of check_ipc: a process that maps what the doctor exports.
int open_exported(const char *hex, int device) {
  hipIpcMemHandle_t handle;
  auto *bytes = reinterpret_cast<unsigned char *>(&handle);
  if (strlen(hex) != 2 * sizeof handle) return 2;
  for (size_t i = 0; i < sizeof handle; i++) {
    const char two[] = {hex[2 * i], hex[2 * i + 1], 0};
    bytes[i] = static_cast<unsigned char>(strtoul(two, nullptr, 16));
  }
  void *p = nullptr;
  uint64_t seen = 0;
  const char *call = "hipSetDevice";
  hipError_t error = hipSetDevice(device);
  if (!error)
    call = "hipIpcOpenMemHandle",
    error = hipIpcOpenMemHandle(&p, handle, hipIpcMemLazyEnablePeerAccess);
  if (!error) call = "hipMemcpy", error = hipMemcpy(&seen, p, 8, hipMemcpyDefault);
  if (error)
    printf("%s: %s\n", call, hipGetErrorString(error));
  else if (seen != sign)
    printf("what is read there is 0x%016lx\n", long(seen));
  if (p) (void)hipIpcCloseMemHandle(p);
  return error || seen != sign;
}

// One export a PE, mapped by a process that works with another GPU.
void check_ipc(int device, int reader) {
  void *p = nullptr;
  hipIpcMemHandle_t handle;
  const size_t bytes = size_t(2) << 20;
  const char *call = "hipSetDevice";
  hipError_t error = hipSetDevice(device);
  if (!error)
    call = "hipExtMallocWithFlags",
    error = hipExtMallocWithFlags(&p, bytes, hipDeviceMallocFinegrained);
  if (!error) call = "hipMemcpy", error = hipMemcpy(p, &sign, 8, hipMemcpyDefault);
  if (!error) error = hipDeviceSynchronize();
  if (!error) call = "hipIpcGetMemHandle", error = hipIpcGetMemHandle(&handle, p);
  if (error) {
    FAIL("GPU %d: %s: %s", device, call, hipGetErrorString(error));
    if (strcmp(call, "hipIpcGetMemHandle") != 0)
      mend("fine-grained memory that other processes map is what the device heap is made of");
    else
      mend("the driver does not export GPU memory: kernels may lack the calls of ROCm's IPC, which "
           "AMD's own driver (amdgpu-dkms) has; from ROCm 6.3 on HSA_ENABLE_IPC_MODE_LEGACY=0 does "
           "without them. Until then jobs go on without a device heap");
  } else {
    std::string hex, output;
    char two[3];
    for (size_t i = 0; i < sizeof handle; i++) {
      snprintf(two, sizeof two, "%02x", reinterpret_cast<unsigned char *>(&handle)[i]);
      hex += two;
    }
    const std::string self = beside("shmem_info");
    if (run({self, "doctor", "--open", hex, std::to_string(reader)}, &output) == 0) {
      GOOD("GPU %d: another process maps its memory for GPU %d", device, reader);
    } else {
      FAIL("GPU %d: another process, with GPU %d, maps its memory: %s", device, reader,
           first_line(output).c_str());
      mend("all PEs of a node need one IPC and one PID namespace (--ipc=host --pid=host), and "
           "the right to trace each other (--cap-add=SYS_PTRACE); a mainline kernel may refuse, "
           "too, "
           "where AMD's own driver (amdgpu-dkms) does not. Until then jobs go on without a device "
           "heap");
    }
  }
  if (p) (void)hipFree(p);
}

void check_gpus() {
  check_nodes();
  int count = 0;
  const hipError_t error = hipGetDeviceCount(&count);
  if (error != hipSuccess || count == 0) {
    for (const char *name : {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
                             "GPU_DEVICE_ORDINAL"})
      if (const char *value = getenv(name)) WARN("%s = \"%s\" hides GPUs", name, value);
    return WARN("GPUs: none (%s): programs run, with the host heap alone",
                error == hipSuccess ? "no error" : hipGetErrorString(error));
  }
  GOOD("GPUs: %d", count);
  for (int a = 0; a < count; a++)
    for (int b = 0; b < count; b++) {
      int access = 0;
      if (a == b || (hipDeviceCanAccessPeer(&access, a, b) == hipSuccess && access)) continue;
      FAIL("GPU %d does not reach the memory of GPU %d", a, b);
      mend(
          "kernels need it: enable peer access (IOMMU off or pass-through, large BAR, ACS off), or "
          "let ROCR_VISIBLE_DEVICES show only GPUs that reach each other");
    }
  for (int device = 0; device < count; device++) {
    int reader = (device + 1) % count, access = 0;
    if (hipDeviceCanAccessPeer(&access, reader, device) != hipSuccess || !access) reader = device;
    check_ipc(device, reader);
  }
}

// The program of jobs of two PEs. True if both saw the other's put.
bool exchange() {
  static long box;
  const int me = shmem_my_pe(), n = shmem_n_pes();
  shmem_long_p(&box, me + 1, (me + 1) % n);
  shmem_barrier_all();
  bool good = box == (me + n - 1) % n + 1;
  if (auto *far = static_cast<long *>(shmem_malloc_with_hints(8, SHMEMX_MALLOC_DEVICE))) {
    shmem_long_p(far, me + 1, (me + 1) % n);
    shmem_barrier_all();
    good &= shmem_long_g(far, me) == (me + n - 1) % n + 1;
    shmem_free(far);
  }
  return good && n == 2;
}
int be_pe() {
  shmem_init();
  const bool good = exchange();
  shmem_finalize();
  return !good;
}
// Two PEs that no launcher starts: this process makes the unique id, and a fork of it is PE 1.
int be_pes_by_id() {
  shmemx_uniqueid_t id;
  int failed = shmemx_get_uniqueid(&id), status = 0;
  const pid_t other = failed ? -1 : fork();
  if (!failed) {
    shmemx_init_attr_t attr = SHMEMX_INIT_ATTR_INITIALIZER;
    attr.rank = other == 0, attr.n = 2, attr.uniqueid = &id;
    failed = shmemx_init_attr(0, &attr);
  }
  if (failed) {
    fprintf(stderr, "shmem: %s\n", shmemx_error_string());
  } else {
    failed = !exchange();
    shmem_finalize();
  }
  if (other > 0) waitpid(other, &status, 0);
  return failed || status;
}
// Whether the other PE's put is seen in memory that is registered for it.
bool takes(long *p) {
  const int me = shmem_my_pe();
  shmemx_buffer_t handle;
  shmemx_buffer_register(p, sizeof *p, &handle);
  shmem_long_p(p, me + 7, 1 - me);
  shmem_barrier_all();
  const bool good = shmem_long_g(p, me) == 1 - me + 7;
  shmemx_buffer_unregister(handle);
  return good;
}
int be_pe_with_buffers() {
  shmem_init();
  auto *const host = static_cast<long *>(malloc(sizeof(long)));
  bool good = shmem_n_pes() == 2 && host && takes(host);
  void *device = nullptr;
  if (void *heap = shmem_malloc_with_hints(8, SHMEMX_MALLOC_DEVICE)) {
    // Its own allocation: ROCr exports none that it has cut from a larger one.
    good &= hipMalloc(&device, 2 << 20) == hipSuccess && takes(static_cast<long *>(device));
    shmem_free(heap);
  }
  if (device) (void)hipFree(device);
  free(host);
  shmem_finalize();
  return !good;
}
// Says which heaps there are that grow, and do so.
int be_pe_that_grows() {
  shmem_init();
  const size_t bytes = 12 << 20;
  for (auto [hint, name] :
       {std::pair(SHMEMX_MALLOC_HOST, "host"), std::pair(SHMEMX_MALLOC_DEVICE, "device")}) {
    void *p = shmem_malloc_with_hints(bytes, hint);
    if (p && shmem_my_pe() == 0) printf("grows: %s\n", name);
    shmem_free(p);
  }
  const bool good = shmem_n_pes() == 2;
  shmem_finalize();
  return !good;
}

// How a program that is started like this one would find its peers.
void check_start() {
  const char *mode = shmem::env_text("BOOTSTRAP"), *rank = getenv("PMIX_RANK");
  if (mode && *mode)
    return GOOD("start: SHMEM_BOOTSTRAP=%s: a program joins the job that its variables describe",
                mode);
  if (getenv("PMIX_NAMESPACE"))
    return GOOD("start: a launcher has started this process, as PE %s: a program asks it by PMIx",
                rank ? rank : "?");
  for (const auto &[its_rank, its_size, advice] : shmem::bootstrap::other_launchers)
    if (const char *size = getenv(its_size); size && atoi(size) > 1) {
      WARN("start: a program is PE 0 of 1: no launcher that this library knows has started this "
           "process, though %s and %s = %s are set",
           its_rank, its_size, size);
      return mend((std::string(advice) + "; or the program calls shmemx_init_attr").c_str());
    }
  GOOD("start: oshrun starts a job; a program that nothing starts is PE 0 of 1, unless it calls "
       "shmemx_init_attr or SHMEM_BOOTSTRAP is set");
}
void check_id() {
  std::string output;
  const int status = run({beside("shmem_info"), "doctor", "--pe", "id"}, &output, 60);
  if (status == 0) return GOOD("unique id: two processes without a launcher become a job");
  FAIL("unique id: status %d:%s", status, gist(output).c_str());
  mend("SHMEM_BOOTSTRAP_INTERFACE names the interfaces that processes listen on; a firewall may "
       "close their ports");
}

// What a PE of the doctor's jobs does.
const struct Part {
  const char *kind;
  int (*run)();
} parts[] = {{"job", be_pe},
             {"id", be_pes_by_id},
             {"buffers", be_pe_with_buffers},
             {"grow", be_pe_that_grows}};

int run_job(const char *what, std::string *output) {
  return run({beside("oshrun"), "-n", "2", beside("shmem_info"), "doctor", "--pe", what}, output,
             60);
}
void check_job(const char *what, const char *name, const char *does, const char *how) {
  std::string output;
  const int status = run_job(what, &output);
  if (status == 0) return GOOD("%s: %s", name, does);
  FAIL("%s: status %d:%s", name, status, gist(output).c_str());
  mend(how);
}

// Variables of a job, in place of this process's.
class With {
  struct Before {
    std::string name;
    std::optional<std::string> value;
  };
  std::vector<Before> all;

public:
  With(std::initializer_list<std::pair<const char *, const char *>> wanted) {
    for (auto [name, value] : wanted) {
      const char *now = getenv(name);
      all.push_back({name, now ? std::optional<std::string>(now) : std::nullopt});
      setenv(name, value, 1);
    }
  }
  ~With() {
    for (const Before &b : all)
      b.value ? setenv(b.name.c_str(), b.value->c_str(), 1) : unsetenv(b.name.c_str());
  }
  With(const With &) = delete;
  With &operator=(const With &) = delete;
};
void check_growth() {
  const With small({{"SHMEM_HEAP_GROW", "1"},
                    {"SHMEM_SYMMETRIC_SIZE", "4M"},
                    {"SHMEM_DEVICE_SIZE", "4M"},
                    {"SHMEM_SYMMETRIC_MAX", "64M"},
                    {"SHMEM_QUIET", "1"}});
  std::string output;
  const int status = run_job("grow", &output);
  auto grows = [&](const char *name) {
    return output.find(std::string("grows: ") + name) != std::string::npos;
  };
  const bool host = grows("host"), device = grows("device");
  if (status != 0) {
    FAIL("SHMEM_HEAP_GROW: status %d:%s", status, gist(output).c_str());
    return mend("programs without it run");
  }
  if (host || device)
    return GOOD("SHMEM_HEAP_GROW: %s", host && device ? "both heaps grow"
                                       : host         ? "the heap grows, that of a GPU does not"
                                                      : "the heap of a GPU grows, the host's not");
  WARN("SHMEM_HEAP_GROW: no heap grows");
  mend("SHMEM_DEBUG=1 says why");
}
void check_trace() {
  char file[] = "/tmp/shmem_info.XXXXXX";
  const int fd = mkstemp(file);
  if (fd < 0) return WARN("SHMEM_TRACE: %s: %s", file, strerror(errno));
  std::string output;
  char text[4096] = "";
  int status;
  {
    const With trace({{"SHMEM_TRACE", file}});
    status = run_job("job", &output);
    [[maybe_unused]] ssize_t n = pread(fd, text, sizeof text - 1, 0);
  }
  if (status == 0 && text[0] == '[' && strstr(text, "shmem_init")) {
    GOOD("SHMEM_TRACE: a job of two PEs writes a trace");
  } else {
    FAIL("SHMEM_TRACE: status %d, %s:%s", status, text[0] ? "a trace" : "nothing is written",
         gist(output).c_str());
    mend("libshmem_trace.so has to lie beside libshmem.so, as it is installed");
  }
  close(fd);
  unlink(file);
}

// The transports and the interface that PEs on other nodes would be reached by, were there any.
void check_network() {
  if (!strcmp(SHMEM_NET, "none"))
    return GOOD("network: not built in (-Ducx=enabled): jobs are of one node");
  const Network n = look_at_network();
  if (!n.error.empty()) {
    FAIL("network: UCX %s of %s: %s", n.version.c_str(), n.path.c_str(), n.error.c_str());
    if (!n.registers) return mend("ulimit -l unlimited, on all nodes");
    const std::string ways = "UCX_TLS=" + n.allowed_transports +
                             " and UCX_NET_DEVICES=" + n.allowed_interfaces +
                             " choose; the loader takes the first libucp.so.0 of LD_LIBRARY_PATH";
    return mend(ways.c_str());
  }
  GOOD("network: UCX %s, built with %s, knows %s memory%s%s", n.version.c_str(),
       n.built_with.c_str(), n.memory.c_str(), n.transports.empty() ? "" : ", goes by ",
       n.transports.c_str());
  size_t near = 0;
  for (const Listener &l : n.listens)
    if (l.interface == "lo")
      near++;
    else if (l.interface.empty())
      WARN("network: PEs listen on %s, of every interface", l.address.c_str());
    else
      GOOD("network: PEs listen on %s of %s", l.address.c_str(), l.interface.c_str());
  if (near && near == n.listens.size()) {
    WARN("network: PEs listen on lo alone, which no other node reaches");
    mend("UCX_NET_DEVICES names the interface of the cluster's network");
  }
  rlimit locked;
  glob_t cards; // which register memory by locking it
  if (getrlimit(RLIMIT_MEMLOCK, &locked) != 0 || locked.rlim_cur == RLIM_INFINITY ||
      glob("/sys/class/infiniband/*", 0, nullptr, &cards) != 0)
    return;
  WARN("network: %s locks symmetric memory, of which %zu MiB may be", cards.gl_pathv[0],
       size_t(locked.rlim_cur >> 20));
  mend("ulimit -l unlimited, on all nodes");
  globfree(&cards);
}

} // namespace

int doctor(int argc, char **argv) {
  // The doctor's own processes have the first two: an exported handle's digits, a kind of PE.
  static const option options[] = {{"open", required_argument, nullptr, 'o'},
                                   {"pe", required_argument, nullptr, 'p'},
                                   {"amd", no_argument, nullptr, 'a'},
                                   {"seconds", required_argument, nullptr, 's'},
                                   {}};
  const char *handle = nullptr, *kind = nullptr;
  unsigned seconds = 0;
  bool amd = false;
  for (int c; (c = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    char rest;
    if (c == 'o') handle = optarg;
    if (c == 'p') kind = optarg;
    if (c == 'a') amd = true;
    if (c == '?' || (c == 's' && (sscanf(optarg, "%u%c", &seconds, &rest) != 1 || seconds == 0)))
      return unknown(argv[optind - 1]);
  }
  if (handle && argc - optind == 1) return open_exported(handle, atoi(argv[optind]));
  for (const Part &part : parts)
    if (kind && !strcmp(kind, part.kind)) return part.run();
  if (argc - optind > int(amd)) return unknown(argv[argc - 1]);
  if (seconds && !amd) return unknown("--seconds");
  if (amd)
    return doctor_amd(optind < argc ? argv[optind] : "shmem-amd.txt", seconds ? seconds : 180);
  check_environment();
  check_launcher();
  check_pmix();
  check_start();
  check_shared_memory();
  check_gpus();
  check_network();
  const int before = failures;
  check_job("job", "a job of two PEs", "starts, puts, meets and ends",
            "SHMEM_DEBUG=1 says how far it came; if each PE is alone, the launcher speaks another "
            "PMIx");
  check_id();
  if (failures == before) { // or each would say the same
    check_job("buffers", "buffers", "memory of the program's own becomes symmetric",
              "programs that do without shmemx_buffer_register run");
    check_growth();
    check_trace();
  }
  if (failures == 0)
    printf("\nall is well\n");
  else
    printf("\n%d to mend\n", failures);
  return fflush(stdout) == 0 && failures == 0 ? 0 : 1;
}

} // namespace info

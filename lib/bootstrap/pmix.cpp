// SPDX-License-Identifier: MIT
#include "../bootstrap.hpp"
#include "../log.hpp"
#include "../state.hpp"
#include "../thread.hpp"
#include "processes.hpp"
#include "variables.hpp"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <pmix.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace shmem::bootstrap::pmix {

Host host_of(int pe);

namespace {

pmix_proc_t proc;
Place found;              // as join() gives it
std::atomic<bool> joined; // PMIx's own thread reads it in lost()

// Seconds for a call of PMIx that a PE can do without.
constexpr double patience = 5;

// The last call of PMIx, for the line that says that PMIx does not answer.
std::atomic<const char *> asked = "PMIx_Init";

// A call of PMIx, or several in a row, in a thread of its own, so that this library need not wait
// for them: some versions wait for themselves for ever (PMIx 5.0.1 in PMIx_Query_info, 2026-11-25),
// and a launcher may have stopped.
class TimedCall {
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;
  std::function<void()> run;
  static void *start(void *p) {
    const auto call = std::move(
        *std::unique_ptr<std::shared_ptr<TimedCall>>(static_cast<std::shared_ptr<TimedCall> *>(p)));
    inside = true;
    call->run();
    const std::lock_guard guard(call->mutex);
    call->done = true;
    call->finished.notify_all();
    return nullptr;
  }

public:
  static thread_local bool inside; // this thread is that of a call
  static std::shared_ptr<TimedCall> begin(std::function<void()> f) {
    auto call = std::make_shared<TimedCall>();
    call->run = std::move(f);
    pthread_t thread;
    constexpr size_t stack = 2 << 20; // PMIx_Init opens plug-ins and reads the machine's topology
    if (const int error = start_thread(&thread, start, new std::shared_ptr<TimedCall>(call), stack))
      fatal("a thread for calls of PMIx: %s", strerror(error));
    pthread_detach(thread);
    return call;
  }
  bool wait(double seconds) {
    std::unique_lock lock(mutex);
    return finished.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return done; });
  }
};
thread_local bool TimedCall::inside;

// False when PMIx has not answered in time.
bool within(double seconds, std::function<void()> f) {
  if (!TimedCall::inside) return TimedCall::begin(std::move(f))->wait(seconds);
  f();
  return true;
}
[[noreturn]] void no_answer() {
  const char *what = asked, *call = strncmp(what, "PMIx_", 5) == 0 ? "" : "PMIx_Get of ";
  fatal("%s%s: the launcher has not answered for %g seconds (SHMEM_BOOTSTRAP_TIMEOUT): the job "
        "ends",
        call, what, self.env.bootstrap_timeout);
}
void ask(std::function<void()> f) {
  if (!within(self.env.bootstrap_timeout, std::move(f))) no_answer();
}

void must(pmix_status_t status, const char *what) {
  if (status != PMIX_SUCCESS) fatal("%s: %s", what, PMIx_Error_string(status));
}

// A value that the launcher knows of a process, PMIX_RANK_WILDCARD for the job.
pmix_value_t *get(pmix_rank_t rank, const char *key) {
  pmix_proc_t who;
  PMIX_LOAD_PROCID(&who, proc.nspace, rank);
  pmix_value_t *value = nullptr;
  asked = key;
  must(PMIx_Get(&who, key, nullptr, 0, &value), key);
  return value;
}

uint32_t get_uint32(pmix_rank_t rank, const char *key) {
  pmix_value_t *value = get(rank, key);
  uint32_t n = 0;
  pmix_status_t status = PMIX_SUCCESS;
  PMIX_VALUE_GET_NUMBER(status, value, n, uint32_t); // NOLINT(bugprone-signed-char-misuse): PMIx's
  must(status, key);
  PMIX_VALUE_RELEASE(value);
  return n;
}

// Open MPI 4.1.4 with PMIx 4.2.2 tells every node the PMIX_LOCAL_PEERS and PMIX_LOCAL_SIZE of the
// last one if PMIx keeps its data in memory, as oshrun asks it to. The number in the environment is
// right.
int local_size() {
  const char *theirs = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const int n = theirs ? atoi(theirs) : 0;
  return n > 0 ? n : int(get_uint32(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE));
}

int local_rank(int pe) {
  return int(get_uint32(pmix_rank_t(pe), PMIX_LOCAL_RANK));
}

std::vector<int> row(int first, int stride, int n) {
  std::vector<int> pes(size_t(n), first);
  for (int i = 0; i < n; i++) pes[size_t(i)] += i * stride;
  return pes;
}

// Finds the PEs on this node, by the names of their hosts. Launchers place PEs by slot or by node:
// both are tried before this PE asks for every other PE, because then each PE asks for all.
void find_node(Place *place) {
  pmix_value_t *mine = get(proc.rank, PMIX_HOSTNAME);
  auto here = [&](int pe) {
    pmix_value_t *theirs = get(pmix_rank_t(pe), PMIX_HOSTNAME);
    const bool same = !strcmp(theirs->data.string, mine->data.string);
    PMIX_VALUE_RELEASE(theirs);
    return same;
  };
  auto try_stride = [&](int stride) {
    const int first = place->me - place->local * stride;
    if (first < 0 || first + (place->n_local - 1) * stride >= place->n) return false;
    for (int i = 0; i < place->n_local; i++)
      if (!here(first + i * stride)) return false;
    place->pes = row(first, stride, place->n_local);
    return true;
  };
  // Placed by node, the next PE of this node is as far away as there are nodes. Not by local ranks:
  // Slurm's PMIx plugin tells those of the own node's PEs alone (22.05, 2026-11-25).
  auto apart = [&] {
    const int n = place->n, me = place->me;
    for (int i = 1; i < n; i++)
      if ((me + i < n && here(me + i)) || (me - i >= 0 && here(me - i))) return i;
    return 1;
  };
  if (!try_stride(1) && !try_stride(apart())) {
    place->pes.clear();
    for (int pe = 0; pe < place->n; pe++) {
      if (pe == place->me) place->local = int(place->pes.size());
      if (here(pe)) place->pes.push_back(pe);
    }
    if (int(place->pes.size()) != place->n_local)
      fatal("the launcher says that this node has %d PEs, and names %zu", place->n_local,
            place->pes.size());
  }
  for (place->elsewhere = 0; here(place->elsewhere);) place->elsewhere++;
  PMIX_VALUE_RELEASE(mine);
}

// Without the launcher nothing ends the job when a PE dies, or the PEs when the user gives up. A PE
// that is leaving goes on: the connection may end under PMIx_Finalize, and ending the process would
// lose the program's unwritten output.
void lost(size_t, pmix_status_t, const pmix_proc_t *, pmix_info_t *, size_t, pmix_info_t *, size_t,
          pmix_event_notification_cbfunc_fn_t, void *) {
  if (!joined) return;
  say("the launcher is gone: the job ends");
  _exit(1);
}

} // namespace

// Everything that PMIx tells before the PEs of a node have met.
static void ask_place() {
  must(PMIx_Init(&proc, nullptr, 0), "PMIx_Init: the launcher does not answer");
  joined = true;
  pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
  asked = "PMIx_Register_event_handler";
  PMIx_Register_event_handler(&code, 1, nullptr, 0, lost, nullptr, nullptr);
  Place place;
  place.me = int(proc.rank);
  place.n = int(get_uint32(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE));
  place.local = local_rank(place.me);
  place.n_local = local_size();
  place.machine = place.n_local;
  if (place.n_local < place.n)
    find_node(&place);
  else
    place.pes = row(0, 1, place.n);
  found = place;
}

// While it lives, hwloc in this process lists no GPUs, unless the user has said which components it
// takes. The variable is the last one of a copy of the environment, which stays: setenv could move
// the variables while another thread of the program reads them.
class WithoutGpus {
  static inline std::vector<std::unique_ptr<char *[]>> copies;
  std::string setting = std::string(hwloc_without_gpus.name) + "=" + hwloc_without_gpus.value;
  bool sets = !getenv(hwloc_without_gpus.name);

public:
  WithoutGpus() {
    if (!sets) return;
    size_t n = 0;
    while (environ[n]) n++;
    copies.push_back(std::make_unique<char *[]>(n + 2));
    char **copy = copies.back().get();
    std::copy_n(environ, n, copy);
    copy[n] = setting.data();
    environ = copy;
  }
  ~WithoutGpus() {
    if (sets) unsetenv(hwloc_without_gpus.name);
  }
};

Place join() {
  if (!launched()) return {};
  const WithoutGpus without_gpus;
  ask(ask_place);
  return found;
}

// PMIX_SERVER_URI2 and so on name the launcher's process on this node, with its port; two launchers
// may call their jobs the same where each runs in a container. Any order of the variables will do.
uint64_t job_number() {
  uint64_t sum = 0;
  for (char **v = environ; *v; v++) {
    if (strncmp(*v, "PMIX_NAMESPACE=", 15) != 0 && strncmp(*v, "PMIX_SERVER_URI", 15) != 0)
      continue;
    uint64_t hash = 14695981039346656037u; // FNV-1a
    for (const char *c = *v; *c; c++) hash = (hash ^ uint8_t(*c)) * 1099511628211u;
    sum += hash;
  }
  return sum;
}

static void put(const char *key, const void *p, size_t bytes) {
  pmix_value_t value;
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo = {static_cast<char *>(const_cast<void *>(p)), bytes};
  asked = "PMIx_Put";
  must(PMIx_Put(PMIX_GLOBAL, key, &value), "PMIx_Put");
}
static void get(int pe, const char *key, void *p, size_t bytes) {
  pmix_value_t *value = get(pmix_rank_t(pe), key);
  if (value->type != PMIX_BYTE_OBJECT || value->data.bo.size != bytes)
    fatal("PE %d, on %s, tells %zu bytes of itself, this PE, on %s, %zu: nodes have different "
          "versions of this library",
          pe, host_of(pe).name, value->type == PMIX_BYTE_OBJECT ? value->data.bo.size : 0,
          host_of(int(proc.rank)).name, bytes);
  memcpy(p, value->data.bo.bytes, bytes);
  PMIX_VALUE_RELEASE(value);
}

static std::shared_ptr<TimedCall> fence;
static std::chrono::steady_clock::time_point fence_began;

void show(const void *p, size_t bytes, const void *rest, size_t rest_bytes) {
  const auto text = [](const void *from, size_t n) {
    return std::string(static_cast<const char *>(from), n);
  };
  fence_began = std::chrono::steady_clock::now();
  fence = TimedCall::begin([first = text(p, bytes), more = text(rest, rest_bytes)] {
    put("shmem.net", first.data(), first.size());
    if (!more.empty()) put("shmem.net.rest", more.data(), more.size());
    asked = "PMIx_Commit";
    must(PMIx_Commit(), "PMIx_Commit");
    bool collect = true;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    asked = "PMIx_Fence of all nodes";
    must(PMIx_Fence(nullptr, 0, &info, 1), "PMIx_Fence of all nodes");
  });
}
bool shown() {
  if (fence->wait(0.5)) return true;
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - fence_began;
  // A PE in the fence may wait for one whose own call stands still: that PE speaks first.
  const double more = strncmp(asked, "PMIx_Fence", 10) == 0 ? 1 : 0;
  if (since.count() >= self.env.bootstrap_timeout + more) no_answer();
  return false;
}
void seen(void *all, size_t bytes, int n) {
  ask([=] {
    for (int pe = 0; pe < n; pe++)
      get(pe, "shmem.net", static_cast<char *>(all) + size_t(pe) * bytes, bytes);
  });
}
void seen_rest(int pe, void *p, size_t bytes) {
  ask([=] { get(pe, "shmem.net.rest", p, bytes); });
}

Host host_of(int pe) {
  if (!joined) return {"unknown"};
  auto host = std::make_shared<Host>(Host{"unknown"});
  const auto find = [host, pe] {
    pmix_proc_t who;
    PMIX_LOAD_PROCID(&who, proc.nspace, pmix_rank_t(pe));
    pmix_value_t *value = nullptr;
    if (PMIx_Get(&who, PMIX_HOSTNAME, nullptr, 0, &value) != PMIX_SUCCESS) return;
    snprintf(host->name, sizeof host->name, "%s", value->data.string);
    PMIX_VALUE_RELEASE(value);
  };
  return within(patience, find) ? *host : Host{"unknown"};
}

std::optional<JobEnd> ended(bool (*come)(int pe)) {
  const int pe = joined ? missing(found.pes.data(), found.n_local, come) : -1;
  return pe < 0 ? std::nullopt : std::optional(JobEnd{pe, 1, false});
}

// When the job is being ended, the main thread and the watch both come here: the second waits until
// the launcher knows, and may then end the process.
void leave() {
  static std::mutex mutex;
  std::lock_guard guard(mutex);
  if (!joined) return;
  joined = false;
  if (!within(patience, [] { PMIx_Finalize(nullptr, 0); }))
    debug("PMIx_Finalize has not ended in %g seconds: this PE goes on without the launcher",
          patience);
}

} // namespace shmem::bootstrap::pmix

namespace shmem::bootstrap {

// The launcher hears of deaths itself, and ends the PEs of all nodes.
const Means launcher = {
    pmix::join,    pmix::job_number,
    pmix::show,    pmix::shown,
    pmix::seen,    pmix::seen_rest,
    pmix::host_of, pmix::ended,
    [](auto *) {}, []() -> std::optional<JobEnd> { return {}; },
    [](auto &) {}, [](auto &) { return 0; },
    pmix::leave,
};

bool launched() {
  return getenv("PMIX_NAMESPACE") && !elder();
}

} // namespace shmem::bootstrap

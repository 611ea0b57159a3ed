// SPDX-License-Identifier: MIT
#include "../bootstrap.hpp"
#include "../log.hpp"
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pmix.h>
#include <thread>
#include <unistd.h>

namespace shmem::bootstrap {

namespace {

pmix_proc_t proc, leader;
std::atomic<bool> joined; // PMIx's own thread reads it in lost()

// What the launcher's answer makes true, in a thread of PMIx.
struct Later {
  static constexpr auto patience = std::chrono::milliseconds(500);
  std::mutex mutex;
  std::condition_variable given;
  bool got;
  pmix_status_t status;
  void give(pmix_status_t s) {
    std::lock_guard guard(mutex);
    status = s;
    got = true;
    given.notify_one();
  }
  bool came() {
    std::unique_lock lock(mutex);
    return given.wait_for(lock, patience, [this] { return got; });
  }
} answer, fence;

void must(pmix_status_t status, const char *what) {
  if (status != PMIX_SUCCESS) fatal("%s: %s", what, PMIx_Error_string(status));
}

// A value that the launcher knows of a process, PMIX_RANK_WILDCARD for the job.
pmix_value_t *get(pmix_rank_t rank, const char *key) {
  pmix_proc_t who;
  PMIX_LOAD_PROCID(&who, proc.nspace, rank);
  pmix_value_t *value = nullptr;
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

// Open MPI 4.1.4 with PMIx 4.2.2 tells every node the PMIX_LOCAL_PEERS and PMIX_LOCAL_SIZE of the last
// one if PMIx keeps what it is told in memory, as oshrun asks it to; in the environment it is right.
int local_size() {
  const char *theirs = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const int n = theirs ? atoi(theirs) : 0;
  return n > 0 ? n : int(get_uint32(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE));
}

int local_rank(int pe) {
  return int(get_uint32(pmix_rank_t(pe), PMIX_LOCAL_RANK));
}

// Finds which PEs are on this node, by the names of their hosts. Launchers place them by slot or by
// node: both are tried before every PE is asked for, because each asks for all others then.
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
    place->first = first, place->stride = stride;
    return true;
  };
  auto nodes = [&] { // by node, local rank 0 is the first PEs', of all nodes
    int n = 1;
    for (int step = place->n; step > 0; step /= 2)
      if (n + step < place->n && local_rank(n + step - 1) == 0) n += step;
    return n;
  };
  if (!try_stride(1) && !try_stride(nodes())) {
    int found = 0, last = -1;
    bool even = true;
    for (int pe = 0; pe < place->n; pe++) {
      if (!here(pe)) continue;
      if (found == 0) place->first = pe;
      if (found == 1) place->stride = pe - place->first;
      if (found > 1) even = even && pe - last == place->stride;
      found++;
      last = pe;
    }
    if (found != place->n_local)
      fatal("the launcher says that this node has %d PEs, and names %d", place->n_local, found);
    if (!even) place->stride = 0;
  }
  for (place->elsewhere = 0; here(place->elsewhere);) place->elsewhere++;
  PMIX_VALUE_RELEASE(mine);
}

// Without the launcher nobody ends the job when a PE dies, or the PEs when the user gives up. While
// this PE leaves, the connection may end under PMIx_Finalize, and what the program has not written
// out yet would be lost with the process.
void lost(size_t, pmix_status_t, const pmix_proc_t *, pmix_info_t *, size_t, pmix_info_t *, size_t,
          pmix_event_notification_cbfunc_fn_t, void *) {
  if (!joined) return;
  say("the launcher is gone: the job ends");
  _exit(1);
}

} // namespace

bool launched() {
  return getenv("PMIX_NAMESPACE") != nullptr;
}

Place join() {
  if (!launched()) return {};
  must(PMIx_Init(&proc, nullptr, 0), "PMIx_Init: the launcher does not answer");
  joined = true;
  pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
  PMIx_Register_event_handler(&code, 1, nullptr, 0, lost, nullptr, nullptr);
  Place place;
  place.me = int(proc.rank);
  place.n = int(get_uint32(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE));
  place.local = local_rank(place.me);
  place.n_local = local_size();
  place.machine = place.n_local;
  if (place.n_local < place.n) find_node(&place);
  PMIX_LOAD_PROCID(&leader, proc.nspace, pmix_rank_t(place.first));
  return place;
}

void tell(const char *text) {
  if (!joined) return;
  pmix_value_t value;
  PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
  must(PMIx_Put(PMIX_LOCAL, "shmem.segment", &value), "PMIx_Put");
  PMIX_VALUE_DESTRUCT(&value);
  must(PMIx_Commit(), "PMIx_Commit");
}

static void put(const char *key, const void *p, size_t bytes) {
  pmix_value_t value;
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo = {static_cast<char *>(const_cast<void *>(p)), bytes};
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

void show(const void *p, size_t bytes, const void *rest, size_t rest_bytes) {
  put("shmem.net", p, bytes);
  if (rest_bytes) put("shmem.net.rest", rest, rest_bytes);
  must(PMIx_Commit(), "PMIx_Commit");
  bool collect = true;
  static pmix_info_t info; // for as long as the fence takes
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  must(PMIx_Fence_nb(
           nullptr, 0, &info, 1, [](pmix_status_t status, void *) { fence.give(status); }, nullptr),
       "PMIx_Fence of all nodes");
}
bool shown() {
  if (!fence.came()) return false;
  must(fence.status, "PMIx_Fence of all nodes");
  return true;
}
void seen(int pe, void *p, size_t bytes) {
  get(pe, "shmem.net", p, bytes);
}
void seen_rest(int pe, void *p, size_t bytes) {
  get(pe, "shmem.net.rest", p, bytes);
}

Host host_of(int pe) {
  Host host{"unknown"};
  pmix_proc_t who;
  PMIX_LOAD_PROCID(&who, proc.nspace, pmix_rank_t(pe));
  pmix_value_t *value = nullptr;
  if (joined && PMIx_Get(&who, PMIX_HOSTNAME, nullptr, 0, &value) == PMIX_SUCCESS) {
    snprintf(host.name, sizeof host.name, "%s", value->data.string);
    PMIX_VALUE_RELEASE(value);
  }
  return host;
}

namespace {
char answer_text[256];
bool asked;
} // namespace

// This needs no fence: the get waits at the launcher until the leader has committed, which costs
// one message instead of a round of all. Launchers have limits of their own there, 2 s in PRRTE 5
// (2026-11-22), and the leader may well be later: then it is asked again.
bool hear(char *text, int length) {
  auto take = [](pmix_status_t status, pmix_value_t *value, void *) {
    if (status == PMIX_SUCCESS) strncpy(answer_text, value->data.string, sizeof answer_text - 1);
    answer.give(status);
  };
  if (!asked)
    must(PMIx_Get_nb(&leader, "shmem.segment", nullptr, 0, take, nullptr),
         "PMIx_Get of the segment");
  asked = true;
  const auto until = std::chrono::steady_clock::now() + Later::patience;
  if (!answer.came()) return false;
  if (answer.status == PMIX_ERR_TIMEOUT) {
    std::this_thread::sleep_until(until); // it may have answered at once, and would again
    return asked = answer.got = false;
  }
  must(answer.status, "PMIx_Get of the segment");
  snprintf(text, length, "%s", answer_text);
  return true;
}

int ended() {
  if (!joined) return -1;
  pmix_query_t query;
  PMIX_QUERY_CONSTRUCT(&query);
  pmix_status_t added;
  PMIX_ARGV_APPEND(added, query.keys, PMIX_QUERY_LOCAL_PROC_TABLE);
  must(added, "PMIx query");
  PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
  PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, proc.nspace, PMIX_STRING);
  pmix_info_t *results = nullptr;
  size_t n = 0;
  int gone = -1;
  // Launchers give the processes as a list of infos, or of processes; the states in it differ
  // between them, so it is the kernel that is asked whether a process is there.
  auto look = [&](const pmix_proc_info_t &p) {
    if (p.pid > 0 && kill(p.pid, 0) < 0 && errno == ESRCH) gone = int(p.proc.rank);
  };
  if (PMIx_Query_info(&query, 1, &results, &n) == PMIX_SUCCESS && n &&
      results[0].value.type == PMIX_DATA_ARRAY) {
    const pmix_data_array_t &list = *results[0].value.data.darray;
    for (size_t i = 0; i < list.size; i++)
      if (list.type == PMIX_PROC_INFO)
        look(static_cast<pmix_proc_info_t *>(list.array)[i]);
      else if (list.type == PMIX_INFO)
        look(*static_cast<pmix_info_t *>(list.array)[i].value.data.pinfo);
  }
  if (results) PMIX_INFO_FREE(results, n);
  PMIX_QUERY_DESTRUCT(&query);
  return gone;
}

// When the job is being ended, the main thread and the watch both come here: the second waits until
// the launcher knows, and may then end the process.
void leave() {
  static std::mutex mutex;
  std::lock_guard guard(mutex);
  if (!joined) return;
  joined = false;
  PMIx_Finalize(nullptr, 0);
}

} // namespace shmem::bootstrap

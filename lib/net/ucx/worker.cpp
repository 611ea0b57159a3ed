// SPDX-License-Identifier: MIT
// The worker: its endpoints, which are made on first use, and progress. Here is also what the lines
// about other nodes have in common.
#include "../../bootstrap.hpp"
#include "ucx.hpp"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

namespace shmem::net {

ucp_context_h context;
ucp_worker_h worker;
std::mutex lock;
Peer *peers;
Watched watched;
std::atomic<bool> leaving;
std::atomic<int> unsent;
Begun begun;

static bool ends_anywhere() {
  return watched.ends || job_ends();
}
bool over() {
  return leaving || ends_anywhere();
}
bool over_soon() {
  return true_within(1000, over);
}
// A thread that comes here may hold the lock, which the watch's thread does not take.
static void give_way_to_watch() {
  if (over_soon() && ends_anywhere()) end_after_watch();
}

void done(void *request, ucs_status_t status, void *count) {
  // An operation at a lost peer is never done: a call that waits for it does so until the job ends.
  if (count && (status == UCS_OK || over()))
    static_cast<std::atomic<int> *>(count)->fetch_sub(1, std::memory_order_release);
  ucp_request_free(request);
}
ucp_request_param_t counted(std::atomic<int> *count) {
  ucp_request_param_t p{};
  p.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  p.cb.send = done;
  p.user_data = count;
  if (count) count->fetch_add(1, std::memory_order_relaxed);
  return p;
}
static void report_failure(ucs_status_t status, const char *what) {
  if (status != UCS_ERR_NO_MEMORY) give_way_to_watch();
  if (over()) return;
  // UCX registers private memory when it sends from it.
  if (status == UCS_ERR_NO_MEMORY || status == UCS_ERR_IO_ERROR)
    fatal("%s: %s: %s", what, ucs_status_string(status), limit_of_registrations().text);
  must(status, what);
}
void began(ucs_status_ptr_t request, std::atomic<int> *count, const char *what) {
  if (UCS_PTR_IS_ERR(request) && !over() && !watched.failed)
    report_failure(UCS_PTR_STATUS(request), what);
  if (!UCS_PTR_IS_PTR(request) && count && (!UCS_PTR_IS_ERR(request) || over()))
    count->fetch_sub(1, std::memory_order_release);
}

Version ucx_version() {
  unsigned a, b, c;
  ucp_get_version(&a, &b, &c);
  return {uint8_t(a), uint8_t(b), uint8_t(c)};
}

Text print(const char *format, ...) {
  Text t;
  va_list args;
  va_start(args, format);
  vsnprintf(t.text, sizeof t.text, format, args);
  va_end(args);
  return t;
}
Text with_host(int pe) {
  return print("PE %d, on %s", pe, bootstrap::host_of(pe).name);
}
Text ways() {
  const char *transports = getenv("UCX_TLS"), *devices = getenv("UCX_NET_DEVICES");
  return print("UCX_TLS=%s UCX_NET_DEVICES=%s", transports ? transports : "all",
               devices ? devices : "all");
}
Text limit_of_registrations() {
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  if (locked.rlim_cur == RLIM_INFINITY)
    return print("memory may be locked without limit (ulimit -l): use less symmetric memory, or "
                 "ask for the card's own limit");
  return print("at most %zu bytes may be locked: ulimit -l unlimited, on all nodes",
               size_t(locked.rlim_cur));
}

// The launcher reports a PE that is gone, too, but later. UCX calls this under the lock.
static void lost(void *arg, ucp_ep_h, ucs_status_t status) {
  Peer *none = nullptr;
  if (over() || watched.failed) return;
  watched.failure = status;
  if (watched.failed.compare_exchange_strong(none, static_cast<Peer *>(arg)))
    ucp_worker_signal(worker);
}

// UCX 1.13 tells what an endpoint uses only in the text for its ucx_info.
static bool has_lane(ucp_ep_h ep, const char *use) {
  char *text = nullptr;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  if (!out) return true;
  ucp_ep_print_info(ep, out);
  fclose(out);
  const bool found = strstr(text, use);
  free(text);
  return found;
}

ucp_ep_h endpoint(int pe) {
  Peer &peer = peers[pe];
  if (peer.ep) return peer.ep;
  ucp_ep_params_t p{};
  p.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                 UCP_EP_PARAM_FIELD_ERR_HANDLER;
  const Entry &e = rows()[pe];
  std::vector<char> whole;
  const char *address = e.address;
  if (e.length > sizeof e.address) {
    whole.assign(e.address, e.address + sizeof e.address);
    whole.resize(e.length);
    bootstrap::seen_rest(pe, &whole[sizeof e.address], e.length - sizeof e.address);
    address = whole.data();
  }
  p.address = reinterpret_cast<const ucp_address_t *>(address);
  // UCX reports no lost peer over shared memory; on one machine the launcher does.
  p.err_mode =
      self.env.p2p == Env::network ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
  p.err_handler = {lost, &peer};
  const ucs_status_t status = ucp_ep_create(worker, &p, &peer.ep);
  if (status != UCS_OK) {
    give_way_to_watch();
    fatal("%s, cannot be reached from %s: %s: both need a transport and a network in common; here "
          "%s, and shmem_info shows what there is",
          with_host(pe).text, bootstrap::host_of(self.me).name, ucs_status_string(status),
          ways().text);
  }
  peer.by_card = has_lane(peer.ep, " rma#");
  return peer.ep;
}

void tell_quiet() {
  begun.news.fetch_add(1, std::memory_order_release);
}

uint64_t last_begun() {
  return begun.now.load(std::memory_order_relaxed);
}
uint64_t tick(Peer &peer, Course &course) {
  if (!peer.listed) {
    peer.listed = true;
    begun.busy.push_back(&peer);
    begun.n_busy.store(begun.busy.size(), std::memory_order_relaxed);
  }
  const uint64_t now = last_begun() + 1;
  begun.now.store(now, std::memory_order_relaxed);
  course.begin(now);
  return now;
}

int first_of(int pe) {
  return rows()[pe].first;
}
int node_of(int pe) {
  return rows()[pe].node;
}
int nodes() {
  return int(self.job->nodes.load(std::memory_order_relaxed));
}

bool held_back() {
  return unsent.load(std::memory_order_relaxed) != 0;
}

bool progress(bool often) {
  if (!worker) return false;
  if (often)
    watched.polls.store(watched.polls.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
  if (!lock.try_lock()) return false;
  // Once: a call that waits looks at its result before the worker asks the kernel for more. Not
  // once the job ends: UCX 1.13 aborts when a peer has gone with a connection half made
  // (2026-11-22).
  const bool some = !watched.ends && ucp_worker_progress(worker);
  lock.unlock();
  return some;
}

} // namespace shmem::net

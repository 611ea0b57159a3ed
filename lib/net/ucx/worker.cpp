// SPDX-License-Identifier: MIT
// The worker, its peers, whose endpoints are made on first use, and progress.
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
Heap heaps[2];
Registered registered[all_names];
std::mutex lock;
Peer *peers;
bool ucx_knows_gpu;
Answering answering;
std::atomic<bool> leaving;
std::atomic<int> unsent;
Begun begun;

// In a chunk of a heap.
static Name name_in(const Heap &heap, const void *p) {
  const size_t at = uintptr_t(p) - heap.kept.base - heap.kept.size;
  const int first = heap.first[at / heap.unit].load(std::memory_order_relaxed);
  if (!first) fatal("a call for another node: %p is in no block of the symmetric heap", p);
  const int r = chunks + int(&heap - heaps) * int(most_units) + first - 1;
  const Span &chunk = *registered[r].span;
  const uint64_t offset = uintptr_t(p) - chunk.base;
  return {r, offset, chunk.size - offset};
}
Name name_of(const void *p, int pe) {
  int r = 0;
  while (r < regions && !registered[r].span->has(p)) r++;
  for (const Heap &heap : heaps) {
    if (!heap.grows() || !heap.region->has(p)) continue;
    if (r == regions) return name_in(heap, p);
    const uint64_t offset = uintptr_t(p) - heap.kept.base;
    return {r, offset, heap.kept.size - offset};
  }
  if (r == regions) {
    const int place = buffer::index_of(p);
    // The place is the buffer's name, which is another buffer's on PEs outside of its team.
    if (place >= 0)
      buffer::check_at("a call for another node", "an object", p, buffer::buffers[place].region,
                       pe);
    r = place < 0 ? flags_region : regions + place;
  }
  return {r, uintptr_t(p) - registered[r].span->base, SIZE_MAX};
}

Entry *book() {
  return static_cast<Entry *>(self.address_table);
}

void wake() {
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t n = write(answering.fd, &one, sizeof one);
}

bool over() {
  return leaving || answering.ends || self.exiting || self.job->exit || self.job->dead;
}

void ended_elsewhere(int status) {
  answering.status = status;
  answering.ends = true;
}

void done(void *request, ucs_status_t status, void *count) {
  // Of a peer that is lost nothing is ever done: who waits for it does so until the job ends.
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
void began(ucs_status_ptr_t request, std::atomic<int> *count, const char *what) {
  if (UCS_PTR_IS_ERR(request) && !over() && !answering.failed) {
    // What goes from private memory is registered on its way.
    const ucs_status_t status = UCS_PTR_STATUS(request);
    if (status == UCS_ERR_NO_MEMORY || status == UCS_ERR_IO_ERROR)
      fatal("%s: %s: %s", what, ucs_status_string(status), limit_of_registrations().text);
    must(status, what);
  }
  if (!UCS_PTR_IS_PTR(request) && count && (!UCS_PTR_IS_ERR(request) || over()))
    count->fetch_sub(1, std::memory_order_release);
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
    return print(
        "memory may be locked without limit (ulimit -l): use less symmetric memory, or ask "
        "for the card's own limit");
  return print("at most %zu bytes may be locked: ulimit -l unlimited, on all nodes",
               size_t(locked.rlim_cur));
}

// A PE that is gone is what its launcher says, too; here it is known at once. UCX calls this under
// the lock.
static void lost(void *arg, ucp_ep_h, ucs_status_t status) {
  Peer *none = nullptr;
  if (over() || answering.failed) return;
  answering.failure = status;
  if (answering.failed.compare_exchange_strong(none, static_cast<Peer *>(arg))) wake();
}

// UCX 1.13 tells what an endpoint goes by in the text of its ucx_info only.
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
  const Entry &e = book()[pe];
  std::vector<char> whole;
  const char *address = e.address;
  if (e.length > sizeof e.address) {
    whole.assign(e.address, e.address + sizeof e.address);
    whole.resize(e.length);
    bootstrap::seen_rest(pe, &whole[sizeof e.address], e.length - sizeof e.address);
    address = whole.data();
  }
  p.address = reinterpret_cast<const ucp_address_t *>(address);
  // UCX tells of no lost peer over shared memory; on one machine the launcher does.
  p.err_mode =
      self.env.p2p == Env::network ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
  p.err_handler = {lost, &peer};
  const ucs_status_t status = ucp_ep_create(worker, &p, &peer.ep);
  if (status != UCS_OK)
    fatal("%s, cannot be reached from %s: %s: both need a transport and a network in common; here "
          "%s, and shmem_info shows what there is",
          with_host(pe).text, bootstrap::host_of(self.me).name, ucs_status_string(status),
          ways().text);
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
  return book()[pe].first;
}
int node_of(int pe) {
  return book()[pe].node;
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
    answering.polls.store(answering.polls.load(std::memory_order_relaxed) + 1,
                          std::memory_order_relaxed);
  if (!lock.try_lock()) return false;
  // Once: who waits looks whether it has come before the worker asks the kernel for more. Nothing once
  // the job ends: of a peer that has gone with a connection half made UCX 1.13 makes an abort
  // (2026-11-22).
  const bool some = !answering.ends && ucp_worker_progress(worker);
  lock.unlock();
  return some;
}

} // namespace shmem::net

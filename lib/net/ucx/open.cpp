// SPDX-License-Identifier: MIT
// Brings the worker up, makes the PEs of all nodes known to each other, answers them, and brings it
// down.
#include "../../exit.hpp"
#include "../../team.hpp"
#include "../../thread.hpp"
#include "built.h"
#include "ucx.hpp"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <poll.h>
#include <shmemx.h>
#include <string>
#include <sys/eventfd.h>
#include <ucs/config/global_opts.h>
#include <unistd.h>
#include <vector>

namespace shmem::net {

namespace {

Entry mine;

std::atomic<bool> stopping;
pthread_t server;

// Ends the job because of a PE, unless that is happening already: who ends it there is about to say
// so here.
void report_loss(int pe, const char *what) {
  for (int tries = 0; tries < 30 && !over(); tries++) usleep(10000);
  if (over()) return;
  last_word("%s: %s: the job ends", with_host(pe).text, what);
  end_job(1);
}

uint64_t polls() {
  return answering.polls.load(std::memory_order_relaxed);
}
// While a call waits and progresses, the thread that answers would only be in its way: with 4 PEs
// on 4 cores a barrier of two nodes took 64 us, and takes 42 so (2026-11-22). It looks at other
// things from time to time. The longer calls have polled the longer it sleeps: where all cores are
// busy somebody loses one each time it wakes.
void leave_to_callers(uint64_t seen, bool woken) {
  uint64_t now;
  for (int i = 0; i < 25 && !woken && !answering.failed && !answering.ends; i++, seen = now) {
    if ((now = polls()) == seen) return;
    usleep(i < 2 ? 1000 : 4000);
  }
}

// A cable that is cut breaks no connection, and a firewall makes none. So the first PE of each node
// asks that of the next whether it is there, four times in SHMEM_NET_TIMEOUT.
class Watch {
  static inline std::atomic<bool> answered; // the answer may be late
  int next = -1;                            // whom this PE asks
  double asked = 0;
  bool heard = false; // an answer, ever

public:
  Watch() {
    answered = true;
    if (self.local != 0 || self.one_node() || self.env.p2p == Env::network) return;
    next = self.me;
    do next = (next + 1) % self.n;
    while (first_of(next) != next);
  }
  // Milliseconds until it is to be called again, or -1.
  int look() {
    if (next < 0) return -1;
    const double limit = self.env.net_timeout, now = shmemx_wtime();
    if (over()) return int(limit * 250) + 1;
    if (answered && now - asked >= limit / 4) {
      heard = asked > 0;
      asked = now;
      ask_pulse(next, &answered);
    } else if (!answered && now - asked >= limit) {
      report_loss(next, heard
                            ? print("no answer for %g seconds (SHMEM_NET_TIMEOUT)", limit).text
                            : print("no answer in %g seconds (SHMEM_NET_TIMEOUT), nor ever one: a "
                                    "firewall between the nodes, or the wrong network (%s)?",
                                    limit, ways().text)
                                  .text);
    }
    return int(limit * 250) + 1;
  }
};

void *serve(void *) {
  int events;
  must(ucp_worker_get_efd(worker, &events), "ucp_worker_get_efd");
  pollfd fds[2] = {{events, POLLIN, 0}, {answering.fd, POLLIN, 0}};
  Watch watch;
  int refused = 0;
  for (;;) {
    unsigned n = 0;
    ucs_status_t status = UCS_ERR_BUSY;
    const int rest = watch.look();
    const uint64_t before = polls();
    // Each poll of a call would wake who waits for the lock, which comes too late. So the thread
    // asks; but not for ever, because of calls that send and never poll.
    std::unique_lock guard(lock, std::defer_lock);
    if (refused == 10) guard.lock();
    if (guard || guard.try_lock()) {
      refused = 0;
      while (ucp_worker_progress(worker)) {
        n++;
        if (polls() != before) break;
      }
      status = ucp_worker_arm(worker);
      guard.unlock();
    } else { // a call has it that sends, and will poll next
      usleep(1000);
      refused = polls() == before ? refused + 1 : 0;
    }
    if (answering.ends && status != UCS_ERR_BUSY) { // the answer is out
      leaving = true;
      claim_exit(answering.status);
      return nullptr;
    }
    // Who sleeps until an object of its own changes hears nothing of what is stored from here.
    if (n) ring({nullptr, false});
    if (status == UCS_ERR_BUSY) {
      leave_to_callers(before, stopping);
      continue;
    }
    if (stopping) return nullptr;
    if (answering.failed && !over())
      report_loss(int(answering.failed.load() - peers), ucs_status_string(answering.failure));
    const uint64_t seen = polls();
    fds[1].revents = 0;
    poll(fds, 2, rest);
    leave_to_callers(seen, fds[1].revents);
    if (fds[1].revents) {
      uint64_t times;
      [[maybe_unused]] ssize_t got = read(answering.fd, &times, sizeof times);
    }
  }
}

} // namespace

void check(const bootstrap::Place &place) {
  if (place.elsewhere < 0) return;
  if (place.n > max_far_pes)
    fatal_all("%d PEs on several nodes: this build takes at most %d", place.n, max_far_pes);
  if (place.stride == 0)
    fatal_all("the PEs of this node are not at equal distances: place them by slot or by node");
}

size_t book_bytes() {
  return self.one_node() ? 0 : size_t(self.n) * sizeof(Entry);
}

namespace {

Version library_version() {
  Version v{};
  sscanf(SHMEM_LIBRARY_VERSION, "%hhu.%hhu.%hhu", &v.part[0], &v.part[1], &v.part[2]);
  return v;
}
Version ucx_version() {
  unsigned a, b, c;
  ucp_get_version(&a, &b, &c);
  return {uint8_t(a), uint8_t(b), uint8_t(c)};
}
// The loader takes the first libucp.so.0 that it finds, whichever version that is.
void check_ucx() {
  const Version v = ucx_version();
  if (v.part[0] == UCP_API_MAJOR && v.part[1] >= UCP_API_MINOR) return;
  Dl_info from;
  fatal(
      "UCX %d.%d.%d is loaded, from %s, and this library was built with %d.%d: put that one, or a "
      "later, first in LD_LIBRARY_PATH",
      v.part[0], v.part[1], v.part[2],
      dladdr(reinterpret_cast<void *>(&ucp_get_version), &from) ? from.dli_fname : "?",
      UCP_API_MAJOR, UCP_API_MINOR);
}

struct Sum { // FNV-1a
  uint64_t value = 14695981039346656037u;
  void add(const void *p, size_t n) {
    for (size_t i = 0; i < n; i++)
      value = (value ^ static_cast<const unsigned char *>(p)[i]) * 1099511628211u;
  }
};

// Of the file's first and last page, in which are its build id and its sections, and its size.
uint32_t sum_of_program() {
  Sum sum;
  FILE *file = fopen("/proc/thread-self/exe", "re");
  if (!file) return 0;
  unsigned char text[page];
  sum.add(text, fread(text, 1, sizeof text, file));
  fseek(file, 0, SEEK_END);
  const long size = ftell(file);
  fseek(file, std::max(0l, size - long(sizeof text)), SEEK_SET);
  sum.add(text, fread(text, 1, sizeof text, file));
  fclose(file);
  sum.add(&size, sizeof size);
  return uint32_t(sum.value >> 32);
}

// The value of a variable, as it was given.
const char *setting(const char *name) {
  for (size_t i = 0; i < n_variables; i++)
    if (const Variable &v = variables[i]; !strcmp(v.name, name)) {
      const char *text = env_text(v);
      return text ? text : v.def;
    }
  return "";
}
// Of a file what is in it counts: nodes may have copies, and two of one name may differ. Who takes
// the rows says so when it cannot be read.
uint16_t sum_of_setting(const char *name) {
  Sum sum;
  const char *text = setting(name);
  if (FILE *file = !strcmp(name, "TUNE_FILE") && *text ? fopen(text, "re") : nullptr) {
    char part[page];
    while (const size_t n = fread(part, 1, sizeof part, file)) sum.add(part, n);
    fclose(file);
  } else {
    sum.add(text, strlen(text));
  }
  return uint16_t(sum.value >> 32);
}

// Tells the network of memory that is there and that it does not know yet. what: for a line.
void add(Registered &r, const char *what) {
  if (r.span->size == 0 || r.memory || (r.far && !ucx_knows_gpu)) return;
  ucp_mem_map_params_t m{};
  m.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                 UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  m.address = reinterpret_cast<void *>(r.span->base);
  m.length = r.span->size;
  // Pages that are not touched stay so; of a GPU all are there.
  m.flags = r.far ? 0 : UCP_MEM_MAP_NONBLOCK;
  const ucs_status_t status = ucp_mem_map(context, &m, &r.memory);
  if (status != UCS_OK)
    fatal("the network cannot register %zu bytes of %s on %s: %s: %s", m.length, what,
          bootstrap::host_of(self.me).name, ucs_status_string(status),
          limit_of_registrations().text);
}
const char in_heap[] = "symmetric heap (SHMEM_SYMMETRIC_SIZE)",
           in_device_heap[] = "heap in device memory (SHMEM_DEVICE_SIZE)";
void add_regions() {
  add(registered[heap_region], in_heap);
  add(registered[data_region], "static data");
  add(registered[device_region], in_device_heap);
  add(registered[flags_region], "flags in device memory");
}

void make_worker() {
  // It says in lines of its own, of each PE, what is said here in one; SHMEM_DEBUG shows them.
  if (!getenv("UCX_LOG_LEVEL") && !self.env.debug) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
  check_ucx();
  ucp_config_t *config;
  must(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
  // What the user has not set. Of a transport 1.13 knows it without the prefix, 1.18 and 1.23 with
  // it only; 1.13 and 1.18 take any name, and do not say which they know.
  auto prefer = [&](const std::string &transport, const std::string &name, const char *value) {
    if (getenv(("UCX_" + transport + name).c_str())) return;
    for (const std::string &known : {name, transport + name})
      ucp_config_modify(config, known.c_str(), value);
  };
  // A connect that waits would do so under the lock, two minutes where a firewall swallows it
  // (UCX 1.13, 2026-11-23).
  prefer("TCP_", "CONN_NB", "y");
  // Over tcp UCX moves all by fragments, of 8 KiB, and answers those of puts one by one. A put of
  // 1 MiB takes 652 us by those, 418 of 16 KiB, 289 of 32 KiB, and of 64 KiB 214, but 610 for one
  // in ten. One holds the largest message that is not asked for, with what is before it: UCX puts
  // several together at the target, and then a put of 32 KiB takes 14 us for 12, and collectives up
  // to 5% more (2 cores, 2026-11-25).
  prefer("TCP_", "TX_SEG_SIZE", std::to_string(eager_bytes + (2 << 10)).c_str());
  // A copy by ROCm's engines may go to another address: where the host's buffer lies in a block
  // that was locked before, and is as long as it, UCX takes the block's beginning
  // (uct_rocm_copy_ep_zcopy of 1.18.1: 4 bytes before a put's data, which were its memory's type;
  // 2026-11-23). So the processor copies, and a network card as before.
  prefer("ROCM_COPY_", "D2H_THRESH", "inf");
  prefer("ROCM_COPY_", "H2D_THRESH", "inf");
  // With question and answer, from 16 KiB on as UCX has it over tcp, a sum of 256 KiB on 4 nodes of
  // 2 PEs takes 0.8 ms, and 0.6 so; a broadcast 390 us, and 300 (2 cores, 2026-11-24).
  prefer("", "RNDV_THRESH", std::to_string(eager_bytes + 1).c_str());
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = size_t(self.n);
  auto made = [](ucs_status_t status) {
    if (status != UCS_OK)
      fatal("UCX has no network on %s: %s: %s choose it, and shmem_info shows what there is",
            bootstrap::host_of(self.me).name, ucs_status_string(status), ways().text);
  };
  made(ucp_init(&params, config, &context));
  ucp_config_release(config);
  ucp_worker_params_t w{};
  w.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  w.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  made(ucp_worker_create(context, &w, &worker));
  listen();
  const Span *const spans[regions] = {&heaps[0].kept, &self.data, &heaps[1].kept, &self.flags};
  for (int i = 0; i < regions; i++) registered[i].span = spans[i];
  heaps[0].open(self.heap, self.heap_kept);
  add_regions();
}

void show_address() {
  ucp_worker_attr_t attr{};
  attr.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
  if (self.env.p2p == Env::mapped) { // what is on this node is mapped
    attr.field_mask |= UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attr.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
  }
  must(ucp_worker_query(worker, &attr), "ucp_worker_query");
  debug("UCX: an address of %zu bytes", attr.address_length);
  mine.library = library_version();
  mine.ucx = ucx_version();
  mine.heap = uint32_t(self.heap_kept / page);
  mine.upto = uint32_t(self.heap.size / page);
  mine.data = uint32_t(self.data.size / page);
  mine.program = sum_of_program();
  for (size_t i = 0; i < std::size(common); i++) mine.settings[i] = sum_of_setting(common[i]);
  mine.first = self.node_first;
  mine.length = uint16_t(attr.address_length);
  const size_t length = std::min(attr.address_length, sizeof mine.address);
  memcpy(mine.address, attr.address, length);
  bootstrap::show(&mine, sizeof mine, reinterpret_cast<const char *>(attr.address) + length,
                  attr.address_length - length);
  ucp_worker_release_address(worker, attr.address);
}

// Every node's first PE reads all, so each pair that differs is met by both sides.
void compare(int pe, const Entry &e) {
  auto differ = [=] { return with_host(pe); };
  static const Text us = print("this PE, on %s,", bootstrap::host_of(self.me).name);
  auto versions = [&](const char *what, Version theirs, Version ours) {
    if (theirs == ours) return;
    fatal("%s, has %s %d.%d.%d, %s %d.%d.%d: all nodes need the same", differ().text, what,
          theirs.part[0], theirs.part[1], theirs.part[2], us.text, ours.part[0], ours.part[1],
          ours.part[2]);
  };
  if (e.first != mine.first) { // the segment tells those of this node
    versions("libshmem", e.library, mine.library);
    versions("UCX", e.ucx, mine.ucx);
  }
  if (e.data != mine.data || e.program != mine.program)
    fatal("%s, runs another program than %s or another build of it (static data of %zu and %zu "
          "bytes): all PEs must run the same one",
          differ().text, us.text, e.data * page, mine.data * page);
  if (e.heap != mine.heap)
    fatal(
        "%s, has a symmetric heap of %zu bytes, %s one of %zu: nodes have other settings or other "
        "amounts of memory: set SHMEM_SYMMETRIC_SIZE",
        differ().text, e.heap * page, us.text, mine.heap * page);
  for (size_t i = 0; i < std::size(common); i++)
    if (e.settings[i] != mine.settings[i])
      fatal("%s, has another SHMEM_%s than %s where it is \"%s\": all nodes need the same",
            differ().text, common[i], us.text, setting(common[i]));
}

int read_book() { // gives the number of nodes
  const Entry *all = book();
  int nodes = 0;
  self.job->heap_pages = mine.upto;
  bootstrap::seen(book(), sizeof(Entry), self.n);
  for (int pe = 0; pe < self.n; pe++) {
    Entry &e = book()[pe];
    e.node = e.first == pe ? nodes++ : all[e.first].node;
    compare(pe, e);
    self.job->heap_pages = std::min(self.job->heap_pages, e.upto);
  }
  return nodes;
}

} // namespace

void open() {
  if (self.one_node()) return;
  peers = static_cast<Peer *>(calloc(size_t(self.n), sizeof(Peer)));
  if (!peers) fatal("no memory for %d peers", self.n);
  make_worker();
  show_address();
  // A PE may have ended before. Of one on another node the launcher says nothing.
  const double start = shmemx_wtime();
  for (bool told = false; !bootstrap::shown(); check_started())
    if (self.me == 0 && !told && (told = shmemx_wtime() - start >= self.env.net_timeout))
      say("shmem_init has waited for %g seconds (SHMEM_NET_TIMEOUT) for PEs of other nodes, and "
          "goes "
          "on: have all of them called it?",
          self.env.net_timeout);
  auto &known = self.job->nodes;
  if (self.local == 0) known.store(uint32_t(read_book()), std::memory_order_release);
  for (unsigned i = 1; !known.load(std::memory_order_acquire); i++) {
    usleep(100);
    if (i % 5000 == 0) check_started();
  }
  // A heap that grows does so as far as memory goes on every node.
  self.heap.size = size_t(self.job->heap_pages) * page;
  heaps[0].open(self.heap, self.heap_kept);
}

void open_device(bool near) {
  if (!worker) return;
  ucp_context_attr_t attr{};
  attr.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  must(ucp_context_query(context, &attr), "ucp_context_query");
  std::lock_guard guard(lock);
  const uint64_t gpu = uint64_t(1) << UCS_MEMORY_TYPE_ROCM | uint64_t(1) << UCS_MEMORY_TYPE_CUDA;
  ucx_knows_gpu = attr.memory_types & gpu;
  registered[device_region].far = registered[flags_region].far = !near;
  heaps[1].open(self.device, self.device_kept);
  add_regions();
  debug("device memory goes between nodes %s",
        near            ? "as host memory does"
        : ucx_knows_gpu ? "by UCX, which knows it"
                        : "by way of host memory: this UCX knows no GPU");
}

namespace {

// Under the lock: what comes later than the regions, and goes before the end.
void open_part(Registered &r, const Span *span, bool device, const char *what) {
  r.span = span;
  r.far = device && registered[device_region].far;
  r.theirs = static_cast<TheirPart *>(calloc(size_t(self.n), sizeof *r.theirs));
  if (!r.theirs) fatal("no memory for the keys of %d peers to %s", self.n, what);
  add(r, what);
}
void close_part(Registered &r) {
  for (int pe = 0; pe < self.n; pe++)
    if (r.theirs[pe].key) ucp_rkey_destroy(r.theirs[pe].key);
  free(r.theirs);
  if (r.memory) must(ucp_mem_unmap(context, r.memory), "ucp_mem_unmap");
  r = {};
}

} // namespace

void open_buffer(int place, const Span &bytes, bool device) {
  std::lock_guard guard(lock);
  open_part(registered[regions + place], &bytes, device, "a buffer of the program's own");
}
void close_buffer(int place) {
  std::lock_guard guard(lock);
  close_part(registered[regions + place]);
}

void open_chunk(bool device, size_t from, size_t to) {
  Heap &heap = heaps[device];
  const size_t first = (from - heap.kept.size) / heap.unit,
               last = (to - 1 - heap.kept.size) / heap.unit;
  std::lock_guard guard(lock);
  open_part(registered[chunks + size_t(device) * most_units + first],
            new Span{heap.kept.base + from, to - from}, device, device ? in_device_heap : in_heap);
  for (size_t i = first; i <= last; i++)
    heap.first[i].store(uint16_t(first + 1), std::memory_order_relaxed);
}
void close_chunk(bool device, size_t from) {
  Heap &heap = heaps[device];
  const size_t first = (from - heap.kept.size) / heap.unit;
  std::lock_guard guard(lock);
  Registered &r = registered[chunks + size_t(device) * most_units + first];
  const Span *const span = r.span;
  close_part(r);
  delete span;
  for (size_t i = first; i < most_units && heap.first[i] == first + 1; i++)
    heap.first[i].store(0, std::memory_order_relaxed);
}

void start() {
  if (!worker) return;
  leaving = stopping = false;
  answering.fd = eventfd(0, EFD_CLOEXEC);
  if (int error = start_thread(&server, serve))
    fatal("starting the thread that answers other nodes: %s", strerror(error));
}

void leave() {
  leaving = true;
}

void stop() {
  if (!worker) return;
  // The messages of the last barrier are out.
  std::atomic<int> count{0};
  {
    std::lock_guard guard(lock);
    const ucp_request_param_t p = counted(&count);
    began(ucp_worker_flush_nbx(worker, &p), &count, "ucp_worker_flush");
  }
  wait_for([&] { return count.load(std::memory_order_acquire) != 0; });
  drop_copies();
  stopping = true;
  wake();
  pthread_join(server, nullptr);
  close(answering.fd);
}

} // namespace shmem::net

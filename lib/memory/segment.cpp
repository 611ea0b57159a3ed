// SPDX-License-Identifier: MIT
#include "segment.hpp"
#include "../exit.hpp"
#include "../log.hpp"
#include "../net.hpp"
#include "../rendezvous.hpp"
#include "../state.hpp"
#include "../team.hpp"
#include "limit.hpp"
#include "map_lazily.hpp"
#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <hwloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shmem::segment {

namespace {

constexpr uint64_t magic = 0x73686d656d313601; // "shmem16" and the layout's version

char *window; // where the segment is mapped

// What the leader tells each PE of the node beside the descriptors.
struct Welcome {
  int n;
  size_t heap_kept, heap, data; // bytes of each PE
};

[[gnu::format(printf, 1, 2)]] std::string line(const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return text;
}

// The heap of each PE. A size that the user asked for is taken or refused (0, and why); the default
// gives way to the number of PEs.
size_t heap_bytes(int n, std::string *why) {
  size_t limit = memory_limit(), asked = round_up(self.env.symmetric_size, page);
  if (asked <= limit / n) return asked;
  const char *text = env_text("SYMMETRIC_SIZE");
  if (!text) return limit / 2 / n & ~(page - 1);
  *why = line("SHMEM_SYMMETRIC_SIZE = \"%s\": %d PEs would need %.1f GiB, but this node has %.1f "
              "GiB: ask for at most %zum a PE, or run fewer PEs here",
              text, n, double(asked) * n / (1 << 30), double(limit) / (1 << 30), limit / n >> 20);
  return 0;
}

// What the heap of each PE may grow to, from so many bytes: the same where it does not. The file is
// sparse, so address space is all that this takes at the start.
size_t grown_bytes(const bootstrap::Place &place, size_t heap) {
  if (self.env.heap_grow != Env::of_both) return heap;
  const size_t n = size_t(place.n_local), fits = memory_limit() / size_t(place.machine),
               asked = self.env.symmetric_max ? self.env.symmetric_max : fits,
               bytes = std::max(heap, std::min(asked, fits) & ~(page - 1));
  for (auto kind : {RLIMIT_AS, RLIMIT_FSIZE}) {
    rlimit limit;
    // Half of it is for the program's own.
    if (getrlimit(kind, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur / 2 < n * bytes) {
      debug(
          "SHMEM_HEAP_GROW: the heap stays as it is: %zu PEs would map %zu bytes each, but ulimit "
          "-%c is %zu bytes",
          n, bytes, kind == RLIMIT_AS ? 'v' : 'f', size_t(limit.rlim_cur));
      return heap;
    }
  }
  return bytes;
}

// A processor keeps the places of pages in a table, and finds one by the low bits of its address.
// The same object in two PEs must not have these bits in common, so their parts lie an odd number
// of these steps apart. Alltoall of 2 MiB by 2 PEs of an EPYC (Zen 4, pages of 4 KiB) took 130 us
// with parts a multiple of 4 MiB apart, and takes 110 so (2026-11-22).
constexpr size_t stagger = 2 << 20;

// Where the parts of the segment lie, for heaps of so many bytes.
struct SegmentLayout {
  size_t slots, teams, addresses, parts, part_bytes, bytes;
};
SegmentLayout layout(int n, size_t heap) {
  SegmentLayout s;
  s.slots = round_up(sizeof(Job), page);
  s.teams = s.slots + round_up(size_t(n) * sizeof(Slot), page);
  // The addresses of the PEs of all nodes, once for each node.
  s.addresses = s.teams + round_up(n_shares * share_bytes(n), page);
  s.parts = round_up(s.addresses + net::address_table_bytes(), stagger);
  s.part_bytes = round_up(heap + data::extent().bytes, 2 * stagger) + stagger;
  s.bytes = s.parts + size_t(n) * s.part_bytes;
  return s;
}

std::string unmappable(size_t bytes, int error) {
  return line("mapping %zu bytes of symmetric memory: %s: lower SHMEM_SYMMETRIC_SIZE or lift the "
              "limit on address space (ulimit -v)",
              bytes, strerror(error));
}
// Beyond the limit the kernel sends SIGXFSZ, which ends the PE without a word.
std::string beyond_files(size_t bytes) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur >= bytes) return {};
  return line("making %zu bytes of symmetric memory: files may have at most %zu: lower "
              "SHMEM_SYMMETRIC_SIZE or lift the limit on the size of files (ulimit -f)",
              bytes, size_t(limit.rlim_cur));
}
// The memory is reserved larger than needed, for the alignment.
void *reserve(size_t bytes) {
  return mmap(nullptr, bytes + max_align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
              -1, 0);
}

// Own symmetric memory, `mine` bytes behind the start, comes to lie on a multiple of max_align.
void map(size_t mine) {
  // The segment goes over the middle of it.
  size_t room = self.job_bytes + max_align;
  void *p = reserve(self.job_bytes);
  if (p != MAP_FAILED) {
    auto from = uintptr_t(p), at = round_up(from + mine, max_align) - mine,
         end = at + self.job_bytes;
    if (at > from) munmap(p, at - from);
    if (end < from + room) munmap(reinterpret_cast<void *>(end), from + room - end);
    p = map_lazily(reinterpret_cast<void *>(at), self.job_bytes,
                   MAP_SHARED | MAP_FIXED | MAP_NORESERVE, self.segment_fd, 0);
  }
  if (p == MAP_FAILED) fatal("%s", unmappable(self.job_bytes, errno).c_str());
  window = static_cast<char *>(p);
}

void create(int n, size_t mine, size_t bytes) {
  if (const std::string why = beyond_files(bytes); !why.empty()) fatal("%s", why.c_str());
  self.segment_fd = memfd_create("shmem", MFD_CLOEXEC);
  int ends[2];
  if (self.segment_fd < 0 || ftruncate(self.segment_fd, off_t(bytes)) < 0 ||
      pipe2(ends, O_CLOEXEC) < 0)
    fatal("making %zu bytes of symmetric memory: %s", bytes, strerror(errno));
  self.pipe_read = ends[0];
  self.pipe_write = ends[1];
  map(mine);
  Job *job = reinterpret_cast<Job *>(window);
  job->n = n;
  job->magic = magic;
}

// Asks that the pages of this PE's part come from the memory nearest to the cores that it may run
// on, whoever touches them first.
void place_near(void *start, size_t bytes) {
  // Reading the topology takes milliseconds, so it is not read on a machine that has nothing to
  // choose.
  if (access("/sys/devices/system/node/node1", F_OK) != 0) return;
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) < 0) return;
  hwloc_bitmap_t cores = hwloc_bitmap_alloc(), nodes = hwloc_bitmap_alloc();
  if (hwloc_topology_load(topology) == 0 &&
      hwloc_get_cpubind(topology, cores, HWLOC_CPUBIND_PROCESS) == 0) {
    hwloc_cpuset_to_nodeset(topology, cores, nodes);
    // Not strictly: a full node spills over, and does not kill the program.
    if (hwloc_set_area_membind(topology, start, bytes, nodes, HWLOC_MEMBIND_BIND,
                               HWLOC_MEMBIND_BYNODESET) < 0)
      debug("NUMA binding refused; pages lie where they are touched first");
  }
  hwloc_bitmap_free(nodes);
  hwloc_bitmap_free(cores);
  hwloc_topology_destroy(topology);
}

} // namespace

std::string obstacle(const bootstrap::Place &place) {
  std::string why;
  const size_t kept = heap_bytes(place.machine, &why);
  if (!why.empty()) return why;
  const size_t bytes = layout(place.n_local, grown_bytes(place, kept)).bytes;
  if (place.local == 0) why = beyond_files(bytes);
  if (!why.empty()) return why;
  void *const p = reserve(bytes);
  if (p == MAP_FAILED) return unmappable(bytes, errno);
  munmap(p, bytes + max_align);
  return {};
}

void join(const bootstrap::Place &place) {
  const int n = place.n_local;
  data::DataExtent data = data::extent();
  SegmentLayout at;
  size_t mine_at;
  const auto lay_out = [&](size_t heap) {
    at = layout(n, heap);
    self.part_start = at.parts, self.part_bytes = at.part_bytes, self.job_bytes = at.bytes;
    mine_at = at.parts + size_t(place.local) * at.part_bytes;
  };
  size_t heap;
  if (place.local == 0) {
    std::string why;
    self.heap_kept = heap_bytes(place.machine, &why);
    if (!why.empty()) fatal_all("%s", why.c_str());
    heap = grown_bytes(place, self.heap_kept);
    lay_out(heap);
    create(n, mine_at, self.job_bytes);
    const Welcome w{n, self.heap_kept, heap, data.bytes};
    const int fds[] = {self.segment_fd, self.pipe_read, self.pipe_write};
    if (n > 1) rendezvous::lead(place, &w, sizeof w, fds);
  } else {
    Welcome w;
    int fds[rendezvous::shared];
    while (!rendezvous::follow(place, &w, sizeof w, fds)) check_started();
    if (w.n != n)
      fatal("the launcher says that this node has %d PEs, and %d to the node's first PE", n, w.n);
    if (w.data != data.bytes)
      fatal("static data of %zu bytes, but %zu in the node's first PE: all PEs must run the same "
            "program",
            data.bytes, w.data);
    self.heap_kept = w.heap_kept;
    heap = w.heap;
    self.segment_fd = fds[0];
    self.pipe_read = fds[1];
    self.pipe_write = fds[2];
    lay_out(heap);
    map(mine_at);
    const Job *job = reinterpret_cast<Job *>(window);
    if (job->magic != magic || job->n != n)
      fatal("the node's first PE runs another version of this library");
  }
  self.job = reinterpret_cast<Job *>(window);
  self.slots = reinterpret_cast<Slot *>(window + at.slots);
  self.shares = reinterpret_cast<std::byte *>(window + at.teams);
  self.address_table = window + at.addresses;
  madvise(window, at.teams, MADV_DODUMP); // what a reader of a dump asks first

  // The part of local PE i lies i * part_bytes behind that of local PE 0, heap first, then static
  // data.
  auto *data_delta = new uintptr_t[size_t(n)], *heap_delta = new uintptr_t[size_t(n)];
  char *mine = window + mine_at;
  for (int i = 0; i < n; i++) {
    heap_delta[i] = uintptr_t(i - place.local) * self.part_bytes;
    data_delta[i] =
        i == place.local ? 0 : uintptr_t(mine) + heap + heap_delta[i] - uintptr_t(data.base);
  }
  self.heap = {{uintptr_t(mine), heap}, heap_delta};
  self.data = {{uintptr_t(data.base), data.bytes}, data_delta};
  data::move(self.segment_fd, size_t(mine - window) + heap);
  place_near(mine, self.part_bytes);
  debug("heap of %zu bytes, up to %zu, at %p, static data of %zu bytes at %p", self.heap_kept, heap,
        static_cast<void *>(mine), data.bytes, static_cast<void *>(data.base));
}

void leave() {
  data::move_back();
  munmap(window, self.job_bytes);
  for (int fd : {self.segment_fd, self.pipe_read, self.pipe_write}) close(fd);
  delete[] self.heap.delta;
  delete[] self.data.delta;
}

void dump_heap(size_t from, size_t to) {
  madvise(reinterpret_cast<void *>(self.heap.base + from), to - from, MADV_DODUMP);
}

void drop_heap(size_t offset, size_t bytes) {
  // A hole in the file, whoever has it mapped. UCX hears of this call, and forgets what it knows of
  // these pages; of fallocate it does not.
  if (bytes) madvise(reinterpret_cast<void *>(self.heap.base + offset), bytes, MADV_REMOVE);
}

} // namespace shmem::segment

// SPDX-License-Identifier: MIT
// The pages of a buffer in host memory are moved, in place, to a file that the other PEs map, as
// those of static data are. In that file a page lies at its own address, so buffers that share a
// page share it there, too, and nothing is to be allocated: a file takes memory where it has pages.
#include "../address.hpp"
#include "../descriptors.hpp"
#include "../gpu/buffer.hpp"
#include "../gpu/choice.hpp"
#include "../gpu/heap.hpp"
#include "../gpu/publish.hpp"
#include "../net.hpp"
#include "../order.hpp"
#include "buffer.hpp"
#include "heap.hpp"
#include "map_lazily.hpp"
#include "segment.hpp"
#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <pthread.h>
#include <shmemx.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <vector>

namespace shmem::buffer {

namespace {

std::mutex mutex;    // of all that registers; look-ups take none
uint64_t registered; // ever: handles are not used again

// A forked child gets a copy of its own, or it would store into the parent's pages: the edges of a
// buffer hold the neighbours' memory, malloc's own included.
struct ForkCopy {
  Interval of;
  char *at;
};
struct {
  int fd = -1;
  struct stat stat; // the file is still mapped when the program has closed the descriptor
  bool fork_seen;   // the handlers are there
  std::vector<ForkCopy> copies;
} file;

// Calls f(range, readable, writable and private, whether it is of the file, path) for each mapping
// that meets `in`, ascending. The loop ends at the first mapping above `in`. There are the peers'
// pages, as a rule: 7,000 lines for 1,024 buffers of 8 PEs. Registering these took 31 s with all
// lines, and 1.3 s without (4 cores, 2026-11-23).
template <class F> void each_mapping(const Interval &in, F f) {
  FILE *maps = fopen("/proc/thread-self/maps", "re");
  if (!maps) fatal("/proc/thread-self/maps: %s", strerror(errno));
  const bool any = file.fd >= 0;
  char text[4608];
  while (fgets(text, sizeof text, maps)) {
    char *rest;
    Interval r;
    r.from = strtoul(text, &rest, 16);
    if (r.from >= in.to) break;
    r.to = strtoul(rest + 1, &rest, 16);
    if (!r.meets(in)) continue;
    char access[5], path[4096] = "";
    unsigned major, minor;
    unsigned long inode;
    if (sscanf(rest, "%4s %*s %x:%x %lu %4095s", access, &major, &minor, &inode, path) < 4)
      continue;
    const bool ours = any && inode == file.stat.st_ino && makedev(major, minor) == file.stat.st_dev;
    f(Interval{std::max(r.from, in.from), std::min(r.to, in.to)}, access, ours, path);
  }
  fclose(maps);
}

// The pages of b that no other buffer has: what has to be moved, or given back.
Interval alone(const Buffer &b) {
  Interval r = b.pages();
  for (const Buffer &other : buffers) {
    if (!other.handle || &other == &b) continue;
    const Interval o = other.pages();
    if (o.from <= r.from && r.from < o.to) r.from = o.to;
    if (o.from < r.to && r.to <= o.to) r.to = o.from;
  }
  return r;
}

// Ends the program where the pages cannot be moved.
void check_pages(const char *fn, const void *ptr, const Buffer &b) {
  const Interval all = b.pages();
  uintptr_t next = all.from;
  const int here = 0;
  each_mapping(all, [&](const Interval &r, const char *access, bool ours, const char *path) {
    const auto refuse = [&](const char *why) {
      fatal("%s: ptr = %p: the memory at 0x%" PRIxPTR " %s", fn, ptr, r.from, why);
    };
    // CUDA keeps the addresses of what is freed, with no right to them, as everybody may.
    if (r.from != next || !strncmp(access, "---", 3))
      fatal("%s: ptr = %p: there is no memory at 0x%" PRIxPTR ": freed already?", fn, ptr, next);
    next = r.to;
    if (access[0] != 'r' || access[1] != 'w') refuse("cannot be written to");
    if (access[3] == 's' && !ours) refuse("is shared with another process or a device already");
    if (!strcmp(path, "[stack]") || r.meets({uintptr_t(&here), uintptr_t(&here) + 1}))
      refuse("is a stack");
  });
  if (next != all.to)
    fatal("%s: ptr = %p: there is no memory at 0x%" PRIxPTR ": freed already?", fn, ptr, next);
}

void before_fork() {
  mutex.lock();
  each_mapping({0, ~uintptr_t(0)}, [&](const Interval &r, const char *, bool ours, const char *) {
    if (!ours) return;
    const size_t bytes = r.to - r.from;
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
      return say("fork: no memory for a copy of a buffer: the child will share it");
    if (data::same_file(file.fd, file.stat))
      data::read_pages(file.fd, off_t(r.from), static_cast<char *>(p), bytes);
    else
      data::copy_pages(r.from, static_cast<char *>(p), bytes);
    file.copies.push_back({r, static_cast<char *>(p)});
  });
}
void after_fork_parent() {
  for (const ForkCopy &c : file.copies) munmap(c.at, c.of.to - c.of.from);
  file.copies.clear();
  mutex.unlock();
}
void after_fork_child() {
  for (const ForkCopy &c : file.copies)
    syscall(SYS_mremap, c.at, c.of.to - c.of.from, c.of.to - c.of.from,
            MREMAP_MAYMOVE | MREMAP_FIXED, c.of.from);
  file.copies.clear();
  mutex.unlock();
}

void open_file(const char *fn) {
  if (file.fd >= 0 && !data::same_file(file.fd, file.stat))
    fatal("%s: the program has closed descriptor %d, which is the library's (by close_range?): no "
          "further buffers can be registered",
          fn, file.fd);
  if (file.fd >= 0) return;
  file.fd = memfd_create("shmem_buffers", MFD_CLOEXEC);
  // As long as there are addresses.
  if (file.fd < 0 || ftruncate(file.fd, off_t(1) << 47) < 0)
    fatal("making a file for the program's own buffers: %s", strerror(errno));
  fstat(file.fd, &file.stat);
  if (!file.fork_seen) pthread_atfork(before_fork, after_fork_parent, after_fork_child);
  file.fork_seen = true;
}

// Makes these pages private again, without those that the program has unmapped, or mapped anew.
void give_back(const Interval &r) {
  std::vector<Interval> left;
  each_mapping(r, [&](const Interval &part, const char *, bool ours, const char *) {
    if (ours) left.push_back(part);
  });
  for (const Interval &part : left) data::move_back(file.fd, off_t(part.from), part.from, part.to);
  fallocate(file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(r.from),
            off_t(r.to - r.from));
}

// Publishes a change to look-ups of the host, of the network and of kernels. The table is the
// truth. All other copies of a buffer's range are made here, from it:
//
//   buffers[index].region --+-- index_addresses  sorted: base, end, index; read by find
//     .delta, .row          |
//                           +-- net              registered: points to the region, has keys
//                           |
//                           +-- gpu::show_buffers, of those in device memory:
//                                 rows     the deltas, by index; c_row of products points there
//                                 tables   base, size and deltas, ascending; read by kernels
//                                 State    units and deltas of the first four, up to 64 PEs
//
// comes: the buffer is new, else it has no handle any more.
void publish(const Buffer &b, bool comes) {
  const int index = b.region.index;
  if (!self.one_node() && comes) net::open_buffer(index, b.region, b.device);
  if (!self.one_node() && !comes) net::close_buffer(index);
  const std::vector<int> on_gpu = index_addresses();
  if (b.device) gpu::show_buffers(on_gpu, comes ? index : -1);
}

void remove(Buffer &b) {
  for (const Interval &r : b.mapped) munmap(reinterpret_cast<void *>(r.from), r.to - r.from);
  for (int i = 0; b.device && i < b.team->n; i++)
    if (i != b.team->me) gpu::close_memory(b.team->pe(i), b.bases[size_t(i)]);
  sync(*b.team); // nobody has it mapped
  b.handle = 0;
  publish(b, false);
  if (const Interval r = alone(b); !b.device && r.from < r.to) give_back(r);
  b.team->buffers--;
  b.mapped.clear();
}

// What was stored before is there, once all have met.
void finish_own() {
  full_fence();
  if (self.careful) finish();
}

// All members have all values, so one of them prints the line. Members wait here for each other.
struct Seen {
  uint64_t value; // that must be the same on all members
  uintptr_t base;
  bool device;
  gpu::Exported memory; // of a buffer there
  uint64_t registered;
  std::bitset<most> taken; // the indices in `buffers`
};
std::vector<Seen> meet(const char *fn, const char *arg, Team &t, const Seen &mine) {
  std::vector<Seen> all(size_t(t.n));
  exchange_value(t, mine, [&](int i, const Seen &s) { all[size_t(i)] = s; });
  for (int i = 1; i < t.n; i++)
    if (all[size_t(i)].value != all[0].value)
      fatal_team(t.pe(0), "%s: %s = %zu on PE %d, but %zu on PE %d: all PEs must call it alike", fn,
                 arg, size_t(all[0].value), t.pe(0), size_t(all[size_t(i)].value), t.pe(i));
  return all;
}

// Ends the program where these bytes cannot become a buffer on this PE.
void check_bytes(const char *fn, const void *ptr, size_t bytes) {
  if (!ptr) fatal("%s: ptr = NULL: not a buffer", fn);
  if (bytes == 0 || bytes > (size_t(1) << 47) - uintptr_t(ptr))
    fatal("%s: bytes = %zu: not the size of a buffer", fn, bytes);
  const Interval mine{uintptr_t(ptr), uintptr_t(ptr) + bytes};
  const auto meets = [&](uintptr_t base, size_t size) { return mine.meets({base, base + size}); };
  if (meets(uintptr_t(self.job), self.job_bytes) || meets(self.data.base, self.data.size) ||
      meets(self.device.base, self.device.size))
    fatal("%s: ptr = %p: %zu bytes from there meet what is symmetric already, on the heap or as "
          "static data",
          fn, ptr, bytes);
  for (const Buffer &b : buffers)
    if (b.handle && mine.meets(b.bytes()))
      fatal("%s: ptr = %p: %zu bytes from there overlap the buffer of %zu bytes at 0x%" PRIxPTR, fn,
            ptr, bytes, b.region.size, b.region.base);
}

// What this PE shows the others. Pages of the host are in the file then.
Seen prepare(const char *fn, void *ptr, const Buffer &b) {
  const size_t bytes = b.region.size;
  Seen seen{bytes, b.region.base, false, {}, registered, {}};
  for (size_t i = 0; i < most; i++) seen.taken[i] = buffers[i].handle;
  if (gpu::foreign_device(ptr) >= 0)
    fatal("%s: ptr = %p: memory of a GPU, and there is no symmetric heap in device memory: %s", fn,
          ptr, gpu::missing());
  seen.device = gpu::has_memory(fn, ptr, bytes, &seen.memory);
  if (seen.device) return seen;
  // The GPU would go on with pages that nobody else uses.
  if (gpu::has_pages(ptr) || gpu::has_pages(static_cast<char *>(ptr) + bytes - 1))
    fatal(
        "%s: ptr = %p: a GPU has these pages of the host, by hipHostRegister, hipMallocManaged or "
        "their like: use shmem_malloc, or register first and pin then",
        fn, ptr);
  check_pages(fn, ptr, b);
  open_file(fn);
  if (const Interval r = alone(b); r.from < r.to)
    data::move_pages(file.fd, off_t(r.from), r.from, r.to);
  return seen;
}

// Ends the program where the members have different kinds of memory.
void check_alike(const char *fn, const Team &t, const std::vector<Seen> &all) {
  const Seen &first = all[0];
  for (int i = 1; i < t.n; i++) {
    const Seen &s = all[size_t(i)];
    if (s.device != first.device)
      fatal_team(t.pe(0),
                 "%s: ptr is in %s memory on PE %d, but not on PE %d: all PEs must call it alike",
                 fn, first.device ? "device" : "host", t.pe(0), t.pe(i));
    // As the heap's objects do, which collectives of kernels and streams move by 16 bytes.
    if (s.device && (s.base ^ first.base) % 16)
      fatal_team(
          t.pe(0),
          "%s: ptr lies %zu bytes behind a multiple of 16 on PE %d, but %zu on PE %d: device "
          "memory has to lie alike",
          fn, size_t(first.base % 16), t.pe(0), size_t(s.base % 16), t.pe(i));
  }
}

// Maps what a member on this node has: the delta to it, tagged as kernels have it.
uintptr_t map_memory(const char *fn, int pe, const Seen &theirs, const Buffer &b) {
  const auto at = uintptr_t(gpu::open_memory(fn, pe, theirs.memory));
  const bool coarse = theirs.memory.coarse && !gpu::shares_gpu(local_of(pe));
  return (at + (theirs.base - theirs.memory.base) - b.region.base) | (coarse ? device::coarse : 0);
}
uintptr_t map_pages(const char *fn, int pe, const Seen &theirs, int descriptor, Buffer &b) {
  const size_t bytes = b.region.size;
  const uintptr_t from = theirs.base & ~(page - 1);
  const size_t size = round_up(theirs.base + bytes, page) - from;
  if (descriptor < 0)
    fatal("%s: the descriptor of PE %d's buffer has not come: is the limit of open files (ulimit "
          "-n) reached?",
          fn, pe);
  void *p = map_lazily(nullptr, size, MAP_SHARED | MAP_NORESERVE, descriptor, off_t(from));
  if (p == MAP_FAILED)
    fatal("%s: mapping the %zu bytes of PE %d: %s", fn, bytes, pe, strerror(errno));
  close(descriptor);
  b.mapped.push_back({uintptr_t(p), uintptr_t(p) + size});
  return uintptr_t(p) + (theirs.base - from) - b.region.base;
}

// Fills what the buffer has of the members.
void map_members(const char *fn, Team &t, const std::vector<Seen> &all, Buffer &b) {
  std::vector<int> files;
  if (!b.device) files = exchange_descriptors(t, file.fd);
  b.delta.assign(size_t(self.n_local), device::outside);
  b.row.assign(b.device ? size_t(self.n) : 0, device::outside);
  for (int i = 0; i < t.n; i++) {
    const Seen &theirs = all[size_t(i)];
    const int pe = t.pe(i), local = local_of(pe);
    b.bases.push_back(theirs.memory.base);
    uintptr_t delta = local < 0 ? device::remote : 0;
    if (local >= 0 && i != t.me)
      delta =
          b.device ? map_memory(fn, pe, theirs, b) : map_pages(fn, pe, theirs, files[size_t(i)], b);
    if (b.device) b.row[size_t(pe)] = delta;
    if (local >= 0) b.delta[size_t(local)] = delta & ~device::coarse;
  }
  b.region.delta = b.delta.data();
  b.region.row = b.device ? b.row.data() : nullptr;
  b.region.team = t.n == self.n ? nullptr : &t;
}

// Members name a buffer to each other by its index, so the index is free on all of them. At
// finalize buffers go in the order of indices: all members come to the same one first.
int common_index(const char *fn, const Team &t, const std::vector<Seen> &all) {
  std::bitset<most> taken;
  for (const Seen &s : all) {
    taken |= s.taken;
    registered = std::max(registered, s.registered);
  }
  int index = 0;
  while (index < most && taken[size_t(index)]) index++;
  if (index == most)
    fatal_team(t.pe(0), "%s: %d buffers are registered, and there is room for no more", fn, most);
  return index;
}

// The GPU is opened for the buffers of all PEs: one of some PEs finds it open.
void open_gpu_for(Team &t, const void *ptr) {
  if (t.n != self.n) return;
  const int device = gpu::foreign_device(ptr);
  bool any = false;
  exchange_value(t, device, [&](int, int theirs) { any |= theirs >= 0; });
  if (any) open_device_heap(device);
}

void add(const char *fn, shmem_team_t team, void *ptr, size_t bytes, shmemx_buffer_t *handle) {
  Team &t = need_team(fn, "team", team);
  if (!handle) fatal("%s: handle = NULL", fn);
  std::lock_guard guard(mutex);
  if (gpu::may_open()) open_gpu_for(t, ptr);
  check_bytes(fn, ptr, bytes);
  Buffer b{};
  b.region = {{uintptr_t(ptr), bytes}, nullptr};
  b.team = &t;
  const Seen mine = prepare(fn, ptr, b);
  b.device = mine.device;
  const std::vector<Seen> all = meet(fn, "bytes", t, mine);
  check_alike(fn, t, all);
  map_members(fn, t, all, b);
  const int index = b.region.index = common_index(fn, t, all);
  *handle = b.handle = ++registered << 16 | uint64_t(index);
  Buffer &there = buffers[index];
  std::swap(there, b); // a reader may have found the old entry: it is freed when all have met
  t.buffers++;
  if (there.device) gpu::use();
  publish(there, true);
  finish_own();
  sync(t);
}

void take_away(const char *fn, shmemx_buffer_t handle) {
  check_ready(fn);
  std::lock_guard guard(mutex);
  Buffer &b = buffers[handle % most];
  if (!handle || b.handle != handle)
    fatal("%s: handle = 0x%" PRIx64 ": not of a registered buffer: unregistered already?", fn,
          handle);
  finish_own();
  meet(fn, "handle", *b.team, {handle, 0, false, {}, 0, {}});
  remove(b);
}

} // namespace

void drop_all() {
  std::lock_guard guard(mutex);
  for (Buffer &b : buffers)
    if (b.handle) remove(b);
}

} // namespace shmem::buffer

extern "C" [[gnu::visibility("default")]] void shmemx_buffer_register(void *ptr, size_t bytes,
                                                                      shmemx_buffer_t *handle) {
  shmem::buffer::add(__func__, SHMEM_TEAM_WORLD, ptr, bytes, handle);
}
extern "C" [[gnu::visibility("default")]] void
shmemx_team_buffer_register(shmem_team_t team, void *ptr, size_t bytes, shmemx_buffer_t *handle) {
  shmem::buffer::add(__func__, team, ptr, bytes, handle);
}
extern "C" [[gnu::visibility("default")]] void shmemx_buffer_unregister(shmemx_buffer_t handle) {
  shmem::buffer::take_away(__func__, handle);
}

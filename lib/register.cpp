// SPDX-License-Identifier: MIT
// The pages of a buffer in host memory are moved, in place, to a file that the other PEs map, as
// those of static data are. In that file a page lies at its own address, so buffers that share a
// page share it there, too, and nothing is to be allocated: a file takes memory where it has pages.
#include "../device/map_lazily.hpp"
#include "address.hpp"
#include "buffer.hpp"
#include "descriptors.hpp"
#include "gpu.hpp"
#include "net.hpp"
#include "order.hpp"
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

std::mutex mutex;    // of all that registers; what searches reads `sorted` only
uint64_t registered; // ever: handles are not used again
int fd = -1;         // of the file
struct stat file;    // which is still mapped when the program has closed that
bool fork_seen;      // its handlers are there

// Calls f(range, readable, writable and private, whether it is of the file, path) for each mapping
// that meets `in`, ascending. Nothing is read of what lies above `in`, but for the page of text that
// the kernel writes at a time: the peers' pages are there, as a rule, 7,000 lines of them for 1,024
// buffers of 8 PEs, which took 31 s to register, and 1.3 s since (on 4 cores, 2026-11-23).
template <class F> void each_mapping(const Range &in, F f) {
  FILE *maps = fopen("/proc/thread-self/maps", "re");
  if (!maps) fatal("/proc/thread-self/maps: %s", strerror(errno));
  const bool any = fd >= 0;
  char text[4608];
  while (fgets(text, sizeof text, maps)) {
    char *rest;
    Range r;
    r.from = strtoul(text, &rest, 16);
    if (r.from >= in.to) break;
    r.to = strtoul(rest + 1, &rest, 16);
    if (!r.meets(in)) continue;
    char access[5], path[4096] = "";
    unsigned major, minor;
    unsigned long inode;
    if (sscanf(rest, "%4s %*s %x:%x %lu %4095s", access, &major, &minor, &inode, path) < 4)
      continue;
    const bool ours = any && inode == file.st_ino && makedev(major, minor) == file.st_dev;
    f(Range{std::max(r.from, in.from), std::min(r.to, in.to)}, access, ours, path);
  }
  fclose(maps);
}

// The pages of b that no other buffer has: what has to be moved, or given back.
Range alone(const Buffer &b) {
  Range r = b.pages();
  for (const Buffer &other : buffers) {
    if (!other.handle || &other == &b) continue;
    const Range o = other.pages();
    if (o.from <= r.from && r.from < o.to) r.from = o.to;
    if (o.from < r.to && r.to <= o.to) r.to = o.from;
  }
  return r;
}

// Ends the program where the pages cannot be moved.
void check_pages(const char *fn, const void *ptr, const Buffer &b) {
  const Range all = b.pages();
  uintptr_t next = all.from;
  const int here = 0;
  each_mapping(all, [&](const Range &r, const char *access, bool ours, const char *path) {
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

// A forked child gets a copy of its own, or it would store into the parent's pages: the edges of a
// buffer hold the neighbours' memory, malloc's own included.
struct Copy {
  Range of;
  char *at;
};
std::vector<Copy> copies;

void before_fork() {
  mutex.lock();
  each_mapping({0, ~uintptr_t(0)}, [&](const Range &r, const char *, bool ours, const char *) {
    if (!ours) return;
    const size_t bytes = r.to - r.from;
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
      return say("fork: no memory for a copy of a buffer: the child will share it");
    if (data::same_file(fd, file))
      data::read_pages(fd, off_t(r.from), static_cast<char *>(p), bytes);
    else
      data::copy_pages(r.from, static_cast<char *>(p), bytes);
    copies.push_back({r, static_cast<char *>(p)});
  });
}
void after_fork_parent() {
  for (const Copy &c : copies) munmap(c.at, c.of.to - c.of.from);
  copies.clear();
  mutex.unlock();
}
void after_fork_child() {
  for (const Copy &c : copies)
    syscall(SYS_mremap, c.at, c.of.to - c.of.from, c.of.to - c.of.from,
            MREMAP_MAYMOVE | MREMAP_FIXED, c.of.from);
  copies.clear();
  mutex.unlock();
}

void open_file(const char *fn) {
  if (fd >= 0 && !data::same_file(fd, file))
    fatal("%s: the program has closed descriptor %d, which is the library's (by close_range?): no "
          "further buffers can be registered",
          fn, fd);
  if (fd >= 0) return;
  fd = memfd_create("shmem_buffers", MFD_CLOEXEC);
  // As long as there are addresses.
  if (fd < 0 || ftruncate(fd, off_t(1) << 47) < 0)
    fatal("making a file for the program's own buffers: %s", strerror(errno));
  fstat(fd, &file);
  if (!fork_seen) pthread_atfork(before_fork, after_fork_parent, after_fork_child);
  fork_seen = true;
}

// Back to private memory, but for what the program has unmapped, and perhaps mapped anew, since.
void give_back(const Range &r) {
  std::vector<Range> left;
  each_mapping(r, [&](const Range &part, const char *, bool ours, const char *) {
    if (ours) left.push_back(part);
  });
  for (const Range &part : left) data::move_back(fd, part.from, part.to);
  fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(r.from), off_t(r.to - r.from));
}

// To whom it concerns that it is there now, or is not any more.
void show(const Buffer &b) {
  std::vector<gpu::BufferThere> on_gpu = publish();
  if (b.device) gpu::show_buffers(std::move(on_gpu));
}

void remove(Buffer &b) {
  for (const Range &r : b.mapped) munmap(reinterpret_cast<void *>(r.from), r.to - r.from);
  for (int i = 0; b.device && i < b.team->n; i++)
    if (i != b.team->me) gpu::close_memory(b.team->pe(i), b.bases[size_t(i)]);
  sync(*b.team); // nobody has it mapped
  if (!self.one_node()) net::close_buffer(int(&b - buffers));
  if (const Range r = alone(b); !b.device && r.from < r.to) give_back(r);
  b.handle = 0;
  b.team->buffers--;
  b.mapped.clear();
  show(b);
}

// What was stored before is there, once all have met.
void finish_own() {
  full_fence();
  if (self.careful) finish();
}

// All members have all values, so one line is enough. Those who meet here wait for each other.
struct Seen {
  uint64_t value; // that must be the same on all members
  uintptr_t base;
  bool device;
  gpu::Exported memory; // of a buffer there
  uint64_t registered;
  std::bitset<most> taken; // the places in `buffers`
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

// The buffer has one place on all members, by which they name it to each other, and goes from there
// in one order at finalize: of what is there then, all members come to the first one.
void add(const char *fn, shmem_team_t team, void *ptr, size_t bytes, shmemx_buffer_t *handle) {
  Team &t = need_team(fn, "team", team);
  if (!handle) fatal("%s: handle = NULL", fn);
  if (!ptr) fatal("%s: ptr = NULL: not a buffer", fn);
  if (bytes == 0 || bytes > (size_t(1) << 47) - uintptr_t(ptr))
    fatal("%s: bytes = %zu: not the size of a buffer", fn, bytes);
  std::lock_guard guard(mutex);
  const Range mine{uintptr_t(ptr), uintptr_t(ptr) + bytes};
  const auto meets = [&](uintptr_t base, size_t size) { return mine.meets({base, base + size}); };
  if (meets(uintptr_t(self.job), self.job_bytes) || meets(self.data.base, self.data.size) ||
      meets(self.device.base, self.device.size))
    fatal("%s: ptr = %p: %zu bytes from there meet what is symmetric already, on the heap or as "
          "static data",
          fn, ptr, bytes);
  Seen seen{bytes, mine.from, false, {}, registered, {}};
  for (size_t i = 0; i < most; i++) {
    const Range b = buffers[i].bytes();
    seen.taken[i] = buffers[i].handle;
    if (buffers[i].handle && mine.meets(b))
      fatal("%s: ptr = %p: %zu bytes from there overlap the buffer of %zu bytes at 0x%" PRIxPTR, fn,
            ptr, bytes, b.to - b.from, b.from);
  }
  seen.device = gpu::has_memory(fn, ptr, bytes, &seen.memory);
  // It would go on with pages that nobody else uses.
  if (!seen.device && (gpu::has_pages(ptr) || gpu::has_pages(static_cast<char *>(ptr) + bytes - 1)))
    fatal(
        "%s: ptr = %p: a GPU has these pages of the host, by hipHostRegister, hipMallocManaged or "
        "their like: use shmem_malloc, or register first and pin then",
        fn, ptr);
  Buffer b{};
  b.region = {{mine.from, bytes}, nullptr};
  b.team = &t;
  b.device = seen.device;
  if (!b.device) {
    check_pages(fn, ptr, b);
    open_file(fn);
    if (const Range r = alone(b); r.from < r.to) data::move_pages(fd, off_t(r.from), r.from, r.to);
  }

  const std::vector<Seen> all = meet(fn, "bytes", t, seen);
  for (int i = 1; i < t.n; i++)
    if (all[size_t(i)].device != all[0].device)
      fatal_team(t.pe(0),
                 "%s: ptr is in %s memory on PE %d, but not on PE %d: all PEs must call it alike",
                 fn, all[0].device ? "device" : "host", t.pe(0), t.pe(i));
  // As the heap's objects do, which collectives of kernels and streams move by 16 bytes.
  for (int i = 1; i < t.n && b.device; i++)
    if ((all[size_t(i)].base ^ all[0].base) % 16)
      fatal_team(
          t.pe(0),
          "%s: ptr lies %zu bytes behind a multiple of 16 on PE %d, but %zu on PE %d: device "
          "memory has to lie alike",
          fn, size_t(all[0].base % 16), t.pe(0), size_t(all[size_t(i)].base % 16), t.pe(i));
  std::vector<int> files;
  if (!b.device) files = exchange_descriptors(t, fd);
  b.delta.assign(size_t(self.n_local), ptrdiff_t(device::outside));
  b.row.assign(b.device ? size_t(self.n) : 0, device::outside);
  std::bitset<most> taken;
  for (int i = 0; i < t.n; i++) {
    const Seen &s = all[size_t(i)];
    b.bases.push_back(s.memory.base);
    taken |= s.taken;
    registered = std::max(registered, s.registered);
    const int pe = t.pe(i), local = local_of(pe);
    if (b.device) b.row[size_t(pe)] = local < 0 ? device::remote : 0;
    if (local < 0) continue;
    ptrdiff_t &delta = b.delta[size_t(local)];
    delta = 0;
    if (i == t.me) continue;
    if (b.device) {
      const auto p = uintptr_t(gpu::open_memory(fn, pe, s.memory));
      delta = ptrdiff_t(p + (s.base - s.memory.base) - mine.from);
      b.row[size_t(pe)] =
          uintptr_t(delta) | (s.memory.coarse && !gpu::shares_gpu(local) ? device::coarse : 0);
      continue;
    }
    const uintptr_t from = s.base & ~(page - 1);
    const size_t size = round_up(s.base + bytes, page) - from;
    const int theirs = files[size_t(i)];
    if (theirs < 0)
      fatal("%s: the descriptor of PE %d's buffer has not come: is the limit of open files (ulimit "
            "-n) reached?",
            fn, pe);
    void *p = map_lazily(nullptr, size, MAP_SHARED | MAP_NORESERVE, theirs, off_t(from));
    if (p == MAP_FAILED)
      fatal("%s: mapping the %zu bytes of PE %d: %s", fn, bytes, pe, strerror(errno));
    close(theirs);
    b.mapped.push_back({uintptr_t(p), uintptr_t(p) + size});
    delta = ptrdiff_t(uintptr_t(p) + (s.base - from) - mine.from);
  }
  b.region.delta = b.delta.data();
  size_t place = 0;
  while (place < most && taken[place]) place++;
  if (place == most)
    fatal_team(t.pe(0), "%s: %d buffers are registered, and there is room for no more", fn, most);
  *handle = b.handle = ++registered << 16 | place;
  Buffer &there = buffers[place];
  std::swap(there, b); // some reader may have found what was there: it goes when all have met
  t.buffers++;
  if (!self.one_node()) net::open_buffer(int(place), there.region, there.device);
  if (there.device) gpu::use();
  show(there);
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

// SPDX-License-Identifier: MIT
// The executable's globals and statics are symmetric. At init their pages are copied to the segment
// and the segment is mapped over them, in place, so that this PE goes on as before and the others
// reach them by plain loads and stores.
#include "../log.hpp"
#include "../net.hpp"
#include "../state.hpp"
#include "map_lazily.hpp"
#include "segment.hpp"
#include "stop.hpp"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace shmem::data {

namespace {

struct Piece {
  uintptr_t from, to;
};
struct {
  // Page ranges that are writable and not RELRO, ascending, as in any ELF file: one, or more with
  // some linkers.
  Piece pieces[8];
  int n;
  off_t at; // of the extent in the segment
  // The program may have closed all descriptors that it does not know, by close_range, and have
  // others of these numbers: then pages are read where they are mapped, which allocates the holes.
  struct stat file;
  // A forked child gets a copy of its own, as if the pages had never been shared. The snapshot is
  // taken before the fork, so that what the parent and its peers write later does not reach the
  // child.
  char *snapshot;
} moved;

uintptr_t down(uintptr_t a) {
  return a & ~(page - 1);
}

// The executable is the first object that the loader lists.
int find(dl_phdr_info *info, size_t, void *) {
  Piece relro{};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto &ph = info->dlpi_phdr[i];
    uintptr_t at = info->dlpi_addr + ph.p_vaddr;
    // The loader protects whole pages of RELRO only; the rest of its last page stays writable data.
    if (ph.p_type == PT_GNU_RELRO) relro = {down(at), down(at + ph.p_memsz)};
  }
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto &ph = info->dlpi_phdr[i];
    if (ph.p_type != PT_LOAD || !(ph.p_flags & PF_W) || ph.p_memsz == 0) continue;
    uintptr_t at = info->dlpi_addr + ph.p_vaddr;
    Piece all{down(at), round_up(at + ph.p_memsz, page)};
    if (relro.from <= all.from && relro.to > all.from) all.from = relro.to; // RELRO opens a segment
    if (all.from < all.to && moved.n < int(sizeof moved.pieces / sizeof *moved.pieces))
      moved.pieces[moved.n++] = all;
  }
  return 1;
}

// Reads globals with their redzones, so AddressSanitizer must look away.
__attribute__((no_sanitize("address"), no_sanitize("thread"))) bool all_zero(const char *p) {
  for (size_t i = 0; i < page; i += sizeof(uint64_t))
    if (*reinterpret_cast<const volatile uint64_t *>(p + i)) return false;
  return true;
}

struct Move {
  int fd;
  off_t at;
  char *from, *copy; // copy: what comes there instead
  size_t bytes;
  bool again; // what has become a page of zeros since is to be one in the file, too
};

// Pages of zeros stay holes: a large array in .bss takes memory only once it is used.
__attribute__((no_sanitize("address"), no_sanitize("thread"))) int write_pages(void *p) {
  Move &m = *static_cast<Move *>(p);
  if (m.again &&
      syscall(SYS_fallocate, m.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, m.at, m.bytes) < 0)
    return errno;
  m.again = true;
  for (size_t o = 0; o < m.bytes; o += page)
    if (!all_zero(m.from + o) &&
        syscall(SYS_pwrite64, m.fd, m.from + o, page, m.at + off_t(o)) != long(page))
      return errno;
  return 0;
}
__attribute__((no_sanitize("address"), no_sanitize("thread"))) int fill_copy(void *p) {
  const Move &m = *static_cast<Move *>(p);
  return read_pages(m.fd, m.at, m.copy, m.bytes) ? 0 : errno;
}
// This is the system call itself, because UCX 1.13 intercepts mremap and loses the new address
// (2026-11-22).
__attribute__((no_sanitize("address"), no_sanitize("thread"))) int put_there(void *p) {
  const Move &m = *static_cast<Move *>(p);
  return syscall(SYS_mremap, m.copy, m.bytes, m.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, m.from) < 0
             ? errno
             : 0;
}

void before_fork() {
  moved.snapshot = nullptr;
  if (!self.data.size) return; // this process is in no job
  moved.snapshot = static_cast<char *>(mmap(nullptr, self.data.size, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (moved.snapshot == MAP_FAILED) {
    say("fork: no memory for a copy of the static data: the child will share it");
    moved.snapshot = nullptr;
    return;
  }
  if (same_file(self.segment_fd, moved.file))
    read_pages(self.segment_fd, moved.at, moved.snapshot, self.data.size);
  else
    for (int i = 0; i < moved.n; i++)
      copy_pages(moved.pieces[i].from, moved.snapshot + (moved.pieces[i].from - self.data.base),
                 moved.pieces[i].to - moved.pieces[i].from);
}
void after_fork_parent() {
  if (moved.snapshot) munmap(moved.snapshot, self.data.size);
}
void after_fork_child() {
  for (int i = 0; moved.snapshot && i < moved.n; i++) {
    size_t bytes = moved.pieces[i].to - moved.pieces[i].from;
    // This is the system call itself, because UCX 1.13 intercepts mremap and loses the new address
    // (2026-11-22).
    syscall(SYS_mremap, moved.snapshot + (moved.pieces[i].from - self.data.base), bytes, bytes,
            MREMAP_MAYMOVE | MREMAP_FIXED, moved.pieces[i].from);
  }
}

} // namespace

DataExtent extent() {
  if (!moved.n) dl_iterate_phdr(find, nullptr);
  if (!moved.n) return {nullptr, 0};
  return {reinterpret_cast<char *>(moved.pieces[0].from),
          moved.pieces[moved.n - 1].to - moved.pieces[0].from};
}

bool has_file() {
  return same_file(self.segment_fd, moved.file);
}

bool same_file(int fd, const struct stat &known) {
  struct stat now {};
  return fstat(fd, &now) == 0 && now.st_ino == known.st_ino && now.st_dev == known.st_dev;
}

__attribute__((no_sanitize("address"), no_sanitize("thread"))) void
copy_pages(uintptr_t from, char *into, size_t bytes) {
  const auto *p = reinterpret_cast<const char *>(from);
  for (size_t o = 0; o < bytes; o += page) {
    if (all_zero(p + o)) continue;
    for (size_t k = 0; k < page; k += sizeof(uint64_t))
      *reinterpret_cast<volatile uint64_t *>(into + o + k) =
          *reinterpret_cast<const volatile uint64_t *>(p + o + k);
  }
}

bool read_pages(int fd, off_t from, char *into, size_t bytes) {
  const off_t end = from + off_t(bytes);
  for (off_t at = lseek(fd, from, SEEK_DATA); at >= 0 && at < end; at = lseek(fd, at, SEEK_DATA)) {
    off_t hole = std::min(end, lseek(fd, at, SEEK_HOLE));
    for (ssize_t n; at < hole; at += n)
      if ((n = syscall(SYS_pread64, fd, into + (at - from), hole - at, at)) <= 0) return false;
  }
  return true;
}

void move_pages(int fd, off_t at, uintptr_t from, uintptr_t to) {
  const size_t bytes = to - from;
  void *shared = map_lazily(nullptr, bytes, MAP_SHARED, fd, at);
  if (shared == MAP_FAILED) fatal("sharing %zu bytes: %s", bytes, strerror(errno));
  madvise(shared, bytes, MADV_DODUMP);
  auto *p = reinterpret_cast<char *>(from);
  Move m{fd, at, p, static_cast<char *>(shared), bytes, false};
  if (int error = while_alone({write_pages, put_there, &m}))
    fatal("sharing %zu bytes: %s", bytes, strerror(error));
#ifndef __SANITIZE_THREAD__ // which takes it for a store into all of them
  // The same once more, which changes nothing but that UCX hears of other pages being there. Only
  // where nothing is locked, because all of it would be allocated.
  if (net::built && !locked_kib() &&
      mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, at) == MAP_FAILED)
    fatal("sharing %zu bytes: %s", bytes, strerror(errno));
#endif
}

void move_back(int fd, off_t at, uintptr_t from, uintptr_t to) {
  const size_t bytes = to - from;
  void *copy = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) fatal("giving %zu bytes back: %s", bytes, strerror(errno));
  Move m{fd, at, reinterpret_cast<char *>(from), static_cast<char *>(copy), bytes, false};
  if (int error = while_alone({fill_copy, put_there, &m}))
    fatal("giving %zu bytes back: %s", bytes, strerror(error));
}

void move(int fd, size_t offset) {
  static const int once = pthread_atfork(before_fork, after_fork_parent, after_fork_child);
  (void)once;
  moved.at = off_t(offset);
  fstat(fd, &moved.file);
  for (int i = 0; i < moved.n; i++)
    move_pages(fd, moved.at + off_t(moved.pieces[i].from - self.data.base), moved.pieces[i].from,
               moved.pieces[i].to);
}

void move_back() {
  for (int i = 0; i < moved.n; i++)
    move_back(self.segment_fd, moved.at + off_t(moved.pieces[i].from - self.data.base),
              moved.pieces[i].from, moved.pieces[i].to);
}

} // namespace shmem::data

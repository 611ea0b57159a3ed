// SPDX-License-Identifier: MIT
#include "clock.hpp"
#include "driver.hpp"
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace amdgpu {
namespace {

// The processes of a job of PMIx share a machine, or else those of a session (setsid). Its memory
// is a memfd, which a name of a socket leads to: such a name is gone with the process, however that
// ends.
int named(const std::string &name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name.data(), name.size());
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) stop(nullptr, "AMDGPU_TIME: socket: %m");
  if (!bind(fd, reinterpret_cast<sockaddr *>(&address),
            socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size())))
    return fd;
  close(fd);
  return -1;
}
int memory_of_others(const std::string &prefix) {
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const size_t at = line.find("@" + prefix);
    int pid, fd;
    if (at == line.npos || sscanf(line.c_str() + at + 1 + prefix.size(), "%d-%d", &pid, &fd) != 2)
      continue;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    if (const int memory = open(path, O_RDWR | O_CLOEXEC); memory >= 0) return memory;
  }
  return -1;
}
Shared &join() {
  if (nodes().gpus >= most_nodes)
    stop(nullptr, "AMDGPU_TIME: %u GPUs, and at most %u are known", nodes().gpus, most_nodes - 1);
  const char *job = getenv("PMIX_NAMESPACE");
  const std::string key = std::string("amdgpu-") + nodes().name + "-" +
                          (job ? std::string(job) : std::to_string(getsid(0))).substr(0, 60) + "-";
  int lock;
  while ((lock = named(key + "lock")) < 0) usleep(1000);
  int memory = memory_of_others(key);
  if (memory < 0) {
    memory = memfd_create("amdgpu-time", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, sizeof(Shared))) stop(nullptr, "AMDGPU_TIME: memfd: %m");
  }
  void *at =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
  if (at == MAP_FAILED) stop(nullptr, "AMDGPU_TIME: mmap: %m");
  auto &shared = *static_cast<Shared *>(at);
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  uint64_t none = 0; // later than now, because ROCr takes a time before it began for none
  shared.begun.compare_exchange_strong(none, uint64_t(t.tv_sec + 3600) * 1000000000);
  if (named(key + std::to_string(getpid()) + "-" + std::to_string(memory)) < 0)
    stop(nullptr, "AMDGPU_TIME: no name for this process's clock");
  close(lock);
  return shared;
}
std::atomic<uint64_t> &stamp_of(uint64_t word, uint64_t &mark) {
  const uint64_t high = (word >> 21) * 0x9e3779b97f4a7c15;
  mark = (high >> 12 & 0xffffff) << 40;
  return shared().stamp[(word ^ high >> 40) & ((uint64_t(1) << 21) - 1)];
}

} // namespace

Shared &shared() {
  static Shared &all = join();
  return all;
}

// The allocation that an address is of, by the few that were asked for last.
const Range &range_at(uint64_t address) {
  static Range known[4];
  static uint64_t version = 0;
  static unsigned next = 0;
  if (version != memory_version()) {
    version = memory_version();
    std::fill(std::begin(known), std::end(known), Range());
  }
  for (const Range &r : known)
    if (address - reinterpret_cast<uint64_t>(r.begin) < r.bytes) return r;
  Range &r = known[next++ % 4];
  r = range_of(reinterpret_cast<const void *>(address));
  if (!r.bytes) { // the program's own, of which a page is asked for at a time
    r.begin = reinterpret_cast<const uint8_t *>(address & ~uint64_t(4095));
    r.bytes = 4096;
    r.name = uint64_t(getpid()) << 44 ^ (address & ~uint64_t(4095));
  }
  return r;
}
uint64_t word_at(const Range &r, uint64_t address) {
  return (r.name + (address - reinterpret_cast<uint64_t>(r.begin))) >> 3;
}
// The table that AMDGPU_CLOCK names, or clock.txt, which lies beside this library.
std::string path_of_table() {
  if (const char *named = getenv("AMDGPU_CLOCK")) return named;
  Dl_info here;
  if (!dladdr(reinterpret_cast<void *>(&timed), &here)) stop(nullptr, "where is this library?");
  const std::string path = here.dli_fname;
  return path.substr(0, path.rfind('/') + 1) + "clock.txt";
}
// A row is a name and a number for each GPU, by the header's names.
Rates rates_of(const std::string &gpu) {
  const std::string path = path_of_table();
  std::ifstream file(path);
  if (!file) stop(nullptr, "AMDGPU_TIME: cannot read %s", path.c_str());
  Rates rates;
  int column = 0, rows = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, word;
    if (!(words >> name) || name[0] == '#') continue;
    if (name == "name") {
      for (int k = 1; words >> word && word[0] != '#'; k++)
        if (word == gpu) column = k;
      continue;
    }
    double value = 0;
    for (int k = 0; k < column; k++)
      if (!(words >> value)) stop(nullptr, "%s: %s: not a number", path.c_str(), line.c_str());
    bool known = false;
#define AMDGPU_ROW(row)                                                                            \
  if (name == #row) rates.row = value, known = true;
    AMDGPU_CLOCK(AMDGPU_ROW)
    if (!known || !column) stop(nullptr, "%s: %s: unknown word", path.c_str(), line.c_str());
    rows++;
  }
#define AMDGPU_ONE(row) +1
  if (rows != 0 AMDGPU_CLOCK(AMDGPU_ONE)) stop(nullptr, "%s: not all rows", path.c_str());
  return rates;
}

int time_asked() {
  static const int asked = [] {
    const char *text = getenv("AMDGPU_TIME");
    if (!text || !*text) return 0;
    if (text[0] < '0' || text[0] > '3' || text[1]) stop(nullptr, "AMDGPU_TIME: not 0, 1, 2 or 3");
    return text[0] - '0';
  }();
  return asked;
}
const Rates *timed() {
  static const Rates *const rates = [] {
    if (!time_asked()) return static_cast<Rates *>(nullptr);
    if (strict_seed())
      stop(nullptr, "AMDGPU_TIME: the strict machine (AMDGPU_STRICT) has no clock");
    return new Rates(rates_of(nodes().name));
  }();
  return rates;
}

Ps Channel::take(Ps at, double bytes, double gbs) {
  const double rate = gbs / 1000; // bytes in a ps
  const auto most = uint64_t(rate * (1 << width));
  Ps done = at + Ps(bytes / rate);
  auto left = uint64_t(bytes + 0.5);
  for (uint64_t n = uint64_t(at) >> width; left; n++) {
    std::atomic<uint64_t> &slice = slice_[n % slices];
    uint64_t seen = slice.load(std::memory_order_relaxed), used, here;
    do {
      if (seen >> 24 > (n & 0xffffffffff)) return done; // long ago: nothing is known of it
      used = seen >> 24 == (n & 0xffffffffff) ? seen & 0xffffff : 0;
      here = std::min(left, most - std::min(used, most));
    } while (here && !slice.compare_exchange_weak(seen, (n & 0xffffffffff) << 24 | (used + here),
                                                  std::memory_order_relaxed));
    left -= here;
    done = std::max(done, Ps(n << width) + Ps(double(used + here) / rate));
  }
  return done;
}

void stamp(uint64_t word, Ps at) {
  uint64_t mark;
  std::atomic<uint64_t> &entry = stamp_of(word, mark);
  const uint64_t fresh = mark | (uint64_t(at + 999) / 1000);
  const uint64_t seen = entry.load(std::memory_order_relaxed);
  if (seen >> 40 != mark >> 40 || seen < fresh) entry.store(fresh, std::memory_order_release);
}
Ps stamped(uint64_t word) {
  uint64_t mark;
  const uint64_t seen = stamp_of(word, mark).load(std::memory_order_acquire);
  return seen >> 40 == mark >> 40 ? Ps(seen & 0xffffffffff) * 1000 : 0;
}
void stamp_at(const void *address, Ps at) {
  const auto a = reinterpret_cast<uint64_t>(address);
  stamp(word_at(range_at(a), a), at);
}
Ps stamped_at(const void *address) {
  const auto a = reinterpret_cast<uint64_t>(address);
  return stamped(word_at(range_at(a), a));
}

Ps copied(const void *to, const void *from, size_t bytes, Ps at) {
  const Rates &r = *timed();
  const unsigned source = range_at(reinterpret_cast<uint64_t>(from)).node,
                 dest = range_at(reinterpret_cast<uint64_t>(to)).node;
  Ps done = at + ps(r.sdma_ns) + Ps(double(bytes) / r.sdma_gbs * 1000);
  const double bulk = double(bytes) * (1 + r.link_header / segment);
  Ps passed = at + ps(r.sdma_ns);
  for (size_t part = 0; source != dest && part < bytes; part += 4096) // one after the other
    passed = shared().link[source][dest].take(
        passed, bulk * double(std::min<size_t>(4096, bytes - part)) / double(bytes),
        source && dest ? r.link_gbs : r.host_gbs);
  done = std::max(done, passed);
  for (size_t k = 0; k < bytes; k += 8) stamp_at(static_cast<const char *>(to) + k, done);
  return done;
}

uint64_t ticks_at(Ps at) {
  return shared().begun.load(std::memory_order_relaxed) / 10 + uint64_t(at) / 10000;
}
} // namespace amdgpu

// SPDX-License-Identifier: MIT
// The device heap: one allocation on each PE's GPU, exported once, mapped by all others, and tried
// out before anyone uses it.
#include "../device/kernels.hpp"
#include "../device/runtime.hpp"
#include "copy.hpp"
#include "env.hpp"
#include "gpu_hip.hpp"
#include "gpu_topology.hpp"
#include "net.hpp"
#include "team.hpp"
#include "tune.hpp"
#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <vector>

namespace shmem {

// Host-only programs keep the short path on a machine with GPUs: the long way is taken from the
// first block of device memory on, and only where the CPU cannot use that by itself.
void choose_spans() {
  const Region &main = self.device_main ? self.device : self.heap;
  const Span all{main.base, main.size};
  self.careful = self.check || self.far || !self.one_node();
  self.word = self.check || (self.far && self.device_main) ? Span{} : all;
  self.read = self.oversubscribed ? Span{} : self.word;
  self.fast = self.check || self.far ? Span{} : all;
  // On several nodes the data path finds those of this one where their numbers are in a row.
  self.first = self.node_first;
  self.near = self.node_stride == 1 ? self.n_local : 0;
  for (int i = 0; i < self.near; i++) heap_delta[self.first + i] = main.delta[i];
  self.stream_bytes = self.far ? 0 : stream_threshold();
}

namespace gpu {

namespace {

// Whether the CPU and all GPUs share one memory: what the CPU does there is as fast as anywhere,
// and atomic with what kernels do. Over PCIe it is neither: loads wait for each line, and an atomic
// is two transfers.
bool near;

// An allocation of this PE, and where the others' are mapped here.
struct Mapped {
  char *raw, *own;             // as allocated, and its aligned start
  std::vector<uintptr_t> peer; // of each PE of the node: its aligned start
  std::vector<char *> opened;
};
Mapped heap, flags;
bool grows; // the heap: it is not an allocation

// What PEs tell each other.
struct Gpu {
  char bus[16]; // which partitions of a GPU share (CPX of MI300X, MIG): they differ in their UUID
  hipUUID uuid;
  int device;
  bool near;
  size_t free, total;
};
struct Export {
  hipIpcMemHandle_t heap, flags;
  size_t start; // of the heap in its allocation
};

// Where each PE of the node has its heap, and how fast this PE's GPU reaches it in MB/s, once
// somebody has asked.
struct Seat {
  Gpu gpu;
  double rate;
};
std::vector<Seat> seats;
double usual_rate; // where the driver knows none; 0: a switch joins the GPUs

bool same_gpu(const Gpu &a, const Gpu &b) {
  return !strcmp(a.bus, b.bus) && !memcmp(&a.uuid, &b.uuid, sizeof a.uuid);
}
} // namespace
bool shares_gpu(int local) {
  return same_gpu(seats[size_t(local)].gpu, seats[size_t(self.local)].gpu);
}
namespace {
hipError_t identify(int device, Gpu &p) {
  p.device = device;
  if (!tried(hipDeviceGetUuid(&p.uuid, device))) p.uuid = {}; // then the bus address has to do
  return hipDeviceGetPCIBusId(p.bus, sizeof p.bus, device);
}
// Another PE's device by its number here, or -1: this PE may not see it.
int device_here(const Gpu &theirs) {
  static const std::vector<Gpu> all = [] {
    int n = 0;
    if (!tried(hipGetDeviceCount(&n))) n = 0;
    auto gpus = std::vector<Gpu>(size_t(n));
    for (int i = 0; i < n; i++) tried(identify(i, gpus[size_t(i)]));
    return gpus;
  }();
  for (size_t i = 0; i < all.size(); i++)
    if (same_gpu(all[i], theirs)) return int(i);
  return -1;
}

// Several PEs on one GPU share it, and the size is the same on all PEs. One that the user asked for
// is taken or refused. upto: what it may grow to.
size_t heap_bytes(const Gpu &mine, size_t &upto) {
  seats.resize(size_t(self.n_local));
  exchange_value(*self.shared, mine, [&](int i, const Gpu &p) { seats[i].gpu = p; });
  near = true;
  exchange_value(*self.world, mine.near, [&](int, bool theirs) { near &= theirs; });
  self.device_main = self.env.heap == Env::device ||
                     (self.env.heap == Env::anywhere && runtime::heap_on_device(near));
  const char *name = self.device_main ? "SYMMETRIC_SIZE" : "DEVICE_SIZE", *text = env_text(name);
  const size_t want = self.device_main ? self.env.symmetric_size : self.env.device_size;
  struct Share {
    size_t bytes, upto, sharers;
    Gpu gpu;
  } share{0, 0, 0, mine}, least{};
  share.sharers = size_t(std::count_if(seats.begin(), seats.end(),
                                       [&](const Seat &s) { return same_gpu(s.gpu, mine); }));
  share.bytes = mine.free / share.sharers;
  share.bytes -= std::min(share.bytes, max_align + flag_bytes());
  share.upto = mine.total / share.sharers;
  upto = self.env.symmetric_max ? self.env.symmetric_max : SIZE_MAX;
  exchange_value(*self.world, share, [&](int pe, const Share &theirs) {
    if (pe == 0 || theirs.bytes < least.bytes) least = theirs;
    upto = std::min(upto, theirs.upto);
  });
  const Gpu &tight = least.gpu;
  if (text && want > least.bytes)
    fatal_all("SHMEM_%s = \"%s\": %zu PEs on GPU %d (%s), which has %zu MiB free: ask for at most "
              "%zum a PE",
              name, text, least.sharers, tight.device, tight.bus, tight.free >> 20,
              least.bytes >> 20);
  // By default memory is left for the program's own, because a GPU commits it at once.
  return (text ? want : std::min(want, least.bytes / 4)) & ~(page - 1);
}

// Gives how large the heap may become.
size_t allocate(size_t &bytes, size_t upto) {
  size_t front = flag_bytes();
  const size_t most =
      self.env.heap_grow != Env::none ? open_chunks(front, bytes, upto, heap.peer) : 0;
  grows = most != 0;
  if (grows) {
    heap.own = reinterpret_cast<char *>(heap.peer[self.local]);
    flags.own = heap.own - front;
    for (const uintptr_t at : heap.peer) flags.peer.push_back(at - front);
  } else {
    void *p = nullptr;
    MUST(hipExtMallocWithFlags(&p, bytes + max_align, hipDeviceMallocFinegrained),
         "hipExtMallocWithFlags of %zu bytes for the symmetric heap", bytes + max_align);
    heap.raw = static_cast<char *>(p);
    heap.own = reinterpret_cast<char *>(round_up(uintptr_t(p), max_align));
    MUST(runtime::malloc_flags(&p, flag_bytes(), chosen),
         "hipExtMallocWithFlags of %zu bytes for flags", flag_bytes());
    flags.raw = flags.own = static_cast<char *>(p);
  }
  // Without a GPU memory is new pages of a file: zero, and not there until they are touched.
  if (runtime::hardware) MUST(hipMemset(flags.own, 0, flag_bytes()), "hipMemset of the flags");
  MUST(hipDeviceSynchronize(), "hipDeviceSynchronize");
  return grows ? most : bytes;
}

// Unmaps what the others share.
void close_peers() {
  for (Mapped *m : {&heap, &flags})
    for (char *opened : m->opened)
      if (opened) MUST(hipIpcCloseMemHandle(opened), "hipIpcCloseMemHandle");
}
// Frees what this PE has, which nobody else has mapped: the job goes on without a device heap. A
// later init does not try again.
bool given_up;
void drop() {
  for (Mapped *m : {&heap, &flags}) {
    MUST(hipFree(m->raw), "hipFree");
    *m = {};
  }
  seats.clear();
  self.far = self.device_main = false;
  chosen = -1;
  given_up = true;
}

// The system may refuse to share a GPU's memory between processes (a kernel without ROCm's ioctls,
// a container). A job that has not asked for a device heap goes on without one; `refused` has the
// cause until all PEs have heard of it.
char refused[192];
void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
void refuse(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(refused, sizeof refused, format, args);
  va_end(args);
  if (env_text("HEAP") || env_text("DEVICE_SIZE")) fatal("%s", refused);
}

// Maps what this PE of the node has exported; null if that is refused.
char *map_export(int local, const hipIpcMemHandle_t &handle, const char *what) {
  const Gpu &theirs = seats[local].gpu, &mine = seats[self.local].gpu;
  const int pe = self.pe_of(local);
  const int peer = device_here(theirs);
  int can = 1;
  const auto link = [&] {
    if (peer < 0) return "unknown, that GPU is not visible here";
    uint32_t kind = ~0u, hops = 0;
    if (!tried(hipExtGetLinkTypeAndHopCount(chosen, peer, &kind, &hops))) kind = ~0u;
    return runtime::link_name(kind);
  };
  const char *format = "the %s of PE %d on GPU %d (%s) cannot be mapped for this PE's GPU %d (%s): "
                       "%s: %s (link: %s)";
  if (peer >= 0 && peer != chosen) {
    if (!tried(hipDeviceCanAccessPeer(&can, chosen, peer))) can = 0;
    if (!can)
      fatal(format, what, pe, theirs.device, theirs.bus, chosen, mine.bus, "hipDeviceCanAccessPeer",
            "no access", link());
  }
  void *p = nullptr;
  hipError_t error = hipIpcOpenMemHandle(&p, handle, hipIpcMemLazyEnablePeerAccess);
  if (tried(error)) return static_cast<char *>(p);
  refuse(format, what, pe, theirs.device, theirs.bus, chosen, mine.bus, "hipIpcOpenMemHandle",
         hipGetErrorString(error), link());
  return nullptr;
}

// Whether no PE was refused. If one was, the first says why, once for the job.
bool all_share() {
  int first = self.n;
  exchange_value(*self.world, *refused != 0, [&](int pe, bool theirs) {
    if (theirs) first = std::min(first, pe);
  });
  if (first == self.n) return true;
  static Note note;
  if (first == self.me)
    note("no device heap, because GPU memory cannot be shared: %s; shmem_info doctor tells more, "
         "SHMEM_DEVICE_SIZE=0 asks for none",
         refused);
  return false;
}

// False, and nothing is left, where sharing is refused.
bool exchange_handles() {
  Export mine{};
  mine.start = size_t(heap.own - heap.raw);
  for (auto [handle, m, what] : {std::tuple(&mine.heap, &heap, "symmetric heap"),
                                 std::tuple(&mine.flags, &flags, "flags")}) {
    // A PE alone shares nothing, and has its heap where the system refuses to share.
    hipError_t error = self.n_local > 1 ? hipIpcGetMemHandle(handle, m->raw) : hipSuccess;
    if (!tried(error) && !*refused)
      refuse("GPU %d: hipIpcGetMemHandle of the %s: %s", chosen, what, hipGetErrorString(error));
    m->peer.resize(size_t(self.n_local));
    m->opened.resize(size_t(self.n_local));
    m->peer[self.local] = uintptr_t(m->own);
  }
  if (!all_share()) return drop(), false;
  // Copied out first: opening a handle takes long, and the others wait for nobody.
  std::vector<Export> all(size_t(self.n_local));
  exchange_value(*self.shared, mine, [&](int i, const Export &theirs) { all[i] = theirs; });
  for (int i = 0; i < self.n_local && !*refused; i++) {
    if (i == self.local) continue;
    heap.opened[i] = map_export(i, all[i].heap, "symmetric heap");
    heap.peer[i] = uintptr_t(heap.opened[i]) + all[i].start;
    if (*refused) break;
    flags.opened[i] = map_export(i, all[i].flags, "flags");
    flags.peer[i] = uintptr_t(flags.opened[i]);
  }
  if (all_share()) return true;
  close_peers();
  sync(*self.world); // memory that a peer has mapped must not be freed
  return drop(), false;
}

// A mapping may be wrong without an error (MI300X with many handles, ROCm/mori#267). Each PE writes
// a sign into the first and the last word of its own memory, the others look; then each leaves a
// mark in all others'. Nobody uses this memory yet; of the flags it is a part that nobody uses.
void copy_now(void *dest, const void *source, size_t n) {
  MUST(hipMemcpy(dest, source, n, hipMemcpyDefault), "hipMemcpy of %zu bytes", n);
}
// From pageable memory hipMemcpy returns when it has read it all: 8 PEs on 4 H200s met marks that
// had not arrived (2026-11).
void copies_arrive() {
  MUST(hipDeviceSynchronize(), "hipDeviceSynchronize");
  sync(*self.world);
}
struct Trial {
  const Mapped &m;
  const char *what;
  size_t first, last; // words; a mark for each PE of the node behind the first
  uint64_t *word(int local, size_t i) const {
    return reinterpret_cast<uint64_t *>(m.peer[local]) + i;
  }
};
uint64_t sign(int local, uint64_t salt) {
  return (uint64_t(local) + 1) * 0x9e3779b97f4a7c15 ^ salt;
}
void expect(const Trial &t, int local, size_t word, uint64_t want) {
  uint64_t seen;
  copy_now(&seen, t.word(local, word), 8);
  if (seen != want)
    fatal("the %s of PE %d is mapped wrongly for this PE's GPU %d: word %zu reads 0x%016lx, not "
          "0x%016lx",
          t.what, self.pe_of(local), chosen, word, seen, want);
}

void try_out(size_t heap_bytes) {
  const Trial trials[] = {
      {heap, "symmetric heap", 0, heap_bytes / 8 - 1},
      {flags, "flags", trial_at() / 8, flag_bytes() / 8 - 1},
  };
  for (const Trial &t : trials)
    for (size_t at : {t.first, t.last}) {
      const uint64_t mine = sign(self.local, at);
      copy_now(t.word(self.local, at), &mine, 8);
    }
  copies_arrive();
  for (const Trial &t : trials)
    for (int i = 0; i < self.n_local; i++) {
      for (size_t at : {t.first, t.last}) expect(t, i, at, sign(i, at));
      const uint64_t mark = sign(self.local, 3);
      copy_now(t.word(i, t.first + 1 + size_t(self.local)), &mark, 8);
    }
  copies_arrive();
  std::vector<uint64_t> marks(size_t(self.n_local));
  for (const Trial &t : trials) {
    copy_now(marks.data(), t.word(self.local, t.first + 1), marks.size() * 8);
    for (int i = 0; i < self.n_local; i++)
      if (marks[i] != sign(i, 3))
        fatal("the %s of this PE, on GPU %d, is mapped wrongly for PE %d: its mark reads 0x%016lx",
              t.what, chosen, self.pe_of(i), marks[i]);
  }
}

// Chooses this PE's; false when some PE sees none. The first call of HIP opens every GPU, which takes a
// second and a GiB of memory of each (2 H100s, 2026-11-25).
bool choose() {
  const bool none = self.env.gpu_choice == Env::gpu::none;
  int count = 0;
  hipError_t error = none ? hipSuccess : hipGetDeviceCount(&count);
  if (!tried(error) || count < 0) count = 0;
  const uint64_t mine = count ? nearest_devices(count) : 0;
  int without = -1, turn = 0; // among the PEs to which the same devices are nearest
  exchange_value(*self.world, mine, [&](int pe, uint64_t theirs) {
    if (!theirs && without < 0) without = pe;
    // With SHMEM_P2P=0 PEs of one machine are nodes of their own, and share its GPUs all the same.
    const bool here = self.env.p2p == Env::network || local_of(pe) >= 0;
    turn += pe < self.me && theirs == mine && here;
  });
  if (without >= 0) {
    if (self.env.heap == Env::device)
      fatal_all("SHMEM_HEAP = \"device\": PE %d sees no GPU (hipGetDeviceCount here: %s)", without,
                none                  ? "not called: SHMEM_DEVICE = none"
                : error == hipSuccess ? "no error"
                                      : hipGetErrorString(error));
    debug("no device heap: PE %d sees no GPU%s", without,
          none ? ", by SHMEM_DEVICE = none here" : "");
    return false;
  }
  uint64_t left = mine;
  for (turn %= std::popcount(mine); turn; turn--) left &= left - 1;
  chosen = std::countr_zero(left);
  MUST(hipSetDevice(chosen), "hipSetDevice");
  return true;
}

// All PEs choose alike: by the architecture of PE 0's GPU and the fewest workgroups that any holds.
// Four collectives at a time, of other teams, are resident at once; a fifth may wait for one of
// them that waits for it.
void open_tuning() {
  struct Kind {
    char name[256];
    unsigned blocks;
  } mine{}, all{};
  hipDeviceProp_t prop;
  MUST(hipGetDeviceProperties(&prop, chosen), "hipGetDeviceProperties");
  snprintf(mine.name, sizeof mine.name, "%s", prop.gcnArchName);
  MUST(kernels::residents(chosen, device::max_threads, &mine.blocks),
       "the occupancy of the collectives' kernels");
  exchange_value(*self.world, mine, [&](int pe, const Kind &k) {
    if (pe == 0) all = k;
    all.blocks = std::min(all.blocks, k.blocks);
  });
  tune::open(all.name, std::min(all.blocks / 4, unsigned(channels().count)),
             unsigned(channels().with_lines));
}

// Chooses a device, allocates, and maps what the others have; false where there is to be no device
// heap.
bool map(Region &device) {
  if (!choose()) return false;
  Gpu mine{};
  MUST(identify(chosen, mine), "hipDeviceGetPCIBusId");
  mine.near = runtime::shares_memory(chosen);
  MUST(hipMemGetInfo(&mine.free, &mine.total), "hipMemGetInfo");
  size_t upto;
  const size_t bytes = heap_bytes(mine, upto);
  size_t room = std::max(bytes, (size_t(self.n_local) + 2) * 8); // for the trial
  const size_t most = allocate(room, upto);
  if (!grows && !exchange_handles()) return false;
  usual_rate = runtime::link_rate(chosen);
  try_out(room);
  auto *delta = new ptrdiff_t[size_t(self.n_local)];
  for (int i = 0; i < self.n_local; i++) delta[i] = ptrdiff_t(heap.peer[i] - uintptr_t(heap.own));
  device = {{uintptr_t(heap.own), grows ? most : bytes}, delta};
  self.device_kept = grows ? room : bytes;
  debug("device heap of %zu bytes, up to %zu, at %p on GPU %d (%s)%s", self.device_kept,
        device.size, static_cast<void *>(heap.own), chosen, mine.bus,
        near ? ", as near as host memory" : "");
  return true;
}

} // namespace

double rate_to(int pe) {
  if (seats.empty() || usual_rate == 0 || local_of(pe) < 0) return 0;
  Seat &there = seats[local_of(pe)];
  const char *const bus = seats[self.local].gpu.bus;
  // PEs on one GPU, or its partitions, share its memory: of an MI300X's 5,300 GB/s eight read and
  // write 330 each.
  if (!strcmp(bus, there.gpu.bus)) return 330e3;
  if (there.rate == 0) {
    const double told = link_rate(topology, bus, there.gpu.bus);
    there.rate = told > 0 ? told : usual_rate;
  }
  return there.rate;
}

// The heap and the mappings live as long as the process. Memory that was exported stays pinned
// after hipFree (ROCm 7.2), so that a job that inits again would have it twice; and what a peer
// still has mapped must not be freed at all, nor another heap be mapped in its place.
void open() {
  static Region mapped;
  static bool is_main;
  const bool main = self.env.heap == Env::device;
  if (given_up || (!main && self.env.device_size == 0)) return;
  if (self.n > max_device_pes) {
    if (main)
      fatal_all("SHMEM_HEAP = \"device\": %d PEs: this build takes at most %d", self.n,
                max_device_pes);
    return debug("no device heap: more than %d PEs", max_device_pes);
  }
  if (!heap.own) {
    if (!map(mapped)) return;
    is_main = self.device_main;
    self.device = mapped;
    self.flags = {{uintptr_t(flags.own), flag_bytes()}, nullptr};
    net::open_device(near);
  } else {
    MUST(hipSetDevice(chosen), "hipSetDevice");
    MUST(hipMemset(flags.own, 0, flag_bytes()), "hipMemset of the flags");
    copies_arrive();
    self.device_main = is_main;
  }
  self.device = mapped;
  publish({flags.own, flags.peer.data()});
  open_tuning();
  if (self.device_main) use();
}

bool has_threads() {
  return self.device.size != 0 && runtime::hardware;
}

void use() {
  if (near || self.far) return;
  self.far = true;
  choose_spans();
}

// Nobody uses any PE's heap. In exit() the runtime may have taken itself down already; the
// process's end closes all.
void close() {
  if (!self.device.delta) return;
  close_ring();
  if (!self.exiting) {
    MUST(hipSetDevice(chosen), "hipSetDevice");
    unpublish();
    drop_streams();
  }
  self.far = self.device_main = false;
  self.device = {};
}

} // namespace gpu
} // namespace shmem

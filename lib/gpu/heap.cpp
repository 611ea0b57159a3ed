// SPDX-License-Identifier: MIT
// The device heap: one allocation on each PE's GPU, exported once, mapped by all others, and tried
// out before anyone uses it.
#include "heap.hpp"
#include "../../device/kernels.hpp"
#include "../../device/norm.hpp"
#include "../../device/runtime.hpp"
#include "../net.hpp"
#include "../team.hpp"
#include "../tune.hpp"
#include "choice.hpp"
#include "copy.hpp"
#include "engines.hpp"
#include "grow.hpp"
#include "hip.hpp"
#include "publish.hpp"
#include "ring.hpp"
#include "teams.hpp"
#include "trial.hpp"
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <tuple>

namespace shmem::gpu {

namespace {

constexpr int max_device_pes = device::max_pes; // what kernels have room for

// An allocation of this PE, and where the others' are mapped here.
struct Mapped {
  char *raw, *own;             // as allocated, and its aligned start
  std::vector<uintptr_t> peer; // of each PE of the node: its aligned start
  std::vector<char *> opened;
};
// What this process has, until it leaves the job.
struct {
  Mapped heap, flags;
  bool grows; // the heap: it is not an allocation
  // Whether the CPU and all GPUs share one memory: what the CPU does there is as fast as anywhere,
  // and atomic with what kernels do. Over PCIe it is neither: loads wait for each line, and an
  // atomic is two transfers.
  bool near;
  bool is_main;  // shmem_malloc takes from this heap
  Region region; // the heap
} memory;

struct Export {
  hipIpcMemHandle_t heap, flags;
  size_t start; // of the heap in its allocation
};

// Several PEs on one GPU share it, and the size is the same on all PEs. One that the user asked for
// is taken or refused. upto: what it may grow to.
size_t heap_bytes(size_t &upto) {
  const Gpu &mine = gpus[size_t(self.local)];
  memory.near = true;
  exchange_value(*self.world, mine.near, [&](int, bool theirs) { memory.near &= theirs; });
  // After init shmem_malloc may have given host memory.
  self.device_main =
      self.env.heap == Env::device ||
      (self.env.heap == Env::anywhere && !self.ready && runtime::heap_on_device(memory.near));
  const char *name = self.device_main ? "SYMMETRIC_SIZE" : "DEVICE_SIZE", *text = env_text(name);
  const size_t want = self.device_main ? self.env.symmetric_size : self.env.device_size;
  struct Share {
    size_t bytes, upto, sharers;
    Gpu gpu;
  } share{0, 0, 0, mine}, least{};
  share.sharers = size_t(std::count(gpus.begin(), gpus.end(), mine));
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
      self.env.heap_grow != Env::none ? open_chunks(front, bytes, upto, memory.heap.peer) : 0;
  memory.grows = most != 0;
  if (memory.grows) {
    memory.heap.own = reinterpret_cast<char *>(memory.heap.peer[self.local]);
    memory.flags.own = memory.heap.own - front;
    for (const uintptr_t at : memory.heap.peer) memory.flags.peer.push_back(at - front);
  } else {
    void *p = nullptr;
    MUST(hipExtMallocWithFlags(&p, bytes + max_align, hipDeviceMallocFinegrained),
         "hipExtMallocWithFlags of %zu bytes for the symmetric heap", bytes + max_align);
    memory.heap.raw = static_cast<char *>(p);
    memory.heap.own = reinterpret_cast<char *>(round_up(uintptr_t(p), max_align));
    MUST(runtime::malloc_flags(&p, flag_bytes(), chosen),
         "hipExtMallocWithFlags of %zu bytes for flags", flag_bytes());
    memory.flags.raw = memory.flags.own = static_cast<char *>(p);
  }
  // Without a GPU memory is new pages of a file: zero, and not there until they are touched.
  if (runtime::hardware)
    MUST(hipMemset(memory.flags.own, 0, flag_bytes()), "hipMemset of the flags");
  MUST(hipDeviceSynchronize(), "hipDeviceSynchronize");
  return memory.grows ? most : bytes;
}

// Unmaps what the others share.
void close_peers() {
  for (Mapped *m : {&memory.heap, &memory.flags})
    for (char *opened : m->opened)
      if (opened) MUST(hipIpcCloseMemHandle(opened), "hipIpcCloseMemHandle");
}
// Frees what this PE has, which nobody else has mapped: the job goes on without a device heap.
void drop() {
  for (Mapped *m : {&memory.heap, &memory.flags}) {
    MUST(hipFree(m->raw), "hipFree");
    *m = {};
  }
  gpus.clear();
  self.device_only = self.device_main = false;
  chosen = -1;
  give_up();
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
  const Gpu &theirs = gpus[size_t(local)], &mine = gpus[size_t(self.local)];
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
  mine.start = size_t(memory.heap.own - memory.heap.raw);
  for (auto [handle, m, what] : {std::tuple(&mine.heap, &memory.heap, "symmetric heap"),
                                 std::tuple(&mine.flags, &memory.flags, "flags")}) {
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
    memory.heap.opened[i] = map_export(i, all[i].heap, "symmetric heap");
    memory.heap.peer[i] = uintptr_t(memory.heap.opened[i]) + all[i].start;
    if (*refused) break;
    memory.flags.opened[i] = map_export(i, all[i].flags, "flags");
    memory.flags.peer[i] = uintptr_t(memory.flags.opened[i]);
  }
  if (all_share()) return true;
  close_peers();
  sync(*self.world); // memory that a peer has mapped must not be freed
  return drop(), false;
}

// All PEs choose alike: by the architecture of PE 0's GPU and the fewest workgroups that any holds.
// Four collectives at a time, of other teams, are resident at once, because each has a quarter of
// the workgroups of its kind that the GPU holds; a fifth may wait for one of them that waits for
// it.
void open_tuning() {
  struct Hardware {
    char name[256];
    unsigned blocks, short_rows;
  } mine{}, all{};
  hipDeviceProp_t prop;
  MUST(hipGetDeviceProperties(&prop, chosen), "hipGetDeviceProperties");
  snprintf(mine.name, sizeof mine.name, "%s", prop.gcnArchName);
  MUST(kernels::residents(chosen, device::max_threads, &mine.blocks),
       "the occupancy of the collectives' kernels");
  MUST(rows::residents(chosen, &mine.short_rows), "the occupancy of the norms' kernels");
  exchange_value(*self.world, mine, [&](int pe, const Hardware &k) {
    if (pe == 0) all = k;
    all.blocks = std::min(all.blocks, k.blocks);
    all.short_rows = std::min(all.short_rows, k.short_rows);
  });
  const auto count = unsigned(channels().count);
  tune::open(all.name, {std::min(all.blocks / 4, count), unsigned(channels().with_lines),
                        std::min(all.short_rows / 4, count)});
}

// Chooses a device, allocates, and maps what the others have; false where there is to be no device
// heap.
bool map(Region &device, int known) {
  if (!choose(known)) return give_up(), false;
  exchange_gpus();
  size_t upto;
  const size_t bytes = heap_bytes(upto);
  size_t room = std::max(bytes, (size_t(self.n_local) + 2) * 8); // for the trial
  const size_t most = allocate(room, upto);
  if (!memory.grows && !exchange_handles()) return false;
  try_out({{memory.heap.peer.data(), "symmetric heap", 0, room / 8 - 1},
           {memory.flags.peer.data(), "flags", trial_at() / 8, flag_bytes() / 8 - 1}});
  auto *delta = new uintptr_t[size_t(self.n_local)];
  for (int i = 0; i < self.n_local; i++)
    delta[i] = memory.heap.peer[i] - uintptr_t(memory.heap.own);
  device = {{uintptr_t(memory.heap.own), memory.grows ? most : bytes}, delta};
  self.device_kept = memory.grows ? room : bytes;
  debug("device heap of %zu bytes, up to %zu, at %p on GPU %d (%s)%s", self.device_kept,
        device.size, static_cast<void *>(memory.heap.own), chosen, gpus[size_t(self.local)].bus,
        memory.near ? ", as near as host memory" : "");
  return true;
}

} // namespace

// The heap and the mappings live as long as the process is in the job, and shmem_init after
// shmem_finalize finds them again. Memory that was exported stays pinned after hipFree (ROCm 7.2),
// so that a PE that inits again would have it twice.
void open_late(int device) {
  if (self.n > max_device_pes) {
    if (self.env.heap == Env::device)
      fatal_all("SHMEM_HEAP = \"device\": %d PEs: this build takes at most %d", self.n,
                max_device_pes);
    give_up();
    return debug("no device heap: more than %d PEs", max_device_pes);
  }
  if (!memory.heap.own) {
    if (!map(memory.region, device >= 0 ? device : device_of_modules())) return;
    memory.is_main = self.device_main;
    self.device = memory.region;
    self.flags = {{uintptr_t(memory.flags.own), flag_bytes()}, nullptr};
    net::open_device(memory.near);
  } else {
    MUST(hipSetDevice(chosen), "hipSetDevice");
    MUST(hipMemset(memory.flags.own, 0, flag_bytes()), "hipMemset of the flags");
    copies_arrive();
    self.device_main = memory.is_main;
  }
  self.device = memory.region;
  publish({memory.flags.own, memory.flags.peer.data()});
  open_tuning();
  if (self.device_main) use();
}

void open() {
  if (!may_open()) return;
  if (memory.heap.own || asked(has_kernels())) return open_late(-1);
  debug("no device heap: no PE has asked for a GPU%s",
        self.env.gpu_choice == Env::gpu::none ? ", by SHMEM_DEVICE = none here" : "");
}

bool has_threads() {
  return self.device.size != 0 && runtime::hardware;
}

void use() {
  if (memory.near || self.device_only) return;
  self.device_only = true;
  choose_spans();
}

// Nobody uses any PE's heap. In exit() the runtime may have taken itself down already; the
// process's end closes all.
void close() {
  forget_teams();
  if (!self.device.delta) return;
  close_ring();
  if (!self.exiting) {
    MUST(hipSetDevice(chosen), "hipSetDevice");
    unpublish();
    close_copies();
    drop_engines();
    drop_streams();
  }
  self.device_only = self.device_main = false;
  self.device = {};
}

void leave() {
  if (memory.heap.own) {
    const OnDevice on;
    close_peers();
    sync(*self.world); // memory that a peer has mapped must not be freed
    close_chunks();
    for (Mapped *m : {&memory.heap, &memory.flags}) MUST(hipFree(m->raw), "hipFree");
    delete[] memory.region.delta;
  }
  memory = {};
  give_up(false);
  gpus.clear();
  chosen = -1;
}

} // namespace shmem::gpu

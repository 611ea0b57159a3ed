// SPDX-License-Identifier: MIT
// Queues and their packets. One thread of the process is the packet processor and the compute units
// of all GPUs: where PEs outnumber the cores, more would only take them from each other.
#include "clock.hpp"
#include "decode.hpp"
#include "driver.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <elf.h>
#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <list>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>

namespace amdgpu {
namespace {

// Of vendor's packets: commands, with which ROCr empties the code's caches, and HIP 6.4's barriers
// of graphs.
constexpr uint8_t commands = 1, barrier_value = 2;
constexpr uint16_t vendor = 0, invalid = 1, dispatch = 2, barrier_and = 3, barrier_or = 5;

struct Dispatch : Kernel {
  alignas(64) uint8_t copy[packet_bytes]; // the slot of the ring may be written again while it runs
  uint64_t signal = 0;
};

struct Queue {
  unsigned node = 0;
  uint8_t *ring = nullptr;
  uint64_t bytes = 0, read = 0;
  volatile uint64_t *read_index = nullptr, *doorbell = nullptr;
  uint64_t rung = 0, announced = 0; // the doorbell's last value, and how many packets it told of
  std::list<Dispatch> running;
  bool sdma = false;
  const Dispatch *launching = nullptr; // of these, the one with workgroups that have no place yet
  Ps now = 0, end = 0; // where there is a clock: of the packet processor, and of what has ended
};

// Shared by the calls below and the packet processor. Not destroyed when the process ends, because
// the processor is still there.
std::mutex &lock = *new std::mutex;
std::atomic<int> wanted; // by so many of the calls, which the processor would never let in
struct Call {
  Call() {
    wanted++;
    lock.lock();
    wanted--;
  }
  ~Call() { lock.unlock(); }
  Call(const Call &) = delete;
};
auto &queues = *new std::map<uint64_t, std::unique_ptr<Queue>>;
auto &machines = *new std::map<unsigned, Machine>;
uint64_t next_queue = 1;
std::atomic<bool> stale_code;

template <class T> T field(const uint8_t *from, size_t offset) {
  T value;
  memcpy(&value, from + offset, sizeof value);
  return value;
}

// A signal's value becomes change(value), and the threads that wait for it are told.
template <class F> void change(amd_signal_t *signal, F f) {
  const uint64_t mailbox = signal->event_mailbox_ptr;
  const uint32_t id = signal->event_id; // read before: the signal is gone once its value is there
  f(const_cast<int64_t *>(&signal->value));
  if (mailbox)
    __atomic_store_n(reinterpret_cast<uint64_t *>(mailbox), uint64_t(id), __ATOMIC_SEQ_CST);
  set_event(id);
}
Ps seen_to_end; // where there is a clock: the last end of a packet so far
// The packet processor's end of a packet, which began then and ends now, or at that time of the
// clock.
void complete(uint64_t handle, uint64_t started, Ps end = 0) {
  if (!handle) return;
  auto *signal = reinterpret_cast<amd_signal_t *>(handle);
  signal->start_ts = started;
  signal->end_ts = timed() ? ticks_at(end) : ticks();
  if (timed()) {
    seen_to_end = std::max(seen_to_end, end);
    stamp_at(const_cast<int64_t *>(&signal->value), end);
  }
  change(signal, [](int64_t *value) { __atomic_fetch_sub(value, 1, __ATOMIC_SEQ_CST); });
}

// Scratch on demand. A queue has memory for the stacks of so many waves, each with so many KiB;
// where a kernel wants more, the queue tells the runtime so by its signal and stands still until
// that is 0 again. The runtime knows of the packet by the queue's read index.
constexpr int64_t wants_scratch = 1, scratch_was_for_once = 512;
amd_queue_t &described(const Queue &q) {
  return *reinterpret_cast<amd_queue_t *>(reinterpret_cast<uint64_t>(q.read_index) -
                                          offsetof(amd_queue_t, read_dispatch_id));
}
amd_signal_t *inactive(const Queue &q) {
  return reinterpret_cast<amd_signal_t *>(described(q).queue_inactive_signal.handle);
}
bool stands_still(const Queue &q) {
  return inactive(q) && __atomic_load_n(&inactive(q)->value, __ATOMIC_SEQ_CST);
}
void ask(const Queue &q, int64_t what) {
  change(inactive(q), [=](int64_t *value) { __atomic_store_n(value, what, __ATOMIC_SEQ_CST); });
}
bool has_scratch(const Queue &q, const uint8_t *packet) {
  const uint64_t wanted = field<uint32_t>(packet, 24),
                 kib = described(q).compute_tmpring_size >> 12;
  return wanted * lanes <= kib << 10;
}

// Of a kernel: that of the symbol at its descriptor, in the code object that the loader has put
// there.
std::string name_of(const uint8_t *descriptor) {
  const Range range = range_of(descriptor);
  if (range.bytes < sizeof(Elf64_Ehdr) || memcmp(range.begin, ELFMAG, SELFMAG)) return "?";
  const auto *head = reinterpret_cast<const Elf64_Ehdr *>(range.begin);
  const auto *program = reinterpret_cast<const Elf64_Phdr *>(range.begin + head->e_phoff);
  const Elf64_Sym *symbols = nullptr;
  const char *names = nullptr;
  uint64_t count = 0;
  for (int i = 0; i < head->e_phnum; i++) {
    if (program[i].p_type != PT_DYNAMIC) continue;
    for (auto *d = reinterpret_cast<const Elf64_Dyn *>(range.begin + program[i].p_vaddr); d->d_tag;
         d++) {
      const uint8_t *at = range.begin + d->d_un.d_val;
      if (d->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const Elf64_Sym *>(at);
      if (d->d_tag == DT_STRTAB) names = reinterpret_cast<const char *>(at);
      if (d->d_tag == DT_HASH) count = reinterpret_cast<const uint32_t *>(at)[1];
    }
  }
  for (uint64_t i = 0; symbols && names && i < count; i++)
    if (range.begin + symbols[i].st_value == descriptor) {
      std::string name = names + symbols[i].st_name;
      return name.substr(0, name.rfind(".kd"));
    }
  return "?";
}

// Where there is a clock, the host's own time does not count: a packet comes at the end of all
// packets that have ended so far, which the host may have seen.
void begin(Queue &q, uint16_t header) {
  q.now = std::max(q.now, seen_to_end);
  if (header & 256) q.now = std::max(q.now, q.end); // the barrier bit
}

void start(Queue &q, const uint8_t *packet) {
  Dispatch &k = q.running.emplace_back();
  memcpy(k.copy, packet, packet_bytes);
  k.packet = k.copy;
  k.descriptor = reinterpret_cast<const uint8_t *>(field<uint64_t>(k.copy, 32));
  k.entry = k.descriptor + field<int64_t>(k.descriptor, 16);
  k.signal = field<uint64_t>(k.copy, 56);
  k.name = name_of(k.descriptor);
  k.total = 1;
  for (int d = 0; d < 3; d++) {
    k.size[d] = std::max<uint32_t>(1, field<uint16_t>(k.copy, 4 + 2 * size_t(d)));
    k.grid[d] = std::max<uint32_t>(1, field<uint32_t>(k.copy, 12 + 4 * size_t(d)));
    k.groups[d] = (k.grid[d] + k.size[d] - 1) / k.size[d];
    k.total *= k.groups[d];
  }
  k.left = k.total;
  k.scratch = field<uint32_t>(k.copy, 24);
  if (k.scratch) k.most_waves = described(q).compute_tmpring_size & 4095;
  k.lds = field<uint32_t>(k.copy, 28);
  k.registers = ((field<uint32_t>(k.descriptor, 48) & 63) + 1) * 8; // gfx90a counts in eights
  if (!has_room(k))
    stop(nullptr,
         "kernel %s: a workgroup of %u x %u x %u with %u bytes of LDS and %u registers a lane has "
         "no "
         "room on a compute unit",
         k.name.c_str(), k.size[0], k.size[1], k.size[2], k.lds, k.registers);
  if (k.waves() > k.most_waves)
    stop(nullptr, "kernel %s: a workgroup of %u waves, but the queue has scratch for %u",
         k.name.c_str(), k.waves(), k.most_waves);
  k.queue = reinterpret_cast<uint64_t>(&described(q));
  Machine &machine = machines.at(q.node);
  if (Strict *strict = machine.strict()) {
    // Instructions and descriptors come by the L2.
    const Range code = range_of(k.descriptor);
    strict->forget(reinterpret_cast<uint64_t>(code.begin), code.bytes);
  }
  if (const Rates *rates = timed()) {
    begin(q, field<uint16_t>(packet, 0));
    q.now += Ps(rates->launch_ns * 1000);
    k.begin = k.end = q.now;
    machine.die()->acquire();
  }
  q.launching = &k;
  machine.start(&k);
}

// True when the signals of a barrier packet allow it to end.
bool passed(const uint8_t *packet, bool all) {
  bool any = false, every = true, some = false;
  for (size_t i = 0; i < 5; i++) {
    const uint64_t handle = field<uint64_t>(packet, 8 + 8 * i);
    if (!handle) continue;
    some = true;
    const bool done =
        __atomic_load_n(&reinterpret_cast<amd_signal_t *>(handle)->value, __ATOMIC_SEQ_CST) == 0;
    any |= done, every &= done;
  }
  return all ? every : any || !some;
}

// The same of AMD's barrier on the value of one signal: of its bits under a mask, beside a number.
bool compares(const uint8_t *packet) {
  const uint64_t handle = field<uint64_t>(packet, 8);
  if (!handle) return true;
  const int64_t value =
      __atomic_load_n(&reinterpret_cast<amd_signal_t *>(handle)->value, __ATOMIC_SEQ_CST) &
      field<int64_t>(packet, 24);
  const int64_t wanted = field<int64_t>(packet, 16);
  switch (field<uint32_t>(packet, 32)) {
  case HSA_SIGNAL_CONDITION_EQ:
    return value == wanted;
  case HSA_SIGNAL_CONDITION_NE:
    return value != wanted;
  case HSA_SIGNAL_CONDITION_LT:
    return value < wanted;
  case HSA_SIGNAL_CONDITION_GTE:
    return value >= wanted;
  }
  stop(nullptr, "a barrier on a value: unknown condition %u", field<uint32_t>(packet, 32));
}

// The fences that a packet's header asks for, of the GPU or of the system.
void acquire(Queue &q, uint16_t header) {
  if (Strict *strict = machines.at(q.node).strict()) strict->acquire((header >> 9 & 3) == 2);
}
void release(Queue &q, uint16_t header) {
  if (Strict *strict = machines.at(q.node).strict()) strict->release((header >> 11 & 3) == 2);
}
// The packet is done with: its slot of the ring, and what its owner keeps beside it, may be written
// again.
void free_slot(Queue &q) {
  __atomic_store_n(reinterpret_cast<uint16_t *>(q.ring + q.read * packet_bytes % q.bytes), invalid,
                   __ATOMIC_RELEASE);
  *q.read_index = ++q.read;
}

bool serve_sdma(Queue &q) {
  const uint64_t before = q.read, end = __atomic_load_n(q.doorbell, __ATOMIC_ACQUIRE);
  if (timed() && q.read < end) q.now = std::max(q.now, seen_to_end);
  while (q.read < end) {
    const uint64_t at = q.read % q.bytes, there = std::min(end - q.read, q.bytes - at);
    const size_t words =
        run_sdma(reinterpret_cast<const uint32_t *>(q.ring + at), there / 4, &q.now);
    if (!words) break;
    if (timed()) seen_to_end = std::max(seen_to_end, q.now);
    q.read += 4 * words;
    __atomic_store_n(q.read_index, q.read, __ATOMIC_RELEASE);
  }
  return q.read != before;
}

// Threads that share a queue ring its doorbell in any order, and the value may go back: a ring
// tells of all packets that have their place by then.
void listen(Queue &q) {
  const uint64_t rung = __atomic_load_n(q.doorbell, __ATOMIC_ACQUIRE);
  if (rung != q.rung) q.rung = rung, q.announced = described(q).write_dispatch_id;
}

// Does as much as it can now for the packets of a queue. True if that was something.
bool serve(Queue &q) {
  if (q.sdma) return serve_sdma(q);
  bool worked = false;
  // A launch ends when all workgroups have their place, and all waves their arguments: ROCr's
  // copies have arguments in a ring as long as the queue's. ROCr writes them again when the slot is
  // free.
  if (q.launching && q.launching->next == q.launching->total && !q.launching->unread) {
    q.launching = nullptr;
    free_slot(q);
    worked = true;
  }
  for (auto k = q.running.begin(); k != q.running.end();) {
    if (k->left) {
      ++k;
      continue;
    }
    release(q, field<uint16_t>(k->copy, 0));
    if (const Rates *rates = timed()) {
      k->end += Ps(rates->end_ns * 1000);
      q.end = std::max(q.end, k->end);
      complete(k->signal, ticks_at(k->begin), k->end);
      report(*k);
    } else {
      complete(k->signal, ticks());
    }
    if (k->scratch && described(q).queue_properties & AMD_QUEUE_PROPERTIES_USE_SCRATCH_ONCE)
      ask(q, scratch_was_for_once);
    k = q.running.erase(k);
    worked = true;
  }
  listen(q);
  while (!q.launching && !stands_still(q) && q.read < q.announced) {
    uint8_t *packet = q.ring + q.read * packet_bytes % q.bytes;
    const uint16_t header = __atomic_load_n(reinterpret_cast<uint16_t *>(packet), __ATOMIC_ACQUIRE),
                   type = header & 255;
    if (type == invalid) break;                    // the ring's owner has not written it yet
    if (header & 256 && !q.running.empty()) break; // the barrier bit
    if (type == dispatch) {
      if (!has_scratch(q, packet)) {
        ask(q, wants_scratch);
        return true;
      }
      acquire(q, header);
      start(q, packet);
      return true;
    }
    // A packet of the processor's own, which waits for so many signals.
    const auto pass = [&](size_t signals) {
      if (const Rates *rates = timed()) {
        begin(q, header);
        for (size_t i = 0; i < signals; i++)
          if (const uint64_t handle = field<uint64_t>(packet, 8 + 8 * i))
            q.now = std::max(q.now, stamped_at(const_cast<int64_t *>(
                                        &reinterpret_cast<amd_signal_t *>(handle)->value)));
        q.now += Ps(rates->packet_ns * 1000);
        q.end = std::max(q.end, q.now);
        complete(field<uint64_t>(packet, 56), ticks_at(q.now), q.now);
      } else {
        complete(field<uint64_t>(packet, 56), ticks());
      }
    };
    if (type == barrier_and || type == barrier_or) {
      if (!passed(packet, type == barrier_and)) break;
      acquire(q, header), release(q, header);
      pass(5);
    } else if (type == vendor && field<uint8_t>(packet, 2) == barrier_value) {
      if (!compares(packet)) break;
      acquire(q, header), release(q, header);
      pass(1);
    } else if (type == vendor && field<uint8_t>(packet, 2) == commands) {
      forget_code();
      acquire(q, 2 << 9);
      pass(0);
    } else {
      stop(nullptr, "unknown packet: header 0x%04x, format %u", header, field<uint8_t>(packet, 2));
    }
    free_slot(q);
    worked = true;
  }
  return worked;
}

[[noreturn]] void processor() {
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); // sleeps end when they should, and not up to 50 us later
  int idle = 0;
  for (;;) {
    if (stale_code.exchange(false)) forget_code();
    bool worked = false, busy = false;
    {
      std::lock_guard guard(lock);
      for (auto &[id, queue] : queues) worked |= serve(*queue), busy |= !queue->running.empty();
      for (auto &[node, machine] : machines)
        if (machine.busy()) worked |= machine.turn();
    }
    // Others get the core: a kernel polls for their stores. By sleeping, because Linux 6.18 takes
    // the rest of its slice from a thread that yields: where PEs outnumber the cores it ran for 0.9
    // s of 25 and stood in line for 20 (2026-11-22).
    idle = worked ? 0 : idle + 1;
    if (!worked || wanted) usleep(idle < 50 ? 1 : idle < 2000 || busy ? 50 : 500);
  }
}

struct sigaction before[2];
void fault(int number, siginfo_t *info, void *context) {
  if (current) stop(current, "lane %d: memory fault at 0x%lx", current->lane, current->address);
  const struct sigaction &other = before[number == SIGBUS];
  if (other.sa_flags & SA_SIGINFO) return other.sa_sigaction(number, info, context);
  sigaction(number, &other, nullptr); // and the instruction faults again
}

// With the lock held. The processor begins with the first queue.
uint64_t add(std::unique_ptr<Queue> queue) {
  if (next_queue == 1) {
    struct sigaction action = {};
    action.sa_sigaction = fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before[0]);
    sigaction(SIGBUS, &action, &before[1]);
    std::thread(processor).detach();
  }
  queues[next_queue] = std::move(queue);
  return next_queue++;
}
std::unique_ptr<Queue> make(void *ring, uint64_t bytes, volatile uint64_t *read_index,
                            volatile uint64_t *doorbell) {
  auto queue = std::make_unique<Queue>();
  queue->ring = static_cast<uint8_t *>(ring), queue->bytes = bytes;
  queue->read_index = read_index, queue->doorbell = doorbell;
  return queue;
}

} // namespace

void memory_goes(const Range &range) {
  if (!range.bytes || !strict_seed()) return;
  const Call call;
  for (auto &[node, machine] : machines)
    if (Strict *strict = machine.strict())
      strict->forget(reinterpret_cast<uint64_t>(range.begin), range.bytes);
}
void code_changed() {
  stale_code = true;
}

uint64_t create_queue(unsigned node, void *ring, uint64_t bytes, volatile uint64_t *read_index,
                      volatile uint64_t *doorbell) {
  auto queue = make(ring, bytes, read_index, doorbell);
  queue->node = node;
  queue->read = queue->announced = *read_index;
  *doorbell = queue->rung = queue->read - 1; // the index of a packet that there will not be
  const Call call;
  machines.try_emplace(node, node, int(nodes().units));
  return add(std::move(queue));
}
uint64_t create_sdma(void *ring, uint64_t bytes, volatile uint64_t *read_index,
                     volatile uint64_t *doorbell) {
  auto queue = make(ring, bytes, read_index, doorbell);
  queue->sdma = true;
  *read_index = 0;
  *doorbell = 0; // the end of what was announced
  const Call call;
  return add(std::move(queue));
}
bool destroy_queue(uint64_t id) {
  const Call call;
  const auto at = queues.find(id);
  if (at == queues.end()) return false;
  // A kernel that never ends would be taken from its waves; here it keeps its place, unserved.
  if (!at->second->running.empty()) (void)at->second.release();
  queues.erase(at);
  return true;
}

} // namespace amdgpu

// SPDX-License-Identifier: MIT
// What the files of this folder share: one worker, whose lock is ours, because not every UCX is
// built for several threads, and the peers, which are in worker.cpp. transfer.cpp puts and gets,
// quiet.cpp completes, message.cpp asks other PEs, answers them, and passes the messages of
// collectives. open.cpp brings all that up and down, with a thread that answers.
#pragma once
#include "../../log.hpp"
#include "../../memory/buffer.hpp"
#include "../../memory/chunks.hpp"
#include "../../net.hpp"
#include "../../sync.hpp"
#include <algorithm>
#include <mutex>
#include <ucp/api/ucp.h>
#include <vector>

namespace shmem::net {

// Memory of a peer: where it is there, and its key.
struct Theirs {
  uint64_t base;
  ucp_rkey_h key;
};
struct TheirPart : Theirs {
  std::atomic<bool> known;
};

// What is registered, and named in messages by its number in `registered`: regions that all PEs
// have from the start, the heaps without what comes later; behind them the program's own buffers;
// and then, at the places of their first units, the chunks by which the heap grows and the one in
// device memory.
enum : int {
  heap_region,
  data_region,
  device_region,
  flags_region,
  regions,
  chunks = regions + buffer::most,
  all_names = chunks + 2 * int(most_units)
};
static_assert(all_names <= UINT16_MAX);
struct Registered {
  const Span *span = nullptr; // null: none
  ucp_mem_h memory = nullptr;
  // It is for the GPU to read and write, and UCX may not know one: then it goes by messages, and a
  // copy by the GPU on either side.
  bool far = false;
  TheirPart *theirs = nullptr; // of a buffer or a chunk: by PE
};
extern Registered registered[all_names];

// A heap that may grow.
struct Heap {
  const Region *region;
  Span kept;                               // is there from the start
  size_t unit;                             // of its chunks
  std::atomic<uint16_t> first[most_units]; // of each unit: the first of its chunk, from 1; 0: none
  void open(const Region &all, size_t bytes) {
    region = &all;
    kept = {all.base, bytes};
    unit = chunk_unit(bytes, all.size);
  }
  bool grows() const { return region && kept.size != region->size; }
};
extern Heap heaps[2]; // the second is in device memory

struct Name {
  int region;
  uint64_t offset;
  size_t room; // that may be asked for together
};
Name name_of(const void *p, int pe); // where PE pe has it, which must be in its buffer's team

inline constexpr size_t small_block = 1024; // goes as one fragment, and from a copy

inline constexpr int max_far_pes = 1 << 20; // a tag has 20 bits for a PE, see coll/nodes.hpp

// The variables by which PEs decide alike what they do together.
inline constexpr const char *common[] = {"P2P",        "HEAP",      "HEAP_GROW", "CHECK",
                                         "COLL_TEAMS", "COLL_SIZE", "TUNE_FILE"};

// What a PE tells all others, once a node in the segment.
struct Version {
  uint8_t part[3];
  bool operator==(const Version &) const = default;
};
struct Entry {
  Version library, ucx;
  uint16_t length;                      // of the address
  uint32_t heap, upto, data;            // pages; of the heap at the start, and what fits
  uint32_t program;                     // a sum of the executable
  uint16_t settings[std::size(common)]; // sums of their values
  int first;                            // PE of its node
  int node;                             // filled by who reads it
  char address[208];                    // or its beginning: with many interfaces it is longer
};
static_assert(sizeof(Entry) == 256);

// Stores that are messages are answered in their order among those of the same lane: by the
// processor, by copies and stores of the GPU, by its atomics. Those of the last lane are not: a
// processor does them as they come, and they come in their order, so a pulse that follows them is
// answered for all (p + wait_until over tcp, one way: 21 us with an answer each, and 10 so;
// 2026-11-24).
enum Lane { by_host, by_copy, by_gpu, in_order, lanes };

// What is begun at a peer in one way, by the clock of what this PE begins: the last of it, and up
// to which all of it is done. Where nothing is on its way that is up to the one that begins now: a
// context's quiet may ask for a number of another way, and would wait for what comes after it.
struct Course {
  uint64_t last, done;
  void begin(uint64_t now) {
    if (done >= last) done = now - 1;
    last = now;
  }
  bool is_done(uint64_t until = ~uint64_t(0)) const { return done >= std::min(last, until); }
};

// A peer of another node. Untouched ones take no memory. All but `known` is under the lock.
struct Peer {
  ucp_ep_h ep;
  Theirs region[regions];
  std::atomic<bool> known; // they are
  Course moved;            // transfers
  uint64_t flushing;       // up to which they are done with the flush that is on its way, if any
  Course stored[lanes];    // stores that are messages, done when they are answered
  uint64_t pulsed;         // of the last lane: up to which a pulse has been sent
  bool listed;             // among the busy
  bool by_card;            // puts and gets are a card's there, not UCX's messages
  bool answers(uint64_t until) const {
    return std::all_of(stored, stored + lanes, [&](const Course &c) { return c.is_done(until); });
  }
  bool busy() const { return !moved.is_done() || !answers(~uint64_t(0)); }
};

// What quiet is to complete. Under the lock, but for loads of the atomics.
struct Begun {
  std::atomic<uint64_t> now;  // the clock
  std::vector<Peer *> busy;   // where something is begun
  std::atomic<size_t> n_busy; // so that a quiet that has nothing to do takes no lock
  std::atomic<uint64_t> news; // how often that has changed which quiet waits for
};
extern Begun begun;

extern ucp_context_h context;
extern ucp_worker_h worker;
extern std::mutex lock; // of the worker
extern Peer *peers;
extern bool ucx_knows_gpu;

inline void must(ucs_status_t status, const char *what) {
  if (status != UCS_OK) fatal("%s: %s", what, ucs_status_string(status));
}
// What the thread that answers is to see to.
struct Answering {
  int fd = -1;                 // wakes it
  std::atomic<uint64_t> polls; // of calls, which need no help
  // The first peer whose connection has failed, and how.
  std::atomic<Peer *> failed;
  ucs_status_t failure;
  // Another node has ended the job, with this status.
  std::atomic<bool> ends;
  int status;
};
extern Answering answering;
void wake();
extern std::atomic<bool> leaving; // a connection that ends is no fault
extern std::atomic<int> unsent;   // messages that are held back

Entry *book(); // of all PEs
// What lines about other nodes say.
struct Text {
  char text[256];
};
[[gnu::format(printf, 1, 2)]] Text print(const char *format, ...);
Text with_host(int pe);
// By which transports and interfaces this PE may go; UCX takes all that it finds.
Text ways();
// What may keep a network card from memory.
Text limit_of_registrations();

// The job ends, or this PE leaves it: peers may be gone, and that is no fault.
bool over();
int first_of(int pe); // the first PE of its node
// The rest is under the lock.
ucp_ep_h endpoint(int pe);
// Something is begun there, one of those, that quiet is to complete. Gives its number.
uint64_t tick(Peer &peer, Course &course);
void tell_quiet(); // that some of it is done
// For UCX's calls: counts one more, and one less once it is done. What is begun may be done at
// once, without a request; then began counts.
ucp_request_param_t counted(std::atomic<int> *count);
void done(void *request, ucs_status_t status, void *count); // its callback
void began(ucs_status_ptr_t request, std::atomic<int> *count, const char *what);
// Where another PE has that region, and its key. Takes the lock itself.
const Theirs &reach(int pe, int region);
// What UCX does not do itself, or not well: see move.
void move_by_message(Way way, const Name &there, int pe, void *here, const Blocks &blocks);
// A small put: to memory that the processor there reaches in the order of what is asked of that PE.
void put_message(const Name &there, int pe, const void *here, size_t bytes);
void drop_copies(); // of small puts, once all are done
// Asks for the answer to all that the last lane holds. Under the lock.
void pulse_in_order(Peer &peer);
// Asks whether a PE is there; answered is set once it has said so.
void ask_pulse(int pe, std::atomic<bool> *answered);
// Makes the worker call what answers messages.
void listen();
// Another node has ended the job, with this status; the answer may not be out yet.
void ended_elsewhere(int status);

// Until f() is false, which others make so. Without the lock. Most of what is small is done when it
// has been begun: then nothing is asked of the worker, which may cost a system call.
template <class F> void wait_for(F &&f) {
  if (!f()) return;
  wait_slow(
      {nullptr, false}, [](void *f) { return (*static_cast<std::remove_reference_t<F> *>(f))(); },
      &f);
}

} // namespace shmem::net

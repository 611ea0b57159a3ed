// SPDX-License-Identifier: MIT
// What the files of this folder share. There is one worker, under one lock: not every UCX is built
// for several threads. One trade, one file:
//   memory.cpp        the memory that the network knows, and its names
//   address_table.cpp the addresses of all PEs, and what must be equal on all nodes
//   open.cpp          brings the worker up and down
//   worker.cpp        the worker, its endpoints, and progress
//   progress.cpp      the progress thread
//   transfer.cpp      puts and gets, by UCX or by messages
//   quiet.cpp         completes and orders them
//   wire.cpp          sends messages and hands on those that come, see message.hpp
//   request.cpp       asks other PEs; reply.cpp does what they ask; batch.cpp packs small stores
//   keys.cpp          the keys of other PEs' memory
//   tagged.cpp        the messages of collectives
#pragma once
#include "../../log.hpp"
#include "../../memory/buffer.hpp"
#include "../../memory/chunks.hpp"
#include "../../net.hpp"
#include "../../sync.hpp"
#include "../../thread.hpp"
#include <algorithm>
#include <mutex>
#include <ucp/api/ucp.h>
#include <vector>

namespace shmem::net {

// Memory of a peer: its address there, and its key.
struct RemoteMemory {
  uint64_t base;
  ucp_rkey_h key;
};
struct RemotePart : RemoteMemory {
  std::atomic<bool> known;
};

// Registered memory by its number, which Operation::region has in messages. First come the regions
// that all PEs have from the start: of a heap the part that is there from the start. Behind them
// come the program's own buffers, and then the chunks of the heaps, each at the number of its first
// unit.
enum : uint16_t {
  buffers = Operation::regions,
  chunks = buffers + buffer::most,
  all_names = chunks + 2 * int(most_units)
};
static_assert(int(all_names) < int(Operation::by_address));
struct Registered {
  const Span *span = nullptr; // null: none
  ucp_mem_h memory = nullptr;
  // UCX may know no GPU. Then operations on device-only memory are messages, and engines copy on
  // both sides.
  bool device_only = false;
  RemotePart *remote = nullptr; // of a buffer or a chunk: by PE
};
extern Registered registered[all_names];

// A heap, as far as the network knows of its growth.
struct GrowingHeap {
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
extern GrowingHeap heaps[2]; // the second is in device memory
extern bool ucx_knows_gpu;

void register_regions();
void unregister_regions();
void destroy_keys(); // of regions
// Replaces an address in op by the region and offset that name the object in messages. Ends the
// program when PE pe is not in the object's team. Returns how many bytes from there on have the
// same name.
size_t resolve(Operation &op, int pe);
inline char *address_of(const Operation &op) { // of the same object in this PE
  return reinterpret_cast<char *>(registered[op.region].span->base + op.offset);
}

inline constexpr size_t small_block = 1024; // one fragment, sent from a copy

inline constexpr int max_remote_pes = 1 << 20; // a tag has 20 bits for a PE, see coll/nodes.hpp

// Variables whose values must be equal on all PEs, because PEs decide by them what they do
// together.
inline constexpr const char *common[] = {"P2P",        "HEAP",      "HEAP_GROW", "CHECK",
                                         "COLL_TEAMS", "COLL_SIZE", "TUNE_FILE"};

struct Version {
  uint8_t part[3];
  bool operator==(const Version &) const = default;
};
// What a PE publishes to all others: its row of the address table.
struct Entry {
  Version library, ucx;
  uint16_t length;                      // of the address
  uint32_t heap, upto, data;            // pages; of the heap at the start, and what fits
  uint32_t program;                     // a hash of the executable
  uint16_t settings[std::size(common)]; // hashes of their values
  int first;                            // PE of its node
  int node;                             // the reader fills it in
  char address[208];                    // its beginning: with many interfaces an address is longer
};
static_assert(sizeof(Entry) == 256);

// Receipts for stores by message come in the order of the stores within a lane: one each for stores
// by the processor, by the GPU's engines, and by its atomics. Stores of the last lane get no
// receipt: a processor does them as they come, in their order, so the receipt of a pulse behind
// them is for all of them (p + wait_until over tcp, one way: 21 us with a receipt each, and 10 so;
// 2026-11-24).
enum Lane : uint32_t { by_host, by_engine, by_gpu, in_order, lanes };

// Operations of one kind that this PE has begun at a peer: the number of the last one, and the
// number up to which all are done. With none on the way, `done` is the number before the next one:
// a context's quiet may ask for the number of an operation of another kind, and must not wait for
// later ones.
struct Course {
  uint64_t last, done;
  void begin(uint64_t now) {
    if (done >= last) done = now - 1;
    last = now;
  }
  bool is_done(uint64_t until = ~uint64_t(0)) const { return done >= std::min(last, until); }
};

// A remote PE. An untouched one takes no memory. `known` is atomic, and once it is set `region` and
// `by_card` no longer change; the lock guards the rest.
struct Peer {
  ucp_ep_h ep;
  RemoteMemory region[Operation::regions];
  std::atomic<bool> known; // they are
  Course moved;            // transfers by UCX
  uint64_t flushing;    // the number up to which the flush that is on its way completes them, or 0
  Course stored[lanes]; // stores by message, done when their receipt is here
  uint64_t pulsed;      // of the last lane: the number up to which a pulse has been sent
  bool listed;          // in Begun::busy
  bool by_card;         // a card does puts and gets there, rather than UCX's messages
  bool has_receipts(uint64_t until) const {
    return std::all_of(stored, stored + lanes, [&](const Course &c) { return c.is_done(until); });
  }
  bool busy() const { return !moved.is_done() || !has_receipts(~uint64_t(0)); }
};

// What quiet completes. Under the lock, but for loads of the atomics.
struct Begun {
  std::atomic<uint64_t> now;  // the number of the last operation
  std::vector<Peer *> busy;   // with operations that are not done
  std::atomic<size_t> n_busy; // a quiet with nothing to do takes no lock
  std::atomic<uint64_t> news; // how often something has become done
};
extern Begun begun;

extern ucp_context_h context;
extern ucp_worker_h worker;
extern std::mutex lock; // of the worker
extern Peer *peers;

inline void must(ucs_status_t status, const char *what) {
  if (status != UCS_OK) fatal("%s: %s", what, ucs_status_string(status));
}
// What the progress thread looks at.
struct Watched {
  std::atomic<uint64_t> polls; // of calls, which make progress themselves
  std::atomic<Peer *> failed;  // the first peer whose connection has failed, and how
  ucs_status_t failure;
  std::atomic<bool> ends; // another node has ended the job, with this status
  int status;
};
extern Watched watched;
extern Service progress_thread;
extern std::atomic<bool> leaving; // a connection that ends is no fault
extern std::atomic<int> unsent;   // messages that are held back

Version ucx_version();
void exchange_addresses(); // collective
inline Entry *rows() {     // of the address table, by PE
  return static_cast<Entry *>(self.address_table);
}
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

// Whether the job ends, or this PE leaves it: a peer that is gone is no fault then.
bool over();
// Waits for that, for at most a second: UCX's calls fail at a dead peer before this PE hears of the
// death, and the PE that has heard of the death names the dead PE.
bool over_soon();
int first_of(int pe); // the first PE of its node
// Asks whether a PE is there, and sets `replied` once it has replied.
void ask_alive(int pe, std::atomic<bool> *replied);
// The keys of a region of another PE, and where it is there. Asks the PE once.
const RemoteMemory &keys_of(int pe, int region);
// A put or a get with a resolved name, by messages; and a small put in one message, which memory
// that a processor reaches takes in its place among the stores of lane in_order.
void transfer_by_message(const Operation &op, int pe, bool device_only_here);
void put_by_message(const Operation &op, int pe);
void drop_copies();  // of small puts, once all are done
void forget_calls(); // whose replies have not come, when this PE leaves the job

// The rest is under the lock.
ucp_ep_h endpoint(int pe);
// Numbers an operation that this PE begins at a peer; quiet completes it.
uint64_t tick(Peer &peer, Course &course);
void tell_quiet(); // that something has become done
// For UCX's calls: one more in the count now, and one less when done is called. A call may be
// complete at once, without a request: began sees to that.
ucp_request_param_t counted(std::atomic<int> *count);
void done(void *request, ucs_status_t status, void *count);
void began(ucs_status_ptr_t request, std::atomic<int> *count, const char *what);
// Asks for the receipt of all stores of lane in_order.
void send_pulse(Peer &peer);
void listen(); // makes the worker hand messages to their handlers

// Waits until f() is false. Small operations are mostly complete when they have begun, so f is
// asked before the worker, which may cost a system call.
template <class F> void wait_for(F &&f) {
  if (!f()) return;
  wait_slow(
      {nullptr, false}, [](void *f) { return (*static_cast<std::remove_reference_t<F> *>(f))(); },
      &f);
}

} // namespace shmem::net

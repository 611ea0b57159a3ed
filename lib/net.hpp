// SPDX-License-Identifier: MIT
// Remote PEs: those that are not mapped, because they are on other nodes. Chosen at build time:
// net/none.cpp, whose functions do nothing or end the program, or the folder net/ucx.
#pragma once
#include "../device/operation.hpp"
#include "bootstrap.hpp"
#include "state.hpp"

namespace shmem::net {

// Ends the program when there are other nodes that cannot be reached. Before the segment is made.
void check(const bootstrap::Place &place);
// The size of the address table, which is in the node's segment.
size_t address_table_bytes();
// With the segment: publishes the addresses of all PEs. Collective, once a process.
void open();
// The same for the device heap, once each PE has it. near: processors reach it as they reach host
// memory.
void open_device(bool near);
// A buffer of the program's own, by its index in buffer::buffers. Both are collective: all members
// meet before the buffer is used, and before it is closed. The network keeps a pointer to `bytes`.
void open_buffer(int index, const Span &bytes, bool device);
void close_buffer(int index);
// A chunk of the heap, by its offsets in the heap. All PEs meet before it is used, and before it
// goes.
void open_chunk(bool device, size_t from, size_t to);
void close_chunk(bool device, size_t from);
// From start to stop a progress thread replies to the other PEs. All PEs call leave before any
// calls stop: a PE that is gone from then on is no fault.
void start();
void leave();
void stop();
// Gives back all that open has made, when this PE leaves the job.
void close();
// Ends the PEs of the other nodes as shmem_global_exit does.
void tell_exit(int status);

// The rest is for jobs of several nodes.

int node_of(int pe); // nodes are numbered by their first PEs
int nodes();
// Does op, a put or a get, at PE pe. later: the next quiet completes it. Otherwise it is complete
// on return; the source of a put may change then.
void transfer(const Operation &op, int pe, bool later);
inline void put(void *dest, int pe, const void *source, const Blocks &b, bool later) {
  transfer(Operation::of_transfer(Operation::put, dest, source, b), pe, later);
}
inline void get(void *dest, const void *source, int pe, const Blocks &b, bool later) {
  transfer(Operation::of_transfer(Operation::get, source, dest, b), pe, later);
}
// A put that is complete at the PE before atomics that are requested of that PE later.
void put_in_order(void *dest, int pe, const void *source, size_t bytes);
// A processor of the target's node does an atomic, in the PE itself, with one access as wide as the
// object. It does its neighbours' atomics in the same way, so there is one atomicity domain. What a
// network card does to memory is not atomic with processors. Returns the old value.
uint64_t atomic(const Operation &op, int pe);
// Starts an atomic, which the next quiet completes. With `then`: the reply completes it. The thread
// that makes progress calls then(arg, the old value), which must not wait.
void atomic_later(const Operation &op, int pe, void (*then)(void *, uint64_t) = nullptr,
                  void *arg = nullptr);

// Whether small stores of this thread to one PE travel in batches. A batch goes when it is full,
// when a store to another PE follows, and at send_batch or quiet.
void batch_stores(bool on);
void send_batch();
// Operations are numbered in the order in which they start. A context remembers the number of its
// last one, so its quiet ignores later operations of other contexts.
uint64_t last_begun();
// Returns when all operations that this PE has begun, or those up to that number, are complete and
// visible.
void quiet();
void quiet(uint64_t until);
void quiet_at(int pe); // at that PE alone
void quiet_at(const int *pes, size_t n, uint64_t until);
// Makes some progress without waiting; false if there was nothing to do. often: the caller polls,
// so the progress thread may leave progress to it.
bool progress(bool often = true);
// Whether a message waits until a thread makes progress.
bool held_back();

// Messages between two PEs that both expect them. Those of one tag come in order. Up to
// eager_bytes, a message travels before the other side asks, and waits in its memory.
inline constexpr size_t eager_bytes = 32 << 10;
struct Messages {
  std::atomic<int> open{0}; // not complete
  ~Messages();              // waits
  void send(int pe, uint64_t tag, const void *p, size_t bytes);
  void receive(uint64_t tag, void *p, size_t bytes);
  void wait();
};

} // namespace shmem::net

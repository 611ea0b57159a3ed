// SPDX-License-Identifier: MIT
// How PEs are reached that are not mapped, because they are on other nodes. Chosen at build time:
// net/none.cpp or the folder net/ucx.
#pragma once
#include "../device/kinds.hpp"
#include "bootstrap.hpp"
#include "state.hpp"
#include <bit>
#include <type_traits>

namespace shmem::net {

// Ends the program when there are other nodes that cannot be reached. Before the segment is made.
void check(const bootstrap::Place &place);
// What the node's segment has room for: what is known of the PEs of all nodes.
size_t book_bytes();
// With the segment: makes the addresses of all PEs known. Collective, once a process.
void open();
// The device heap, once each PE has it; near: for processors as host memory is.
void open_device(bool near);
// A buffer of the program's own at this place of buffer::buffers, which the network cannot name as
// ptr otherwise: collective, and all meet before it is used, and before it is closed.
void open_buffer(int place, const Span &bytes, bool device);
void close_buffer(int place);
// A part of the heap that has come, and one that goes, see chunks.hpp: offsets in the heap. All
// meet before the one is used, and before the other goes.
void open_chunk(bool device, size_t from, size_t to);
void close_chunk(bool device, size_t from);
// A thread answers the others from start to stop. All have come to leave before any stops: a PE
// that is gone from then on is no fault.
void start();
void leave();
void stop();
// Ends the PEs of the other nodes as shmem_global_exit does.
void tell_exit(int status);

// The rest is for jobs of several nodes.

int node_of(int pe); // nodes are numbered by their first PEs
int nodes();
// n blocks of bytes, which start so many bytes from each other there and here.
struct Blocks {
  size_t bytes, n = 1, there = 0, here = 0;
};
enum class Way : uint8_t { put, get };
// An object of PE pe is named by where this PE has it. later: done at the next quiet, else when it
// returns (of a put: here may change).
void move(Way way, void *there, int pe, void *here, const Blocks &blocks, bool later);
inline void put(void *dest, int pe, const void *source, const Blocks &blocks, bool later) {
  move(Way::put, dest, pe, const_cast<void *>(source), blocks, later);
}
inline void get(void *dest, const void *source, int pe, const Blocks &blocks, bool later) {
  move(Way::get, const_cast<void *>(source), pe, dest, blocks, later);
}
// Done there before the atomics that are asked of that PE after it.
void put_in_order(void *dest, int pe, const void *source, size_t bytes);
// Whether small stores of this thread to one PE in a row go together: when as many have come as a
// message takes, and at the latest by send_gathered or quiet.
void gather_stores(bool on);
void send_gathered();
// What this PE begins has numbers. Who keeps that of its last one waits for no later one.
uint64_t last_begun();
// All that it has begun, or that up to that number, is done where it is to be seen.
void quiet();
void quiet(uint64_t until);
void quiet_at(int pe); // there alone
void quiet_at(const int *pes, size_t n, uint64_t until);
// Does some of what there is to do without waiting; false if there was nothing. often: the caller
// polls, so the thread that answers may leave it to that.
bool progress(bool often = true);
// Something that was begun goes out only when somebody makes progress.
bool held_back();

// Messages between two PEs that both expect them; those of one tag come in order. `open` counts
// those that are not done. Of up to eager_bytes they go before the other side asks, and wait in its
// memory.
inline constexpr size_t eager_bytes = 32 << 10;
struct Messages {
  std::atomic<int> open{0};
  ~Messages(); // waits until none is
  void send(int pe, uint64_t tag, const void *p, size_t bytes);
  void receive(uint64_t tag, void *p, size_t bytes);
  void wait();
};

// Atomics are done by a processor of the target's node, in the PE itself, as those of its
// neighbours are, and as wide as the object: one domain for a variable, whoever touches it. What a
// network card does to memory is not atomic with what processors do. Gives what was there before.
uint64_t atomic(void *p, int pe, Amo op, size_t bytes, uint64_t value, uint64_t cond);
// Begins one. When it is done, whoever makes progress calls then(arg, what was there before), which
// must not wait; without `then` the next quiet completes it.
void atomic_later(void *p, int pe, Amo op, size_t bytes, uint64_t value, uint64_t cond,
                  void (*then)(void *, uint64_t) = nullptr, void *arg = nullptr);

} // namespace shmem::net

// SPDX-License-Identifier: MIT
// A kernel's knowledge of the job, one POD that the library fills on the host and publishes to
// every module of device code, and a kernel's words to the host. Shared by host and device.
#pragma once
#include "operation.hpp"
#include <cstddef>
#include <cstdint>
#include <shmem/compiler.h>
#include <type_traits>

namespace shmem::device {

inline constexpr int max_pes = 512;    // of a node; a power of two, see State::delta
inline constexpr int max_teams = 1024; // live at a time on a node
// Bytes that one writer has for itself: writers of different lines do not disturb each other. A
// GPU's cache has lines of 128 bytes; x86 has lines of 64 bytes, but fetches them in pairs.
inline constexpr size_t cache_line = 128;
inline constexpr size_t pack_bytes = 16;
inline constexpr unsigned max_wave = 64;
// For the library's collectives and products: the most threads of a workgroup, and the number of
// workgroups that keeps the links of an H200 busy (2026-11: 32 of 1024 threads reach 360 GB/s of
// 375).
inline constexpr unsigned max_threads = 512;
inline constexpr unsigned max_channels = 64;
constexpr size_t full_waves(size_t threads) {
  return (threads + max_wave - 1) / max_wave * max_wave;
}

// Member i of a team is PE start + i * stride of the world; or, where stride is 0, number start + i
// in the lists of teams.
struct Team {
  int me, n, start, stride;
  uint64_t base;   // epochs of its collectives begin here, see Channels
  bool has_remote; // some members are not mapped
};

// The memory of collectives of kernels and streams: device memory of each PE that the others write
// to. Each of the first `teams` team ids has `count` channels in it. Channel i belongs to workgroup
// i of each member's kernel, and knows of no other. It has a head, with the epoch of its last
// collective, two flags of each member, and two sets of lines for one pack of each; the first
// with_lines of them also have two sets of lines for `room` bytes of each member. Epochs only grow.
// A team id that is used again goes on from another base, because a flag of the last team may still
// be on its way.
struct Channels {
  uintptr_t at; // here; a peer's lies flag_delta further
  size_t team_bytes, head_bytes;
  unsigned room;
  int teams, count, with_lines;
  // Where the lines of a head begin, and where it ends, in a job of n PEs.
  SHMEM_HD_ static constexpr size_t head_lines(size_t n) {
    return cache_line + (2 * n * sizeof(uint64_t) + cache_line - 1) / cache_line * cache_line;
  }
  SHMEM_HD_ static constexpr size_t head_end(size_t n) {
    return head_lines(n) + (4 * n * pack_bytes + cache_line - 1) / cache_line * cache_line;
  }
};

// How kernels reach PEs that are not mapped. A kernel posts requests in host memory, and a progress
// thread does them, in the order of their tickets, as the host's routines do. A ticket is the
// number of a request: it gives the slot and the lap.
//
// seen <= done <= ticket < done + ring_size, for each ticket whose request is in its slot
struct alignas(64) Request {
  uint32_t lap; // from 1; the last store of a request has this word, pe and reply
  uint16_t pe;
  uint16_t reply; // the number of the reply, which gives its slot; or 0
  Operation op;
};
// The reply to a request for data. The thread that posted the request waits for it, and frees the
// slot.
//
// read <= stored <= asked <= read + 1, in laps, for each slot
struct alignas(64) Reply {
  uint32_t number; // stored last
  uint32_t unused;
  uint64_t words[7];
};
static_assert(sizeof(Request) == 64 && sizeof(Reply) == 64);
// Requests, and replies: a power of two, at least a wave. The host does up to half of them
// together: 128 workgroups of an H100 post 5.2 M/s with 1,024 slots, 9.7 with 2,048 (2026-11-24).
inline constexpr unsigned ring_size = 2048;
// A reply's number tells laps apart, and is never 0.
inline constexpr uint16_t reply_bit = 1 << 15;
static_assert(2 * ring_size <= reply_bit && max_pes <= UINT16_MAX);

// An atomic that another node requests on memory of this PE that only its GPU reaches. A kernel of
// the library does it where the GPU has room for one. Kernels that wait may leave no room; then one
// of them does it. The thread that takes the number of a deferred atomic does it.
//
// finished <= taken <= given <= finished + deferred_slots, where the host has finished a number
// when it has read the result
struct alignas(64) DeferredAtomic {
  // *p becomes ((*p & keep) ^ flip) + plus, unless a bit of `care` differs between *p and compare.
  // All atomics are this one: a kernel that asked for the kind kept the answers in 12 scalar
  // registers, in each of its waits (2026-11-24).
  uint64_t p, keep, flip, plus, compare;
  int32_t care;   // all bits or none
  uint32_t width; // of *p: 4 or 8
  uint64_t seen;  // the old value
  uint64_t done;  // its number, from 1, stored last
};
inline constexpr unsigned deferred_slots = 64;

// In host memory, written by the host, but for the deferred atomics' results.
struct Served {
  uint64_t done;                      // requests up to this ticket are done, and their slots free
  alignas(cache_line) uint64_t given; // deferred atomics
  alignas(cache_line) DeferredAtomic deferred[deferred_slots];
};
// In device memory, written by kernels, but for `offered`.
struct Tickets {
  alignas(cache_line) uint64_t posted;          // the next request's
  alignas(cache_line) uint64_t seen;            // as much of Served::done as some thread has seen
  alignas(cache_line) uint32_t reading;         // a thread reads it
  alignas(cache_line) uint64_t asked;           // the next reply's
  alignas(cache_line) uint32_t read[ring_size]; // how often the reply in each slot has been read
  alignas(cache_line) uint64_t taken;           // the next deferred atomic's
  alignas(cache_line) uint64_t offered;         // a copy of Served::given, where a poll is cheap
};

// Small stores that another node requests on memory of this PE that only its GPU reaches, for one
// kernel of the library. In host memory. The host takes them back where the kernel finds no room:
// each side stores its word and then reads the other's, so at most one of them does the stores.
struct DeferredStores {
  static constexpr size_t most = 4096;
  enum State : uint32_t { launched, begun, declined, done };
  struct One {
    uint64_t where, value; // where: the address, and above it the width: 1, 2, 4 or 8 bytes
    static One at(uint64_t p, size_t width) { return {p | uint64_t(width) << shift, 0}; }
    SHMEM_HD_ uintptr_t address() const { return where & ((uint64_t(1) << shift) - 1); }
    SHMEM_HD_ unsigned width() const { return unsigned(where >> shift); }
    static constexpr int shift = 56;
  };
  alignas(cache_line) uint32_t state;      // the kernel's
  alignas(cache_line) uint32_t taken_back; // the host's
  alignas(cache_line) One stores[most];
};
struct Ring {
  Request *requests; // NULL where all PEs are mapped
  Reply *replies;
  Served *served;
  Tickets *tickets;
};

// A handle of a team or of a context of it carries the team's id in the bits above an address of
// x86-64, so a kernel finds the team with one load. The predefined handles are small: id 0, the
// world.
inline constexpr int id_shift = 48;
inline constexpr unsigned shared_id = 1; // of SHMEM_TEAM_SHARED, where there are several nodes

// The last words of a kernel that cannot go on, in host memory. The library's watch reads them,
// prints them and ends the job. The thread that claims State::claimed writes, the others wait.
struct Report {
  enum Cause : uint32_t {
    none,
    bad_pe,
    not_symmetric,
    past_end,
    misaligned,
    wait_limit,
    many_teams,
    outside_team,
    no_atomic,
    bad_index, // seen at an address, and not one below `wanted`
    bad_number // seen, and not from `bytes` to `wanted`
  };
  uint32_t kind; // a Cause; stored last, with release
  uint32_t block[3], thread[3];
  int32_t pe;      // that the call was for
  int32_t cmp;     // of a wait: the comparison,
  uint64_t wanted; // the value to compare with
  uint64_t seen;   // and the value that was there
  uint64_t address, bytes, align;
  char routine[64], argument[16];
};

// Bits of State::delta. A row of a buffer has `coarse` where arch::keeps_peers is for: what the
// buffer has at that PE is coarse-grained memory of another GPU.
inline constexpr uintptr_t closer = 1, remote = 2, many = 4, coarse = 8,
                           tags = closer | remote | many | coarse;
// The delta of a buffer to a PE that does not have it, because it is not in the buffer's team.
// Calls find its tag. Code that looks for no tag, as collectives, gets an address where nothing is.
inline constexpr uintptr_t outside = uintptr_t(1) << 63 | closer;

// A buffer of the program's own, in this GPU's memory. The table of all of them, in device memory,
// is ascending and has a power of two of places, of which the last may lie behind all addresses. A
// table never changes, so running kernels go on with the one that they have. They find it by one
// word.
struct Buffer {
  uintptr_t base, size;
  uintptr_t row; // where its deltas stay, see State::delta
  // Behind it its n deltas again: outside where a PE is not in the team, remote where it is not
  // mapped.
};

// In a job of few PEs the first buffers are in the State, too: a kernel that acquires drops the
// table from its L1, and an H100 then waits 0.15 us for data that its constant cache still has
// (2026-11-24). They are found by their units of 512 bytes. A buffer that shares a unit with the
// heap or with another buffer has no place here, so nothing else has to be compared; allocators
// give no unit to two owners. The number of a unit has 32 bits, so units that are 2 TiB apart are
// the same.
inline constexpr unsigned near_buffers = 4, near_pes = 64, near_unit = 9; // 512 bytes
struct Near {
  struct alignas(8) Units { // changed as one word
    uint32_t first, count;
    SHMEM_HD_ constexpr bool has(uint32_t unit) const { return unit - first < count; }
    constexpr bool meets(Units u) const { return has(u.first) || u.has(first); }
    static constexpr Units of(uintptr_t base, uintptr_t size) {
      const auto from = uint32_t(base >> near_unit);
      return {from, uint32_t((base + size - 1) >> near_unit) - from + 1};
    }
  } of[near_buffers];
};
// The rows in State::delta, of deltas to all PEs: the rows of `near`, then the heap's. The rows of
// other buffers come after that, see State::rows.
inline constexpr unsigned heap_row = near_buffers * near_pes, table_row = heap_row + max_pes;

struct State {
  uintptr_t base; // the device heap of this PE: [base, base + size)
  size_t size;
  const Team *teams;   // by id, in device memory
  uint64_t *arrived;   // [max_teams][n]: member i of a team writes its epoch at each peer's [id][i]
  uint64_t *epoch;     // [max_teams]: the last epoch that this PE began
  Report *report;      // NULL while nothing is to be told, see fill in lib/gpu/publish.cpp
  uint32_t *claimed;   // in device memory, because PCIe may not take an exchange
  uint64_t wait_limit; // ticks of arch::clock, 0 for none
  Channels channels;
  Ring ring;
  uintptr_t buffers;     // where the table of buffers is + the binary logarithm of its places, or 0
  const uintptr_t *rows; // in device memory: those from table_row on
  Near near;
  int me, n;
  // From an address here to the same object of PE pe: rows of buffers, and then that of the device
  // heap. There `closer` is set where a kernel must look at the arguments: always for a pe that
  // does not exist, for every pe under SHMEM_CHECK, and for one that is not mapped, which has
  // nothing else set but `remote`. `many` is set while there are buffers: an address may be of one
  // of them.
  uintptr_t delta[table_row];
  uintptr_t flag_delta[max_pes]; // the heap's for arrived

  SHMEM_HD_ const uintptr_t &heap_delta(int pe) const {
    return delta[heap_row + unsigned(pe) % unsigned(max_pes)];
  }
};
static_assert(std::is_trivially_copyable_v<State> &&
              sizeof(State) == 192 + 8 * table_row + 8 * max_pes);

// A module of device code, one for each source file that includes shmem.hpp, and how the library
// fills its State.
struct Module {
  int (*find)(void **); // where its State is in device memory: 0 or a hipError_t
  size_t state_bytes;   // as the module was compiled
  Module *next;
  bool ring;    // its kernels reach PEs that are not mapped
  bool library; // they are the library's, which launches them itself
};

} // namespace shmem::device

// Called by static constructors and destructors of the modules, at any time.
extern "C" void shmemx_module_add(shmem::device::Module *module);
extern "C" void shmemx_module_remove(shmem::device::Module *module);

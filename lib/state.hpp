// SPDX-License-Identifier: MIT
// The library on one page: what a process holds (State) and what the processes of a node share
// (Job, in the segment).
#pragma once
#include "../device/state.hpp"
#include "built.h"
#include "env.hpp"
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#define SHMEM_NO_GENERICS
#include <shmem.h>

namespace shmem {

namespace net {
inline constexpr bool built = SHMEM_NET_BUILT; // PEs may be on other nodes
}

using device::cache_line;
inline constexpr size_t page = 4096;
// Rounds up to a multiple of align, a power of two.
constexpr size_t round_up(size_t n, size_t align) {
  return (n + align - 1) & ~(align - 1);
}
// Every PE's heap starts on a multiple of this, so that one offset is aligned on all of them. It
// costs address space only.
inline constexpr size_t max_align = 64 << 20;

// A range in which a plain range check is all that an access needs.
struct Span {
  uintptr_t base;
  size_t size;
  bool has(const void *p) const { return uintptr_t(p) - base < size; }
};

struct Team;

// A symmetric region: the object of the i-th PE of this node lies delta[i] bytes from the same
// object in the span. All deltas of the library and of kernels are unsigned, and sums with them
// wrap.
struct Region : Span {
  const uintptr_t *delta;
  // Of a buffer:
  const Team *team = nullptr; // the PEs that have it; null: all
  const uintptr_t *row =
      nullptr; // in device memory: the deltas to all PEs, tagged, as kernels have them
  int index = -1;
  using Span::has;
  bool has(const void *p, size_t bytes) const {
    return has(p) && bytes <= size - (uintptr_t(p) - base);
  }
  void *at(const void *p, int local) const {
    return reinterpret_cast<void *>(uintptr_t(p) + delta[local]);
  }
};

// The state that a PE shows the others of its node.
struct alignas(cache_line) Slot {
  enum Phase : int { absent, up, leaving, done };
  std::atomic<int> phase; // a Phase
  std::atomic<int> pid;
  std::atomic<int> flushed;        // this PE has written out its stdio, for shmem_global_exit
  std::atomic<uint64_t> place;     // the core on which it yielded last, and when, see sync.cpp
  std::atomic<uint64_t> cores[16]; // that it may run on, one bit each
  // The location that sleeping threads of this PE wait for (sync.cpp), and the futex that they
  // sleep on.
  alignas(cache_line) std::atomic<uint64_t> awaits;
  std::atomic<uint32_t> wakes;
};

// Arrival counter of up to 8 members of a team, or of up to 8 counters below it; it only grows.
struct alignas(cache_line) Arrival {
  std::atomic<uint64_t> count;
  // Of the root only:
  std::atomic<uint64_t> released;   // the barrier that is complete
  std::atomic<uint64_t> left;       // members that have destroyed the team
  std::atomic<uint64_t> rounds;     // where the rounds of the share's last team ended
  std::atomic<uint64_t> casts;      // and its broadcasts
  std::atomic<uint32_t> generation; // how many teams have had this share
};

// The memory in which the root of a broadcast shows its data: a flag for each broadcast, with a few
// bytes on the same line, so that one transfer brings both, and places for more bytes. The root
// goes on at once. It writes to a place again when all members are done with that place. Each
// member tells this now and then (tell_done in coll/broadcast.cpp).
struct alignas(cache_line) Outbox {
  std::atomic<uint64_t> done; // this member is done with all broadcasts up to this one
  struct alignas(cache_line) CastFlag {
    std::atomic<uint64_t> cast; // the broadcast's number
    std::byte few[56];
  } flags[64];
  struct alignas(cache_line) Data {
    std::byte bytes[8192];
  } data[4];
};

using device::max_teams; // untouched ones take no memory
// The last 64 are for members of teams that there is no room for, until all members know.
inline constexpr int n_shares = max_teams + 64;

// The memory in which a member of a team shows the others its source in a small reduction. A few
// bytes lie in the line of their round, so that one transfer brings a peer both. More bytes have
// lines of their own (rep movsb, memcpy's way, is three times as slow to an address inside a line;
// 2026-11).
struct alignas(cache_line) Stage {
  std::atomic<uint64_t> round;
  alignas(16) std::byte few[48];
  std::byte data[8192 - 64];
};
inline constexpr size_t stage_bytes = sizeof(Stage::data);

// The head of the segment. After it come the slots, the teams' shares, and the heap and static data
// of each PE.
struct Job {
  uint64_t magic;
  int n;
  std::atomic<uint64_t> cores[16]; // of all PEs
  // Threads in futex sleep, of all PEs: no thread wakes any while it is 0.
  alignas(cache_line) std::atomic<uint32_t> sleepers;
  // PE + 1 of the first that has left, or is leaving, through exit(); of the first that died.
  alignas(cache_line) std::atomic<uint32_t> departed;
  std::atomic<uint32_t> dead;
  // 1 << 32 | status, once shmem_global_exit or a fatal error was called.
  std::atomic<uint64_t> exit;
  alignas(cache_line) std::atomic<uint32_t> teams_lock; // of find-or-make by a key
  std::atomic<uint64_t> team_used[n_shares / 64];
  uint32_t heap_pages;         // of each PE, at most, on all nodes
  std::atomic<uint32_t> nodes; // how many, once the addresses of their PEs are in the segment
  // The key by which members find a share. The key of an active set stays as long as the job lives,
  // the key of a team in creation until all its members on this node have come. came: how many
  // have.
  uint64_t key[n_shares];
  uint32_t came[n_shares];
  alignas(cache_line) std::atomic<long> moved; // when a PE went to another core, see sync.cpp
};

// PEs in an order of their own: at equal distances, or as a list has them.
struct PeOrder {
  int n, start, stride;
  const int *list = nullptr; // null: member i is PE start + i * stride
  int pe(int i) const { return list ? list[i] : start + i * stride; }
  int find(int pe) const { // which of them is PE pe, or -1
    if (list) {
      for (int i = 0; i < n; i++)
        if (list[i] == pe) return i;
      return -1;
    }
    const int d = pe - start;
    if (stride == 0) return d == 0 ? 0 : -1;
    return d % stride == 0 && d / stride >= 0 && d / stride < n ? d / stride : -1;
  }
};

// A communication context. For mapped PEs it is only its team.
struct Context {
  Team *team;
  PeOrder members; // of the team, for the data path
  long options;
  uint64_t begun; // the number of its last operation at a remote PE, see net::last_begun
};

// A team, as this process sees it. Its members have numbers of the world.
struct Team : PeOrder {
  int me;
  int id;              // which share
  std::byte *share;    // see team.hpp
  uint64_t barriers;   // completed or begun by this member
  uint64_t rounds;     // exchanges begun by this member
  uint64_t casts;      // broadcasts begun by this member
  uint64_t done;       // a broadcast that all members are done with
  uint64_t data[4];    // the last broadcast in each place of an outbox
  uint64_t datas;      // how many went through those places
  struct Nodes *nodes; // where members are on several nodes, see coll/nodes.hpp; or null
  uint32_t generation; // of the share, see Arrival
  uint64_t active_set; // of a team that serves one: the set
  int buffers;         // that this member has registered with it
  int num_contexts;
  std::list<Context> contexts;
  bool on_nodes() const { return net::built && nodes; } // several
  bool has(int pe) const { return find(pe) >= 0; }
};

struct State {
  // Hot: the data path reads these. fast (for transfers) and word (for one element and atomics) are
  // the default heap while plain access to it is allowed, see choose_spans. They are empty before
  // init, after finalize and under SHMEM_CHECK: then every access takes the slow path, which
  // checks.
  alignas(64) Span fast;
  Span word;
  int near, first;         // the data path finds PEs first to first + near - 1 in heap_delta
  std::atomic<int> spins;  // polls before a waiter yields, see sync.cpp
  std::atomic<int> failed; // polls of the program's own since it last yielded
  Span read; // as word, for what a program may poll; empty where polling has to give way

  // Place in the job. The i-th PE of this node is PE pes[i] of the world, and locals[pe] is i, or
  // -1; this one is the `local`-th of n_local. Slots, shares and deltas have these numbers.
  int n, me, local, n_local;
  const int *pes, *locals;
  Job *job;
  Slot *slots;
  Team *world, *shared;
  std::byte *shares;   // of the teams, see team.hpp
  void *address_table; // see net.hpp

  // Policy.
  size_t stream_bytes; // from this size on, copies bypass the caches; 0: copy_stream sees them all
  bool careful;        // check, or device_only, or PEs on other nodes
  bool check, ready, oversubscribed;
  bool device_only; // a block of device memory is in use that the CPU reaches slowly or not at all
  bool device_main; // shmem_malloc takes from the device heap
  Env env;

  // Regions.
  Region heap, data;
  Region device; // the heap on the GPU; of size 0 where there is none
  Region flags;  // of kernels, beside it; has no delta: only kernels and the network go there
  size_t heap_kept, device_kept; // freed memory beyond these sizes goes back to the system
  // The segment's extent, and where in it the PEs' parts start and how far apart they lie.
  size_t job_bytes, part_start, part_bytes;

  // Process.
  int inits, thread_level;
  int segment_fd, pipe_read, pipe_write;
  int pid;
  long init_began; // in ns, of the first init of this job
  bool exiting;    // this process runs its exit handlers

  bool one_node() const { return !net::built || n == n_local; }
  int pe_of(int local) const { return pes[local]; }
  bool in_segment(const void *p) const { return uintptr_t(p) - uintptr_t(job) < job_bytes; }
};

extern State self;
void reset_state(); // all of it, to its beginning

// The local rank of the PE whose part of r has p, as mapped here; or -1.
inline int holder(const Region &r, const void *p) {
  for (int i = 0; r.size && i < self.n_local; i++)
    if (uintptr_t(p) - r.base - r.delta[i] < r.size) return i;
  return -1;
}

// PE pe's local rank, or -1 if PE pe is on another node; 0 if there is no PE pe.
inline int local_of(int pe) {
  if constexpr (!net::built) return pe;
  return unsigned(pe) < unsigned(self.n) ? self.locals[pe] : 0;
}

// A copy of the default heap's deltas, which saves the data path the load of a pointer. Only the
// entries of the job's PEs are ever touched.
inline constexpr int max_pes = 1 << 20;
extern uintptr_t heap_delta[max_pes];

// Sets fast, word, careful and their like by the heaps that exist and are in use.
void choose_spans();

} // namespace shmem

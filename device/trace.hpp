// SPDX-License-Identifier: MIT
// Records the calls of kernels for tools/shmem_trace, in sources that are compiled with
// SHMEM_TRACE_KERNELS. Without it nothing of this is in a kernel. Kernels that are linked with the
// bitcode record what their compiler asks for: device/bitcode.hip.
#pragma once
#include <cstdint>
#include <shmem/compiler.h>

namespace shmem::trace {

// The host reads places while kernels write to others, so each word says in which lap round the
// ring its place was taken: a record is there when all four say the same. Stores need no order for
// that, and no thread resets anything.
struct Record {
  uint64_t begin : 56, lap0 : 8; // ticks of arch::clock, its low bits
  uint64_t bytes : 40, routine : 16, lap1 : 8;
  uint64_t took : 32, pe : 24, lap2 : 8; // ticks, or 2^32 - 1; of the world, or 2^24 - 1
  uint64_t block : 32, wave : 23;
  uint64_t again : 1, lap3 : 8; // again: the call took another place before, and left it
};
static_assert(sizeof(Record) == 32);
// Routines that the table does not have: a mark, of which bytes is the number; and what kernels of
// products do, a workgroup or wave at a time: the sums of a tile, rows of a tile to others, waiting
// for a tile and for other members, sums of what members sent.
enum Own : uint16_t {
  user_event = UINT16_MAX,
  multiply = user_event - 1,
  send = user_event - 2,
  wait_tile = user_event - 3,
  meet = user_event - 4,
  sum = user_event - 5
};

// A ring in device memory, so that a record costs no transfer over PCIe. Kernels never ask how far
// the host has read: it counts records that they overwrite before it reads them.
//
// taken - room() <= number < taken, for each record that is in its place
struct Records {
  Record *first;   // NULL: nothing is recorded
  unsigned places; // 1 << places
  uint64_t *taken; // places so far, in all laps

  SHMEM_HD_ constexpr uint64_t room() const { return uint64_t(1) << places; }
  SHMEM_HD_ constexpr uint64_t place(uint64_t at) const { return at & (room() - 1); }
  SHMEM_HD_ constexpr uint8_t lap(uint64_t at) const { return uint8_t((at >> places) + 1); }
};

// A module of device code that records.
struct Traced {
  int (*show)(const Records *); // 0 or a hipError_t
};

} // namespace shmem::trace

// Called by static constructors and destructors of the modules. libshmem's do nothing.
extern "C" void shmemx_traced_add(shmem::trace::Traced *module);
extern "C" void shmemx_traced_remove(shmem::trace::Traced *module);

#ifndef SHMEM_TRACE_KERNELS
#define SHMEM_TRACED_(scope, routine, bytes, pe)
#define SHMEM_MARK_(id) (void)(id)
#else
#define SHMEM_MARK_(id) ::shmem::trace::mark(id)
#define SHMEM_TRACED_(scope, routine, bytes, pe)                                                   \
  const ::shmem::trace::TracedCall<scope> traced_(routine, bytes, pe);
#endif

#if defined SHMEM_TRACE_KERNELS || defined SHMEM_BITCODE_RECORDS_
#include "scope.hpp"
#include <hip/hip_runtime.h>

namespace shmem::trace {

#ifdef SHMEM_BITCODE_RECORDS_
SHMEM_BITCODE_RECORDS_
#else
SHMEM_STATE_ Records records;
#endif

SHMEM_D_ void put(uint64_t at, uint64_t begin, uint64_t took, uint64_t bytes, int pe,
                  unsigned routine, bool again = false) {
  const uint8_t lap = records.lap(at);
  const arch::Index b = arch::block(), all = arch::blocks();
  const unsigned block = b.x + all.x * (b.y + all.y * b.z),
                 wave = unsigned(Workgroup{}.rank()) / arch::wave_size;
  const uint64_t last = uint64_t(lap) << 56, low = ~uint64_t(0) >> 8; // of a Record, word by word
  uint64_t *const to = reinterpret_cast<uint64_t *>(records.first + records.place(at));
  took = took < UINT32_MAX ? took : UINT32_MAX;
  arch::store_lines(to, (begin & low) | last, (bytes & low >> 16) | uint64_t(routine) << 40 | last);
  arch::store_lines(to + 2, took | (uint64_t(unsigned(pe)) << 32 & low) | last,
                    block | uint64_t(wave) << 32 | uint64_t(again) << 55 | last);
}

} // namespace shmem::trace
#endif

#ifdef SHMEM_TRACE_KERNELS
namespace shmem::trace {

SHMEM_D_ void mark(unsigned id) {
  if (records.first) put(arch::take_alone(records.taken), arch::clock(), 0, id, -1, user_event);
}

// From here to the end of the block a routine runs. One thread of a scope writes the record; of
// threads that call for themselves each does.
template <class Scope> class TracedCall {
  // Ticks: 0.13 ms, or 1.3 of a clock of 100 MHz. See ~TracedCall.
  static constexpr uint64_t long_call = 1 << 17;
  uint64_t begin, at, bytes;
  int pe;
  unsigned routine;

public:
  // The place is taken here, because the routine's own work covers what the atomic takes: of 2
  // H100s p + wait_until, two events, take 0.94 us in place of 0.89, and 1.22 before (2026-11-25).
  SHMEM_D_ TracedCall(unsigned routine, uint64_t bytes, int pe)
      : begin(records.first && !Scope{}.rank() ? arch::clock() : 0),
        at(begin ? arch::take_alone(records.taken) : 0), bytes(bytes), pe(pe), routine(routine) {}
  SHMEM_D_ ~TracedCall() {
    if (!begin) return;
    const uint64_t took = arch::clock() - begin;
    // While a long call ran, others may have come round the ring to its place.
    const bool again =
        took > long_call &&
        arch::load<Order::relaxed, Range::device>(records.taken) - at > records.room() / 2;
    put(again ? arch::take_alone(records.taken) : at, begin, took, bytes, pe, routine, again);
  }
  TracedCall(const TracedCall &) = delete;
  TracedCall &operator=(const TracedCall &) = delete;
};

namespace {
struct TraceRegistrar {
  Traced module;
  TraceRegistrar() : module{show} { shmemx_traced_add(&module); }
  ~TraceRegistrar() { shmemx_traced_remove(&module); }
  static int show(const Records *r) {
    return int(hipMemcpyToSymbol(HIP_SYMBOL(records), r, sizeof *r, 0, hipMemcpyHostToDevice));
  }
} registrar;
} // namespace

} // namespace shmem::trace
#endif

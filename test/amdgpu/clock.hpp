// SPDX-License-Identifier: MIT
// Time, where AMDGPU_TIME asks for it. Each wave has its own, in ps, which its waits move on. A
// die, its units and its caches are of one process, whose waves run in the order of their times.
// Memory and links are shared by all processes of a job: their load is counted in slices of time,
// because processes do not run in the order of theirs. A time goes from wave to wave by memory:
// beside each word is the time of its store, and a load gets the word no earlier.
#pragma once
#include "machine.hpp"
#include "memory.hpp"
#include <atomic>
#include <bitset>
#include <memory>

namespace amdgpu {

using Ps = int64_t;

inline constexpr unsigned most_nodes = 17; // with the host
inline constexpr size_t segment = 64;      // what caches, memory and links carry at once

inline Ps ps(double ns) {
  return Ps(ns * 1000);
}

// The row of clock.txt for this GPU. Latencies are from the issue of a load to its data.
#define AMDGPU_CLOCK(row)                                                                          \
  row(clock_mhz) row(units) row(matrix_f32) row(matrix_f16) row(matrix_f8) row(lds_ns)             \
      row(lds_bytes) row(l1_ns) row(l1_bytes) row(l1_flight) row(l2_ns) row(l2_bytes) row(mall_ns) \
          row(mall_gbs) row(mall_mib) row(hbm_ns) row(store_ns) row(hbm_gbs) row(peer_ns)          \
              row(link_gbs) row(link_header) row(links) row(loaded_ns) row(host_ns) row(host_gbs)  \
                  row(scalar_ns) row(write_back_ns) row(launch_ns) row(packet_ns) row(end_ns)      \
                      row(sdma_ns) row(sdma_gbs)
struct Rates {
#define AMDGPU_ROW(name) double name = 0;
  AMDGPU_CLOCK(AMDGPU_ROW)
#undef AMDGPU_ROW
};
int time_asked(); // AMDGPU_TIME, 0 to 3
Rates rates_of(const std::string &gpu);
const Rates *timed(); // NULL where no time was asked for

// A thing that carries so many bytes in each slice of time, in whatever order they come.
class Channel {
public:
  // From when on to when it carries them.
  Ps take(Ps at, double bytes, double gbs);

private:
  static constexpr int width = 16; // 2^16 ps
  static constexpr size_t slices = 8192;
  std::atomic<uint64_t> slice_[slices] = {}; // its number, and in the lower 24 bits the bytes
};

// Shared by all processes that have a part of the machine.
struct Shared {
  std::atomic<uint64_t> begun; // in ns of CLOCK_MONOTONIC, time 0
  Channel memory[most_nodes], link[most_nodes][most_nodes];
  std::atomic<uint64_t> stamp[size_t(1) << 21];
  struct Pace {
    std::atomic<int> pid;
    std::atomic<Ps> next;
  } pace[64]; // of each die of each process
};

Shared &shared();

// The allocation that an address is of, and the number of its word.
const Range &range_at(uint64_t address);
uint64_t word_at(const Range &range, uint64_t address);
// When a word of memory was stored, by a number that all processes know it by.
void stamp(uint64_t word, Ps at);
Ps stamped(uint64_t word);

// Lines that a cache has, and from when on: four of a set, of which the oldest goes.
class Tags {
public:
  Tags() = default;
  // scatter: neighbours do not lie in neighbouring sets, so that a cache fills unevenly.
  explicit Tags(size_t lines, bool scatter = false) : scatter_(scatter), line_(lines) {}
  // When it has the line, or -1; from now on it has it, from `at` on.
  Ps find(uint64_t line) const;
  void keep(uint64_t line, Ps at);
  void clear() { std::fill(line_.begin(), line_.end(), Line()); }

private:
  struct Line {
    uint64_t number = ~uint64_t(0);
    Ps at = -1;
  };
  static constexpr size_t ways = 4;
  size_t set_of(uint64_t line) const {
    const uint64_t at = scatter_ ? line * 0x9e3779b97f4a7c15 >> 20 : line ^ line >> 13;
    return at % (line_.size() / ways) * ways;
  }
  bool scatter_ = false;
  std::vector<Line> line_;
};

// A compute unit: when each of its parts is free, and when the segments that it has on the way are
// there, of which there is room for so many.
struct TimedUnit {
  Ps simd[Unit::simds] = {}, matrix[Unit::simds] = {}, lds = 0, path = 0;
  Ps freed = 0;   // the end of the last workgroup
  struct Flight { // of loads, of stores
    std::vector<Ps> there;
    size_t next = 0;
  } flight[2];
  Tags l1, scalar;
};

struct TimedDie {
  TimedDie(unsigned its_node, int units);
  // How far waves may go which go on at that time, or none: not much further than those of other
  // dies, of this process and others. A die that ran ahead would see stores at wrong times.
  Ps pace(Ps next);
  static constexpr Ps none = INT64_MAX;
  unsigned slot;
  unsigned node;
  std::vector<TimedUnit> unit;
  struct L2 {
    Tags tags;
    Channel channel;
  };
  std::vector<std::unique_ptr<L2>> l2; // one of each XCD
  Tags mall;
  Channel mall_channel;
  uint64_t others = 1; // how often the L2s have dropped lines of other GPUs
  void acquire();      // before a kernel
};

// Of a wave.
struct Timed {
  Timed(Wave &its, TimedDie &its_die, unsigned unit, unsigned its_simd, Ps at);
  // Lanes' addresses, before the access.
  void access(const Op &op, Space space, const uint64_t *at, uint64_t mask, size_t bytes);
  void after(const Op &op);
  Ps now;
  bool polls = false;
  Spent &spent; // of the kernel

private:
  struct Queue { // in order: a wait for one is a wait for those before
    Ps done[64] = {};
    uint64_t issued = 0;
    void add(Ps at);
    Ps left(unsigned n) const; // when so many are on the way
  };
  Ps issue(Ps &part, double cycles);
  Ps lines(const Op &op, const uint64_t *at, uint64_t mask, size_t bytes, Ps from);
  Wave &wave_;
  TimedDie &die_;
  TimedUnit &unit_;
  TimedDie::L2 &l2_;
  unsigned simd_;
  Queue vm_, lgkm_;
  Ps matrix_done_ = 0;
  Operand matrix_to_;
  Ps polled_ = 0;                  // when the wait began,
  const uint8_t *slept_ = nullptr; // and where it sleeps
  bool stored_ = false;            // since: it was not all that the wave did
  int since_poll_ = 0;
  // Instructions since the last poll, and of the round before. What a round of polls repeats takes
  // nothing from a unit, a cache or memory: the number of rounds is the host's matter.
  static constexpr size_t places = 1024;
  std::bitset<places> round_, last_round_;
  size_t place() const { return reinterpret_cast<uint64_t>(wave_.at) / 4 % places; }
  bool repeats() const { return polls && last_round_[place()] && !round_[place()]; }
};

// Of packets: the time that a copy of so many bytes ends which begins then.
Ps copied(const void *to, const void *from, size_t bytes, Ps at);
// The words of an address that a packet stores to or waits for.
void stamp_at(const void *address, Ps at);
Ps stamped_at(const void *address);

// To stderr: from 2 on where the kernel's time went, at 3 also which instructions took 1% or more.
void report(const Kernel &kernel);

// Ticks of 100 MHz and the shader's cycles, as a wave or a packet of that time has them.
uint64_t ticks_at(Ps at);
uint64_t ticks_of(const Wave &w);
uint64_t cycles_of(const Wave &w);

} // namespace amdgpu

// SPDX-License-Identifier: MIT
// The times of waves: of their instructions in a unit, and of their accesses in caches, memory and
// links.
#include "clock.hpp"
#include "driver.hpp"
#include <algorithm>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace amdgpu {
namespace {

constexpr Ps atomic_service = 4000; // of the same word, one after the other

} // namespace

Ps Tags::find(uint64_t line) const {
  for (size_t k = 0, set = set_of(line); k < ways; k++)
    if (line_[set + k].number == line) return line_[set + k].at;
  return -1;
}
void Tags::keep(uint64_t line, Ps at) {
  const auto set = line_.begin() + ptrdiff_t(set_of(line));
  auto oldest = set;
  for (size_t k = 0; k < ways; k++) {
    if (set[ptrdiff_t(k)].number == line) return;
    if (set[ptrdiff_t(k)].at < oldest->at) oldest = set + ptrdiff_t(k);
  }
  *oldest = {line, at};
}

TimedDie::TimedDie(unsigned its_node, int units) : node(its_node), unit(size_t(units)) {
  const Rates &r = *timed();
  for (slot = 0;; slot++) {
    if (slot == std::size(shared().pace)) stop(nullptr, "AMDGPU_TIME: too many GPUs of processes");
    int nobody = 0;
    if (shared().pace[slot].pid.compare_exchange_strong(nobody, getpid())) break;
  }
  shared().pace[slot].next = none;
  for (TimedUnit &u : unit) {
    u.l1 = Tags(nodes().l1_kib * 16), u.scalar = Tags(128);
    for (auto &flight : u.flight) flight.there.resize(size_t(r.l1_flight));
  }
  for (unsigned x = 0; x < nodes().xccs; x++) {
    l2.push_back(std::make_unique<L2>());
    l2.back()->tags = Tags(nodes().l2_kib * 16);
  }
  if (r.mall_mib > 0) mall = Tags(size_t(r.mall_mib) << 14, true);
}
Ps TimedDie::pace(Ps next) {
  constexpr Ps ahead = 2000000;
  static unsigned asked = 0;
  shared().pace[slot].next.store(next, std::memory_order_relaxed);
  Ps least = none;
  for (auto &[pid, other] : shared().pace) {
    const int its = pid.load(std::memory_order_relaxed);
    if (!its) break;
    const Ps at = other.load(std::memory_order_relaxed);
    if (at >= least) continue;
    // A process that has died waits for nothing.
    if (at + ahead < next && ++asked % 1024 == 0 && kill(its, 0)) other.store(none);
    least = at;
  }
  return least == none ? none : least + ahead;
}
void TimedDie::acquire() {
  for (TimedUnit &u : unit) u.l1.clear(), u.scalar.clear();
  others++;
}

Timed::Timed(Wave &its, TimedDie &its_die, unsigned unit, unsigned its_simd, Ps at)
    : now(at), spent(its.group->kernel->spent), wave_(its), die_(its_die),
      unit_(its_die.unit[unit]), l2_(*its_die.l2[unit % its_die.l2.size()]), simd_(its_simd) {}

void Timed::Queue::add(Ps at) {
  const Ps before = issued ? done[(issued - 1) % 64] : 0;
  done[issued++ % 64] = std::max(at, before);
}
Ps Timed::Queue::left(unsigned n) const {
  return issued > n ? done[(issued - n - 1) % 64] : 0;
}

Ps Timed::issue(Ps &part, double cycles) {
  if (repeats()) return now;
  const Ps start = std::max(now, part);
  part = start + Ps(cycles * 1e6 / timed()->clock_mhz);
  return start;
}

// From the unit's path to memory on: when all is there, or, of stores, is known to be there.
Ps Timed::lines(const Op &op, const uint64_t *at, uint64_t mask, size_t bytes, Ps from) {
  const Rates &r = *timed();
  const unsigned me = die_.node;
  const bool mi200 = nodes().major == 9 && nodes().minor == 0, has_mall = r.mall_mib > 0;
  const bool store = op.kind == Kind::store, atomic = op.kind == Kind::atomic;
  const bool past_l1 = store || atomic || op.bits & (mi200 ? 1 : 2);
  const bool system = mi200 ? past_l1 : (op.bits & 3) == 3;
  const bool poll = repeats() && !store && !atomic;
  double to_l2 = 0, to_mall = 0, to_memory = 0;  // bytes of own memory, by what has them
  double data[most_nodes], segments[most_nodes]; // of the others'
  uint32_t others = 0;
  bool hits_l2 = false, again = false; // what the L2 has: is loaded, is stored to
  Ps done = from, latest = 0;          // when what is read was stored
  uint64_t last = ~uint64_t(0);
  for (uint64_t left = mask; left; left &= left - 1) {
    const uint64_t address = at[std::countr_zero(left)];
    const Range &range = range_at(address);
    const bool own = range.node == me;
    // An L2 may not keep lines that others see at once, and on MI200 none of other GPUs.
    const bool through = !atomic && (own ? system && !(store && range.coarse) : system || mi200);
    if (past_l1 && !store) latest = std::max(latest, stamped(word_at(range, address)));
    if (!own) {
      if (!(others >> range.node & 1))
        others |= 1u << range.node, data[range.node] = segments[range.node] = 0;
      data[range.node] += double(bytes);
    }
    for (uint64_t s = address / segment; s <= (address + bytes - 1) / segment; s++) {
      if (s == last) continue;
      last = s;
      if (!own && (store || atomic)) {
        segments[range.node]++;
        continue;
      }
      if (atomic) {
        to_l2 += segment;
        continue;
      }
      if (!past_l1) {
        if (const Ps there = unit_.l1.find(s); there >= 0) {
          done = std::max(done, std::max(from, there) + ps(r.l1_ns));
          continue;
        }
        unit_.l1.keep(s, from);
      }
      if (!through) {
        to_l2 += segment;
        const uint64_t as = own ? s : s ^ die_.others << 48; // what it has of others it forgets
        const Ps there = l2_.tags.find(as);
        if (there >= 0 && store) again = true;
        if (there >= 0 && !store) {
          done = std::max(done, std::max(from, there) + ps(r.l2_ns)), hits_l2 = true;
          continue;
        }
        l2_.tags.keep(as, from);
      }
      if (!own) {
        segments[range.node]++;
      } else if (!store && has_mall && die_.mall.find(s) >= 0) {
        to_mall += segment;
      } else {
        to_memory += segment;
        if (has_mall) die_.mall.keep(s, from);
      }
    }
  }
  Ps start = from;
  if (to_l2 > 0) {
    if (!poll) start = l2_.channel.take(from, to_l2, r.l2_bytes * r.clock_mhz / 1e3);
    done = std::max(done, start);
  }
  // A word that is read before it was stored is read again: by the next poll, as a rule.
  const auto meet = [&](Ps there, Ps half) {
    if (latest <= there) return there;
    polled_ = std::max(polled_, latest + 2 * half); // a wait that goes on has begun anew
    spent.polling += latest - there, spent.memory -= latest - there;
    return latest + (atomic ? atomic_service : half);
  };
  const auto arrives = [&](unsigned node, Ps when) {
    if (!store && !atomic) return;
    for (uint64_t left = mask; left; left &= left - 1) {
      const uint64_t address = at[std::countr_zero(left)];
      const Range &range = range_at(address);
      if (range.node != node) continue;
      for (size_t k = 0; k < bytes; k += 8) stamp(word_at(range, address + k), when);
    }
  };
  const auto takes = [&](Channel &channel, Ps there, double amount, double gbs) {
    return poll ? there : channel.take(there, amount, gbs);
  };
  if (hits_l2 || (atomic && to_l2 > 0)) {
    const Ps half = ps(r.l2_ns) / 2, there = meet(start + half, half);
    done = std::max(done, there + half);
    arrives(me, there);
  }
  if (to_mall > 0 || to_memory > 0) {
    const double latency = store                        ? again ? r.l2_ns : r.store_ns
                           : to_memory > 0 || !has_mall ? r.hbm_ns
                                                        : r.mall_ns;
    const Ps half = ps(latency) / 2;
    Ps there = meet(start + half, half);
    if (to_mall > 0) there = takes(die_.mall_channel, there, to_mall, r.mall_gbs);
    spent.own += to_memory;
    if (to_memory > 0) there = takes(shared().memory[me], there, to_memory, r.hbm_gbs);
    done = std::max(done, there + half);
    arrives(me, there);
  }
  for (uint32_t left = others; left; left &= left - 1) {
    const auto node = unsigned(std::countr_zero(left));
    if (segments[node] == 0) continue; // a cache had it
    const Ps half = ps(node ? r.peer_ns : r.host_ns) / 2;
    const double link = node ? r.link_gbs : r.host_gbs, memory = node ? r.hbm_gbs : r.host_gbs;
    const double payload = store || atomic ? data[node] : segments[node] * segment,
                 bulk = payload + r.link_header * segments[node];
    Ps there = start + half;
    if (store || atomic) {
      there = takes(shared().link[me][node], there, bulk, link);
      there = meet(takes(shared().memory[node], there, payload, memory), half);
    } else {
      there = takes(shared().memory[node], meet(there, half), payload, memory);
      there = takes(shared().link[node][me], there, bulk, link);
    }
    spent.link[node] += bulk;
    done = std::max(done, there + half);
    arrives(node, there);
  }
  return done;
}

void Timed::access(const Op &op, Space space, const uint64_t *at, uint64_t mask, size_t bytes) {
  const Rates &r = *timed();
  if (!mask) return; // nothing is asked for; after() counts it
  const uint64_t first = at[std::countr_zero(mask)];
  if (space == Space::flat && first >> 32 == shared_base >> 32) space = Space::lds;
  if (space == Space::flat && first >> 32 == private_base >> 32) space = Space::scratch;
  const double all = double(bytes) * std::popcount(mask);
  if (op.effect == Effect::scalar) { // by a cache of its own
    const uint64_t line = first / segment;
    const Ps there = unit_.scalar.find(line);
    Ps done = std::max(now, there) + ps(r.scalar_ns);
    if (there < 0) {
      const Range &range = range_at(first);
      done += ps(range.node ? r.l2_ns : r.host_ns);
      unit_.scalar.keep(line, done - ps(r.scalar_ns));
    }
    lgkm_.add(done);
  } else if (space == Space::lds) {
    const double cycles = std::max(4.0, all / r.lds_bytes);
    const Ps start = issue(unit_.lds, cycles);
    lgkm_.add(start + Ps(cycles * 1e6 / r.clock_mhz) + ps(r.lds_ns));
  } else {
    stored_ |= op.kind == Kind::store || (op.kind == Kind::atomic && !op.returns);
    size_t segments = 0;
    uint64_t last = ~uint64_t(0);
    if (space != Space::scratch)
      for (uint64_t left = mask; left; left &= left - 1) {
        const uint64_t s = at[std::countr_zero(left)] / segment;
        segments += s != last, last = s;
      }
    else
      segments = size_t(all + segment - 1) / segment;
    const double cycles = std::max(4.0, double(segments * segment) / r.l1_bytes);
    const Ps before = now;
    now = std::max(now, vm_.left(62)); // the counter is full
    auto &[there, next] = unit_.flight[op.kind == Kind::store];
    const size_t room = there.size();
    // A store that has to wait for room does not keep other waves' loads from their way.
    const bool poll = repeats();
    const Ps start = issue(unit_.path, cycles),
             free = poll ? 0 : there[(next + std::min(segments, room) - 1) % room],
             from = poll ? now : std::max(unit_.path, free);
    now = std::max(start, free);
    spent.memory += now - before;
    const Ps done = space == Space::scratch ? from + ps(r.l1_ns) : lines(op, at, mask, bytes, from);
    for (size_t k = 0; k < segments && !poll; k++) there[next++ % room] = done;
    vm_.add(done);
    if (op.effect == Effect::flat) lgkm_.add(done);
  }
}

void Timed::after(const Op &op) {
  const Rates &r = *timed();
  const double slot = 4e6 / r.clock_mhz;
  const Ps before = now;
  if (op.vectors && now < matrix_done_)
    for (int k = 0; k < op.operands; k++) {
      const Operand &o = op.operand[k];
      if (op.kind != Kind::matrix && o.kind == Operand::vector &&
          o.accumulator == matrix_to_.accumulator && o.reg < matrix_to_.reg + matrix_to_.count &&
          matrix_to_.reg < o.reg + o.count)
        now = std::max(now, matrix_done_);
    }
  switch (op.kind) {
  case Kind::vector:
    now = issue(unit_.simd[simd_], 4) + Ps(slot);
    break;
  case Kind::quarter: // transcendental and wide multiplications
    now = issue(unit_.simd[simd_], 16) + Ps(4 * slot);
    break;
  case Kind::matrix: {
    const double cycles = op.flops / (op.bytes_each == 1   ? r.matrix_f8
                                      : op.bytes_each == 2 ? r.matrix_f16
                                                           : r.matrix_f32);
    const Ps start = issue(unit_.matrix[simd_], cycles);
    matrix_done_ = unit_.matrix[simd_] + Ps(slot);
    matrix_to_ = op.operand[0];
    now = start + Ps(slot);
    break;
  }
  default:
    now += Ps(slot * (1 + op.idle / 4));
  }
  (op.kind == Kind::matrix ? spent.matrix : spent.issue) += now - before;
  switch (op.effect) {
  case Effect::wait: {
    const Ps first = now;
    if (op.offset < 63) now = std::max(now, vm_.left(unsigned(op.offset)));
    spent.memory += now - first;
    const Ps then = now;
    if (op.offset1 < 15) now = std::max(now, lgkm_.left(unsigned(op.offset1)));
    spent.rest += now - then;
    break;
  }
  case Effect::end: // its stores are a part of the kernel
    spent.memory += std::max(Ps(0), vm_.left(0) - now);
    now = std::max(now, vm_.left(0));
    break;
  case Effect::write_back:
    vm_.add(std::max(now, vm_.left(0)) + ps(r.write_back_ns));
    break;
  case Effect::invalidate_l1:
  case Effect::invalidate_l2:
  case Effect::invalidate:
    unit_.l1.clear();
    if ((op.bits & 3) == 3) die_.others++;
    break;
  default:
    break;
  }
  round_.set(place());
  // Polls take no time until one of them sees what it looks for: that gets the time of the store.
  if (wave_.yields) {
    if (polls && !stored_ && wave_.at == slept_)
      now = polled_, last_round_ = round_;
    else
      polled_ = now, polls = true, slept_ = wave_.at, last_round_.reset();
    since_poll_ = 0, stored_ = false, round_.reset();
  } else if (polls && ++since_poll_ > poll_apart) {
    polls = false;
  }
}

void report(const Kernel &k) {
  if (time_asked() < 2) return;
  const Spent &s = k.spent;
  const double all = double(s.issue + s.matrix + s.memory + s.rest + s.meeting + s.polling) / 100,
               us = double(k.end - k.begin) / 1e6, rate = timed()->link_gbs * us * 1e3;
  double link = 0;
  for (size_t node = 1; node < std::size(s.link); node++) link = std::max(link, s.link[node]);
  // Names of templates are long: their first words say which.
  fprintf(
      stderr,
      "amdgpu: %.2f us from %.2f on: instructions %.0f%%, matrices %.0f%%, memory %.0f%%, LDS and "
      "scalars %.0f%%, meeting %.0f%%, polling %.0f%%; own memory %.0f%%, a link %.0f%%: %.60s\n",
      us, double(k.begin) / 1e6, double(s.issue) / all, double(s.matrix) / all,
      double(s.memory) / all, double(s.rest) / all, double(s.meeting) / all,
      double(s.polling) / all, s.own / (timed()->hbm_gbs * us * 10), link / rate * 100,
      k.name.c_str());
  for (const auto &[offset, place] : k.places)
    if (double(place.time) >= all)
      fprintf(stderr,
              "amdgpu: %.0f%% in the instruction at 0x%tx, which waves executed %" PRIu64
              " times\n",
              double(place.time) / all, offset, place.times);
}

uint64_t ticks_of(const Wave &w) {
  return w.timed ? ticks_at(w.timed->now) : ticks();
}
uint64_t cycles_of(const Wave &w) {
  return w.timed ? uint64_t(double(w.timed->now) / 1e6 * timed()->clock_mhz) : 17 * ticks();
}

} // namespace amdgpu

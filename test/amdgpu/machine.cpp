// SPDX-License-Identifier: MIT
#include "machine.hpp"
#include "clock.hpp"
#include "decode.hpp"
#include "driver.hpp"
#include "strict.hpp"
#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <unistd.h>

namespace amdgpu {

thread_local const Wave *current;

namespace {
// Long enough that taking turns costs little, short enough that a wave that spins does not keep the
// one that it waits for (4,096 instructions are about half a millisecond).
constexpr int slice = 4096;

enum Setup : uint16_t { // which scalars a kernel finds, in this order
  private_buffer = 1,
  dispatch_ptr = 2,
  queue_ptr = 4,
  kernarg_ptr = 8,
  dispatch_id = 16,
  flat_scratch = 32,
  private_size = 64
};

template <class T> T field(const uint8_t *from, size_t offset) {
  T value;
  memcpy(&value, from + offset, sizeof value);
  return value;
}
} // namespace

uint64_t ticks() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec)) / 10;
}

void stop(const Wave *wave, const char *format, ...) {
  char what[256] = "", where[512] = "";
  va_list list;
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  if (wave) {
    const Group &g = *wave->group;
    snprintf(where, sizeof where, ": kernel %s, workgroup %u %u %u, pc +0x%zx: %s",
             g.kernel->name.c_str(), g.id[0], g.id[1], g.id[2], size_t(wave->at - g.kernel->entry),
             text_of(wave->at).c_str());
  }
  if (const uint64_t *seed = strict_seed())
    fprintf(stderr, "amdgpu: %s%s, with AMDGPU_STRICT=%zu\n", what, where, size_t(*seed));
  else
    fprintf(stderr, "amdgpu: %s%s\n", what, where);
  fflush(nullptr);
  _exit(134);
}

Machine::Machine(unsigned node, int units) : units_(size_t(units)) {
  if (strict_seed()) strict_ = std::make_shared<Strict>(node, units);
  if (timed()) die_ = std::make_shared<TimedDie>(node, units);
}

Unit Unit::with(const Kernel &k, unsigned first, int more) const {
  Unit then = *this;
  for (unsigned w = 0; w < k.waves(); w++) {
    Simd &s = then.simd[(first + w) % simds];
    s.waves += more, s.registers += more * int(k.registers);
  }
  then.lds += more * int64_t(k.lds);
  return then;
}
bool Unit::possible() const {
  return lds <= int64_t(nodes().lds_kib) << 10 &&
         std::all_of(simd, simd + simds, [](const Simd &s) {
           return s.waves <= most_waves && s.registers <= most_registers;
         });
}
bool has_room(const Kernel &k) {
  return k.waves() * lanes <= 1024 && Unit().with(k, 0).possible();
}

std::unique_ptr<Group> Machine::make(Kernel &k) {
  auto group = std::make_unique<Group>();
  group->kernel = &k;
  uint64_t n = k.next++;
  uint32_t size[3], items = 1;
  for (int d = 0; d < 3; d++) {
    group->id[d] = uint32_t(n % k.groups[d]);
    n /= k.groups[d];
    size[d] =
        std::min(k.size[d], k.grid[d] - group->id[d] * k.size[d]); // the last one may be smaller
    items *= size[d];
  }
  group->lds.resize(k.lds);
  const uint32_t rsrc1 = field<uint32_t>(k.descriptor, 48),
                 rsrc2 = field<uint32_t>(k.descriptor, 52),
                 rsrc3 = field<uint32_t>(k.descriptor, 44);
  const uint16_t setup = field<uint16_t>(k.descriptor, 56),
                 preload = field<uint16_t>(k.descriptor, 58);
  (void)rsrc1;
  for (uint32_t first = 0; first < items; first += lanes) {
    auto wave = std::make_unique<Wave>();
    wave->group = group.get();
    wave->pc = wave->at = k.entry;
    wave->v.resize(size_t(k.registers) * lanes);
    wave->accumulators = ((rsrc3 & 63) + 1) * 4;
    wave->scratch.resize(size_t(k.scratch) * lanes);
    const uint32_t count = std::min<uint32_t>(lanes, items - first);
    wave->set_pair(Wave::exec, count == lanes ? ~uint64_t(0) : (uint64_t(1) << count) - 1);
    int s = 0;
    const auto put = [&](uint64_t value) { wave->set_pair(s, value), s += 2; };
    const uint64_t stack = reinterpret_cast<uint64_t>(wave->scratch.data());
    if (setup &
        private_buffer) { // swizzled by lanes: what the address says is ours, see Space::scratch
      put(uint64_t(1) << 63);
      put(0);
    }
    if (setup & dispatch_ptr) put(reinterpret_cast<uint64_t>(k.packet));
    if (setup & queue_ptr) put(k.queue);
    if (setup & kernarg_ptr) put(field<uint64_t>(k.packet, 40));
    if (setup & dispatch_id) put(0);
    if (setup & flat_scratch) put(stack);
    if (setup & private_size) wave->s[s++] = k.scratch;
    // Arguments that are there when the kernel begins. GPUs without that load them by the first 256
    // bytes of code.
    if (const int count = preload & 127; count) {
      memcpy(wave->s + s,
             reinterpret_cast<const uint32_t *>(field<uint64_t>(k.packet, 40)) + (preload >> 7),
             size_t(count) * 4);
      s += count;
      wave->pc = wave->at = k.entry + 256;
    }
    for (int d = 0; d < 3; d++)
      if (rsrc2 & (128u << d)) wave->s[s++] = group->id[d];
    if (rsrc2 & 1024) wave->s[s++] = 0;
    // Its own memory begins at 0 of the buffer. From gfx940 on the hardware knows where it is.
    if (rsrc2 & 1 && gfx90a()) wave->s[s++] = 0;
    for (uint32_t i = 0; i < count; i++) { // gfx90a packs the ids of a work-item into one register
      const uint32_t item = first + i, x = item % size[0], y = item / size[0] % size[1],
                     z = item / size[0] / size[1];
      wave->v[i] = x | y << 10 | z << 20;
    }
    group->waves.push_back(std::move(wave));
  }
  return group;
}

void Machine::place() {
  for (size_t i = 0; i < kernels_.size();) {
    Kernel &k = *kernels_[i];
    for (size_t u = 0; u < units_.size() && k.next < k.total;) {
      Unit &unit = units_[(u + k.next) % units_.size()];
      const uint64_t groups = k.next - (k.total - k.left); // that run
      unsigned simd = 0;
      while (simd < Unit::simds && !unit.with(k, simd).possible()) simd++;
      if (simd == Unit::simds || (groups + 1) * k.waves() > k.most_waves) {
        u++;
        continue;
      }
      auto group = make(k);
      group->cu = int(&unit - units_.data());
      group->simd = simd;
      unit = unit.with(k, simd);
      if (strict_)
        for (auto &wave : group->waves)
          wave->late = std::make_shared<Late>(*wave, *strict_->cus[size_t(group->cu)]), k.unread++;
      if (die_) {
        const Ps freed = die_->unit[size_t(group->cu)].freed;
        for (auto &wave : group->waves) {
          const unsigned on = (simd + unsigned(&wave - group->waves.data())) % Unit::simds;
          wave->timed = std::make_shared<Timed>(*wave, *die_, unsigned(group->cu), on,
                                                std::max(k.begin, freed));
          due(*wave);
        }
      }
      groups_.push_back(std::move(group));
      u = 0;
    }
    if (k.next < k.total)
      i++; // a group that does not fit waits; one of another queue's kernel may find room
    else
      kernels_.erase(kernels_.begin() + ptrdiff_t(i));
  }
}

void Machine::run(Wave &w) {
  const auto step = [&w](const Op &op) {
    w.at = w.pc;
    w.pc += op.bytes;
    op.run(w, op);
  };
  const auto on = [&w] { return w.state == Wave::running && !w.yields; };
  if (strict_) [[unlikely]] {
    const int turns = strict_->slice();
    w.late->paused = false;
    w.since_poll = std::min(w.since_poll + turns, poll_apart);
    for (int n = turns; n > 0 && on() && !w.late->paused; n--) {
      const Op &op = decoded(w);
      w.late->before(op);
      step(op);
      w.late->after(op);
    }
  } else {
    for (int n = 0; n < slice && on(); n++) step(decoded(w));
  }
}

void Machine::run_until(Wave &w, int64_t time) {
  Timed &t = *w.timed;
  Kernel &k = *w.group->kernel;
  w.yields = false;
  current = &w;
  while (w.state == Wave::running && !w.yields && t.now <= time) {
    const Op &op = decoded(w);
    const Ps before = t.now;
    w.at = w.pc;
    w.pc += op.bytes;
    op.run(w, op);
    t.after(op);
    if (time_asked() == 3) {
      Kernel::Place &place = k.places[w.at - k.entry];
      place.time += t.now - before, place.times++;
    }
  }
  current = nullptr;
}

void Machine::due(Wave &w) {
  due_.push_back({w.timed->now, turns_++, &w});
  std::push_heap(due_.begin(), due_.end(), std::greater<>());
}

// The wave whose time is least goes on, and a little further than the next one: what units, caches
// and links serve is served in order. Waves that poll have their turns between, and no time of
// their own until they see what they wait for.
bool Machine::turn_by_time() {
  constexpr int pops = 1024;
  constexpr Ps ahead = 20000;
  place();
  bool worked = false;
  const auto seen = [&](Wave &w) { // what it does next
    Group &g = *w.group;
    if (w.state == Wave::running)
      return w.timed->polls && w.yields ? polling_.push_back(&w) : due(w);
    g.waiting += w.state == Wave::barrier;
    const size_t over = size_t(std::count_if(g.waves.begin(), g.waves.end(), [](const auto &other) {
      return other->state == Wave::ended;
    }));
    if (!g.waiting || g.waiting + over < g.waves.size()) return;
    Ps last = 0;
    for (auto &other : g.waves) last = std::max(last, other->timed->now);
    g.waiting = 0;
    for (auto &other : g.waves) {
      if (other->state != Wave::barrier) continue;
      other->state = Wave::running;
      other->timed->spent.meeting += last - other->timed->now;
      if (time_asked() == 3)
        g.kernel->places[other->at - g.kernel->entry].time += last - other->timed->now;
      other->timed->now = last;
      due(*other);
    }
  };
  std::vector<Wave *> polling;
  polling.swap(polling_);
  for (Wave *w : polling) {
    run_until(*w, w->timed->now + ahead * 1000);
    worked |= w->state != Wave::running || !w->yields;
    seen(*w);
  }
  const auto next = [&] { return due_.empty() ? TimedDie::none : due_.front().time; };
  const Ps most = die_->pace(next());
  for (int n = 0; n < pops && next() <= most && !due_.empty(); n++) {
    std::pop_heap(due_.begin(), due_.end(), std::greater<>());
    Wave &w = *due_.back().wave;
    due_.pop_back();
    run_until(w, (due_.empty() ? w.timed->now + 50 * ahead : due_.front().time) + ahead);
    seen(w);
    worked = true;
  }
  die_->pace(next());
  for (auto &group : groups_)
    if (std::all_of(group->waves.begin(), group->waves.end(),
                    [](const auto &w) { return w->state == Wave::ended; })) {
      Ps last = 0;
      for (auto &w : group->waves) last = std::max(last, w->timed->now);
      die_->unit[size_t(group->cu)].freed = std::max(die_->unit[size_t(group->cu)].freed, last);
      group->kernel->end = std::max(group->kernel->end, last);
      ended(group);
    }
  std::erase_if(groups_, [](const auto &group) { return !group; });
  return worked;
}

void Machine::ended(std::unique_ptr<Group> &group) {
  Unit &unit = units_[size_t(group->cu)];
  unit = unit.with(*group->kernel, group->simd, -1);
  group->kernel->left--;
  group.reset();
}

bool Machine::turn() {
  if (die_) return turn_by_time();
  if (strict_) strict_->turn();
  place();
  bool worked = false;
  for (auto &group : groups_) {
    size_t ended = 0, waiting = 0;
    for (auto &owner : group->waves) {
      Wave &w = *owner;
      if (w.state == Wave::running && strict_ && w.late->stalled()) {
        worked = true;
      } else if (w.state == Wave::running) {
        current = &w;
        w.yields = false;
        run(w);
        if (w.yields && strict_) w.since_poll = 0;
        worked |= !w.yields && w.since_poll == poll_apart;
        current = nullptr;
      }
      ended += w.state == Wave::ended;
      waiting += w.state == Wave::barrier;
    }
    if (waiting && waiting + ended == group->waves.size()) { // all have come
      worked = true;
      for (auto &w : group->waves)
        if (w->state == Wave::barrier) w->state = Wave::running;
    }
    if (ended == group->waves.size()) this->ended(group);
  }
  std::erase_if(groups_, [](const auto &group) { return !group; });
  return worked;
}

} // namespace amdgpu

// SPDX-License-Identifier: MIT
#include "strict.hpp"
#include "driver.hpp"
#include "memory.hpp"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace amdgpu {
namespace {

constexpr size_t most_vm = 63, most_lgkm = 15; // what the counters hold; more waits
constexpr uint64_t order_line = 128;

int index_of(const Operand &o) { // of a vector register
  return o.reg + (o.accumulator ? 256 : 0);
}
std::string name_of(const Operand &o, int k) {
  return (o.kind == Operand::scalar ? "s" : o.accumulator ? "a" : "v") + std::to_string(o.reg + k);
}

} // namespace

const uint64_t *strict_seed() {
  static const uint64_t *seed = []() -> const uint64_t * {
    const char *text = getenv("AMDGPU_STRICT");
    if (!text || !*text) return nullptr;
    char *end;
    errno = 0;
    const unsigned long value = strtoul(text, &end, 10);
    if (*end || errno || *text == '-') {
      fprintf(stderr, "amdgpu: AMDGPU_STRICT=%s is no number\n", text);
      _exit(134);
    }
    return new uint64_t(value);
  }();
  return seed;
}

// Of an access to each line, in order.
void Cu::happen(uint64_t line, const Request *last) {
  const auto found = order.find(line);
  if (found == order.end()) return;
  auto &parts = found->second;
  const Wave *before = current;
  while (!parts.empty()) {
    const Part part = parts.front();
    parts.pop_front();
    Request &r = *part.request;
    Wave &w = r.wave->wave;
    const uint8_t *at = w.at;
    current = &w, w.at = r.at; // for the report of a fault
    for (uint64_t mask = part.mask; mask; mask &= mask - 1) {
      const int lane = std::countr_zero(mask);
      r.act(w, r.op, lane, r.address[lane], r.data[lane]);
    }
    w.at = at;
    r.left &= ~part.mask;
    if (&r == last) break;
  }
  current = before;
  if (parts.empty()) order.erase(found);
}
void Cu::some() {
  const size_t buckets = order.bucket_count();
  for (size_t n = 0, b = random.next() % buckets; n < 16; n++, b = (b + 1) % buckets)
    if (order.begin(b) != order.end(b)) {
      const auto &[line, parts] = *order.begin(b);
      return happen(line, parts.front().request);
    }
}
void Cu::all() {
  while (!order.empty()) happen(order.begin()->first, nullptr);
}

Late::Late(Wave &its, Cu &its_cu) : wave(its), cu(its_cu) {
  static uint64_t count;
  lds_ = ~count++; // no address has such a line
}

bool Late::stalled() {
  if (cu.random.one_in(cu.stall)) stalled_for_ = cu.random.next() >> 56;
  return stalled_for_ && stalled_for_--;
}
void Late::part(Act act, Space space, int lane, size_t bytes) {
  Request &r = *open_;
  const uint64_t address = r.address[lane];
  if (space == Space::flat && address >> 32 == shared_base >> 32) space = Space::lds;
  if (space == Space::flat && address >> 32 == private_base >> 32) space = Space::scratch;
  (space == Space::lds ? r.lds : r.memory) = true;
  const uint64_t line = space == Space::lds ? lds_ : address / order_line;
  const bool across = space != Space::lds && (address + bytes - 1) / order_line != line;
  if (space == Space::scratch || across) { // no other lane sees a lane's own memory
    if (across && space != Space::scratch) cu.happen(line, nullptr), cu.happen(line + 1, nullptr);
    return act(wave, r.op, lane, address, r.data[lane]);
  }
  r.act = act;
  r.line[lane] = line;
  r.left |= uint64_t(1) << lane;
  auto &parts = cu.order[line];
  if (parts.empty() || parts.back().request != &r) parts.push_back({&r, 0});
  parts.back().mask |= uint64_t(1) << lane;
}

void Late::finish(Request &r) {
  while (r.left) cu.happen(r.line[std::countr_zero(r.left)], &r);
  if (r.op.effect == Effect::write_back && (gfx90a() || cu.l2.reaches(r.op.bits)))
    cu.l2.write_back();
}
// A wave's stores come before its write-back.
void Late::finish_one(Queue &q, size_t k) {
  Request &r = *q.requests[k];
  for (size_t i = 0; i < k && r.op.effect == Effect::write_back; i++) finish(*q.requests[i]);
  finish(r);
}
// Of the accesses that a wait covers, one may happen while others go on. True if there is more.
bool Late::linger(Queue &q, size_t left) {
  size_t waiting = 0;
  const size_t count = q.requests.size() > left ? q.requests.size() - left : 0;
  for (size_t k = 0; k < count && waiting < 2; k++) waiting += q.requests[k]->left != 0;
  if (waiting < 2 || cu.random.one_in(2)) return false;
  finish_one(q, cu.random.next() % count);
  return true;
}
// Until no more than so many are under way. Covered accesses happen in any order.
void Late::retire(Queue &q, size_t left) {
  if (q.requests.size() <= left) return;
  const size_t count = q.requests.size() - left;
  const bool backwards = cu.random.one_in(2);
  for (size_t k = 0; k < count; k++) finish_one(q, backwards ? count - 1 - k : k);
  for (size_t k = 0; k < count; k++) {
    mark(q, *q.requests.front(), -1);
    q.requests.pop_front();
  }
}
void Late::mark(Queue &q, const Request &r, int by) {
  const Op &op = r.op;
  if (!op.gives) return;
  // A flat load counts in both, but its data comes where its lanes are.
  if (op.effect == Effect::flat && !(&q == &vm_ ? r.memory : r.lds)) return;
  const Operand &o = op.operand[0];
  for (int k = 0; k < o.count; k++) {
    uint8_t &count = o.kind == Operand::scalar ? q.scalar[o.reg + k] : q.vector[index_of(o) + k];
    count = uint8_t(count + by);
  }
  q.results += unsigned(by);
}
void Late::add(Queue &q) {
  q.requests.push_back(open_);
  mark(q, *open_, 1);
}

// A load's result may not be used before; another load of the same kind brings its own after it.
void Late::use(const Op &op) {
  if (!vm_.results && !lgkm_.results) return;
  for (int k = 0; k < op.operands; k++) {
    const Operand &o = op.operand[k];
    const bool vector = o.kind == Operand::vector;
    if (o.kind == Operand::vccz && lgkm_.scalar[Wave::vcc] + lgkm_.scalar[Wave::vcc + 1])
      stop(&wave, "vcc is used before a scalar load has brought it");
    if (!vector && o.kind != Operand::scalar) continue;
    for (int i = 0; i < o.count; i++) {
      const bool vm = vector && vm_.vector[index_of(o) + i],
                 lgkm = vector ? lgkm_.vector[index_of(o) + i] : lgkm_.scalar[o.reg + i];
      const bool in_order =
          k == 0 && op.gives && vector &&
          ((op.effect == Effect::vm && !lgkm) || (op.effect == Effect::lgkm && !vm));
      if ((vm || lgkm) && !in_order)
        stop(&wave, "%s is used before what a load brings there has come, which %s counts",
             name_of(o, i).c_str(),
             vm && lgkm ? "vmcnt and lgkmcnt"
             : vm       ? "vmcnt"
                        : "lgkmcnt");
    }
  }
}
// LLVM D123687: a store of more than 8 bytes reads its registers late.
void Late::wait_states(const Op &op) {
  if (stored_for_ > 0) {
    const Operand &o = op.operand[0];
    if (op.vectors && op.operands && o.kind == Operand::vector &&
        index_of(o) < index_of(stored_) + stored_.count &&
        index_of(stored_) < index_of(o) + o.count)
      stop(&wave, "%s is written while a store still reads it", name_of(o, 0).c_str());
    stored_for_ -= 1 + op.idle;
  }
  // LLVM's GCNHazardRecognizer: one wait state.
  if (op.to_lds && new_m0_) stop(&wave, "m0 is read in the wait state after it was written");
  new_m0_ = op.effect == Effect::none && op.operands && op.operand[0].kind == Operand::scalar &&
            op.operand[0].reg == Wave::m0;
  if (op.wide >= 0) stored_ = op.operand[op.wide], stored_for_ = gfx90a() ? 1 : 2;
}

void Late::before(const Op &op) {
  paused = false;
  wave.at = wave.pc;
  use(op);
  wait_states(op);
  switch (op.effect) {
  case Effect::vm:
  case Effect::lgkm:
  case Effect::scalar:
  case Effect::flat:
  case Effect::write_back:
    retire(vm_, most_vm - 1), retire(lgkm_, most_lgkm - 1);
    open_ = std::make_shared_for_overwrite<Request>();
    open_->wave = this, open_->op = op, open_->at = wave.pc;
    break;
  default:
    break;
  }
}
void Late::after(const Op &op) {
  const auto out_of_order = [](const Queue &q) {
    return std::any_of(q.requests.begin(), q.requests.end(), [](const auto &r) {
      return r->op.effect == Effect::scalar || (r->op.effect == Effect::flat && r->lds);
    });
  };
  switch (op.effect) {
  case Effect::none:
    break;
  case Effect::vm:
  case Effect::write_back:
    add(vm_);
    break;
  case Effect::lgkm:
  case Effect::scalar:
    add(lgkm_);
    break;
  case Effect::flat:
    add(vm_), add(lgkm_);
    break;
  case Effect::wait: // what comes out of order may be the one that has not come
    if ((paused = linger(vm_, size_t(op.offset)))) {
      wave.pc = wave.at; // it waits again
      break;
    }
    if (!op.offset || !out_of_order(vm_)) retire(vm_, size_t(op.offset));
    if (!op.offset1 || !out_of_order(lgkm_)) retire(lgkm_, size_t(op.offset1));
    if (!op.offset1) arguments_read();
    break;
  case Effect::invalidate_l1:
    cu.l1.clear();
    break;
  case Effect::invalidate_l2:
    cu.l2.invalidate();
    break;
  case Effect::invalidate:
    cu.l1.clear();
    if (cu.l2.reaches(op.bits)) cu.l2.invalidate();
    break;
  case Effect::end:
    retire(vm_, 0), retire(lgkm_, 0);
    arguments_read();
    break;
  }
  if (cu.random.one_in(cu.early)) cu.some();
}

Strict::Strict(unsigned node, int units) : random(*strict_seed() * 64 + node) {
  for (int i = 0; i < 8; i++) random.next();
  // How late a run is: by the seed, from nearly at once to not before it must.
  constexpr uint64_t early[] = {0, 4, 64, 1024}, back[] = {0, 0, 16, 2}, lulls[] = {4096, 64, 4, 1},
                     stalls[] = {512, 512, 64, 16};
  const uint64_t kind = random.next() >> 32;
  lull = lulls[kind >> 4 & 3];
  for (unsigned i = 0; i < nodes().xccs; i++)
    l2.push_back(std::make_unique<L2>(node, nodes().xccs > 1, random, back[kind >> 2 & 3]));
  for (int i = 0; i < units; i++)
    cus.push_back(std::make_unique<Cu>(*l2[size_t(i) % l2.size()], random, early[kind & 3],
                                       stalls[kind >> 6 & 3]));
}
void Strict::acquire(bool system) {
  for (auto &cu : cus) cu->l1.clear();
  for (auto &each : l2)
    if (system || l2.size() > 1) each->invalidate();
}
void Strict::release(bool system) {
  for (auto &each : l2)
    if (system || l2.size() > 1) each->write_back();
}
void Strict::forget(uint64_t begin, size_t bytes) {
  for (auto &each : l2) each->forget(begin, bytes);
}
int Strict::slice() {
  return 1 << random.next() % 12;
}
void Strict::turn() {
  for (auto &cu : cus)
    if (random.one_in(lull)) cu->all();
}

} // namespace amdgpu

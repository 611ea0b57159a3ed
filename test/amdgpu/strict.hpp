// SPDX-License-Identifier: MIT
// The strict machine delays and reorders accesses as far as hardware may, by a seed's random
// numbers. Its caches keep lines as long as hardware may. By LLVM's guide to AMDGPU, "Memory Model
// gfx90a" and "gfx942":
//
// - The result of a vector, flat, LDS or scalar access is there after the s_waitcnt that covers it.
//   A register that is used before ends the process, with one line.
// - Accesses of a compute unit to one line happen in the order of the instructions, those to
//   different lines in any order until the wave waits for them. An LDS access happens when its wave
//   waits for it, or before, in the order of the wave's.
// - Each compute unit has an L1, which stores pass through, and which only its own stores, atomics
//   and invalidations touch: a line stays as it was when it came.
// - Each die has an L2. Keep says which memory its lines hold, and which GPUs see the lines.
#pragma once
#include "machine.hpp"
#include <array>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

namespace amdgpu {

// The seed in AMDGPU_STRICT, or NULL: the plain machine.
const uint64_t *strict_seed();

class Random {
public:
  explicit Random(uint64_t seed) : state_((seed + 1) * 0x9e3779b97f4a7c15) {}
  uint64_t next() {
    state_ ^= state_ >> 12, state_ ^= state_ << 25, state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1d;
  }
  bool one_in(uint64_t n) { return n && (next() >> 20) % n == 0; }

private:
  uint64_t state_;
};

// What an L2 does with memory: nothing (fine-grained memory of gfx90a is written through and
// probed, or passed by); writes lines back late, but sees what others write (coarse-grained memory
// of its own GPU); or reads lines once, too (other GPUs' coarse-grained memory; on gfx942 all of
// other GPUs).
enum class Keep : uint8_t { nothing, written, lines };

class L2 {
public:
  L2(unsigned node, bool several, Random &random, uint64_t early)
      : node_(node), several_(several), random_(random), early_(early) {}
  // fresh: not from a line that came before. through: to memory at once.
  void read(uint64_t address, void *to, size_t bytes, bool fresh);
  void write(uint64_t address, const void *from, size_t bytes, bool through);
  // Where an atomic finds its word, or NULL: memory itself.
  void *word(uint64_t address, size_t bytes, bool system);
  // Whether sc0 and sc1 of gfx942 ask for memory behind this cache.
  bool reaches(uint8_t bits) const;
  void write_back();
  void invalidate(); // lines that may be stale
  void forget(uint64_t begin, size_t bytes);

private:
  static constexpr size_t size = 64;
  struct Line {
    Keep keep = Keep::nothing;
    bool filled = false;
    uint64_t dirty = 0; // a bit a byte
    alignas(8) uint8_t data[size];
    // Of probed memory: what others' writes have changed, the word that is taken for it, and, of
    // this GPU's own, how that was when a byte became dirty.
    uint8_t *probed = nullptr;
    uint32_t *taken = nullptr;
    uint8_t seen[size];
  };
  Keep keep_of(uint64_t address);
  void know(uint64_t at, Line &line, Keep keep); // which it was asked for last
  void touch(Line &line, uint64_t bytes);        // they become dirty
  void probe(Line &line);                        // what others have written since is not
  void fill(uint64_t at, Line &line);
  void clean(uint64_t at, Line &line);
  template <class F> void take(F gone);
  unsigned node_;
  bool several_; // of this GPU
  Random &random_;
  uint64_t early_; // a line in so many is written back at once
  std::unordered_map<uint64_t, Line> lines_;
  uint64_t known_from_ = 1, known_to_ = 0, version_ = 0; // the allocation that was asked for last
  Keep known_ = Keep::nothing;
  bool known_own_ = false;
  uint8_t *known_probed_ = nullptr;
};

struct Late;
// The access of a lane at its address, with the registers that it brought.
using Act = void (*)(Wave &, const Op &, int lane, uint64_t address, const uint32_t *data);

// An instruction that reaches memory, from its issue to the wait that covers it.
struct Request {
  Late *wave;
  Op op;
  const uint8_t *at;
  Act act = nullptr;
  bool memory = false, lds = false; // where lanes of it go
  uint64_t left = 0;                // lanes that have not happened
  uint64_t address[lanes];
  uint64_t line[lanes];
  uint32_t data[lanes][4];
};

struct Cu {
  Cu(L2 &its, Random &its_random, uint64_t early_, uint64_t stall_)
      : l2(its), random(its_random), early(early_), stall(stall_) {}
  L2 &l2;
  Random &random;
  uint64_t early; // after one instruction in so many, some access happens
  uint64_t stall; // in one turn in so many a wave begins to be late
  struct Part {
    Request *request;
    uint64_t mask;
  };
  std::unordered_map<uint64_t, std::deque<Part>> order; // of each line
  std::unordered_map<uint64_t, std::array<uint8_t, 128>> l1;

  // Does what waits at that line, up to this request's part, or all of it.
  void happen(uint64_t line, const Request *last);
  void some();
  void all();
};

// Of a wave.
struct Late {
  Late(Wave &its, Cu &its_cu);
  void before(const Op &op); // what must not be used is not, and a request is opened
  void after(const Op &op);
  bool stalled(); // others run, sometimes for long
  // The lane's part of the open request, which happens later.
  void part(Act act, Space space, int lane, size_t bytes);
  Request &open() { return *open_; }

  Wave &wave;
  Cu &cu;
  bool paused = false; // in a wait, which goes on in another turn

private:
  struct Queue {
    std::deque<std::shared_ptr<Request>> requests;
    uint8_t vector[2 * 256] = {}, scalar[128] = {}; // results to come, of each register
    unsigned results = 0;
  };
  void arguments_read() { wave.group->kernel->unread -= !std::exchange(has_arguments_, true); }
  void use(const Op &op);
  void mark(Queue &queue, const Request &request, int by);
  void add(Queue &queue);
  void finish(Request &request);
  void finish_one(Queue &queue, size_t k);
  bool linger(Queue &queue, size_t left);
  void retire(Queue &queue, size_t left);
  void wait_states(const Op &op);
  Queue vm_, lgkm_;
  std::shared_ptr<Request> open_;
  Operand stored_; // by the last wide store, until so many wait states later
  int stored_for_ = 0;
  bool new_m0_ = false; // written by the instruction before
  uint64_t stalled_for_ = 0;
  bool has_arguments_ = false; // it has waited for scalar loads once
  uint64_t lds_;               // in the place of a line
};

// A die's, if the machine is strict.
struct Strict {
  Strict(unsigned node, int units);
  Random random;
  std::vector<std::unique_ptr<L2>> l2; // units take turns in them
  std::vector<std::unique_ptr<Cu>> cus;
  uint64_t lull;             // in one turn in so many a unit does all that waits
  void acquire(bool system); // before a packet
  void release(bool system); // after it
  void forget(uint64_t begin, size_t bytes);
  int slice();
  void turn();
};

// Of memory.hpp's accesses, in the strict machine.
void late_read(Wave &w, uint8_t bits, uint64_t address, void *to, size_t bytes);
void late_write(Wave &w, uint8_t bits, uint64_t address, const void *from, size_t bytes);
void *late_word(Wave &w, uint8_t bits, uint64_t address, size_t bytes);
// Bytes that the unit's own store or atomic has changed.
void late_changed(Wave &w, uint64_t address, const void *now, size_t bytes);
void late_scalar(Wave &w, uint64_t address, void *to, size_t bytes);

} // namespace amdgpu

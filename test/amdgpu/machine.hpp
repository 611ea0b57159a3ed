// SPDX-License-Identifier: MIT
// Waves of 64 lanes, their workgroups, and the compute units that hold them.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace amdgpu {

inline constexpr int lanes = 64;

struct Wave;
struct Op;
using Run = void (*)(Wave &, const Op &);

// An operand of an instruction. Registers of a group lie behind each other.
struct Operand {
  enum Kind : uint8_t { none, scalar, vector, constant, scc, vccz, execz };
  Kind kind = none;
  bool neg = false, abs = false, sext = false;
  bool accumulator = false; // a vector register of the upper part of the file
  bool literal = false;     // 32 bits of the code: the upper half of a double
  bool decimal = false;     // a floating-point constant, which has the bits of the reader's type
  uint8_t count = 1;        // of registers
  uint16_t reg = 0;
  uint64_t bits = 0;
  double number = 0;
};

// SDWA: which part of a register.
enum class Part : uint8_t { all, byte0, byte1, byte2, byte3, word0, word1 };
enum class Rest : uint8_t { zero, sign, keep };
// DPP: which lane a lane reads.
enum class Move : uint8_t {
  none,
  quad,
  row_shl,
  row_shr,
  row_ror,
  wave_shl,
  wave_rol,
  wave_shr,
  wave_ror,
  mirror,
  half_mirror,
  bcast15,
  bcast31,
  newbcast
};

enum class Space : uint8_t { flat, global, lds, scratch };

// How an instruction counts for s_waitcnt, and what it does to caches.
enum class Effect : uint8_t {
  none,
  vm,     // counts in vmcnt,
  lgkm,   // in lgkmcnt: LDS, in order,
  scalar, // in lgkmcnt, in no order,
  flat,   // in both
  wait,
  write_back, // of the L2; counts in vmcnt
  invalidate_l1,
  invalidate_l2,
  invalidate, // as far as the bits say
  end
};

// The kinds of instructions, on which their times depend.
enum class Kind : uint8_t { scalar, vector, quarter, matrix, load, store, atomic };

struct Op {
  Run run = nullptr;
  uint8_t bytes = 4;
  uint8_t operands = 0;
  Operand operand[6];
  int32_t offset = 0, offset1 = 0; // of a memory access; offset is a branch's distance, too
  bool returns = false;            // glc: an atomic wants the old value
  bool offen = false;
  bool clamp = false;
  int8_t omod = 0; // 1: times 2, 2: times 4, 3: half
  uint8_t select = 0, select_hi = 0xff, neg_lo = 0,
          neg_hi = 0; // op_sel and its like, a bit an operand
  uint8_t table = 0;  // of bitop3
  Part part[4] = {};  // of the destination and the sources
  Rest rest = Rest::zero;
  Move move = Move::none;
  uint8_t move_by = 0, rows = 15, banks = 15;
  bool bound_zero = false;
  Effect effect = Effect::none;
  bool gives = false;   // what comes late is operand 0
  bool vectors = false; // of the vector unit
  bool to_lds = false;  // it brings LDS what it loads, where M0 says
  int8_t wide = -1;     // the operand that is stored, if it is of more than 8 bytes
  uint8_t idle = 0;     // wait states beyond its own
  uint8_t bits = 0;     // glc or sc0, sc1, and slc or nt: 1, 2 and 4
  Kind kind = Kind::scalar;
  uint8_t bytes_each = 4; // of a matrix's elements,
  float flops = 0;        // and what multiplying it takes
};

struct Late;
struct Timed;
struct TimedDie;
struct Cu;
struct Strict;
struct Kernel; // what a dispatch packet says, decoded once
struct Group;

// A wave that has polled and executed fewer since does nothing but poll.
inline constexpr int poll_apart = 512;

struct Wave {
  enum State : uint8_t { running, barrier, ended };
  static constexpr int vcc = 106, m0 = 124, exec = 126;

  Group *group = nullptr;
  const uint8_t *pc = nullptr; // of the next instruction
  const uint8_t *at = nullptr; // of this one
  uint32_t s[128] = {};
  std::vector<uint32_t> v; // [register][lane]
  unsigned accumulators = 0;
  bool scc = false;
  State state = running;
  bool yields = false;         // it polls: others first
  int since_poll = poll_apart; // instructions, as slices of the strict machine are short
  // s_set_gpr_idx_on: the operands that m0 moves, a bit for each source, and 8 for the destination
  uint8_t indexed = 0;
  int lane = 0; // that a memory access is for, and its address, for the report of a fault
  uint64_t address = 0;
  std::vector<uint8_t> scratch;
  std::shared_ptr<Late> late;   // in the strict machine
  std::shared_ptr<Timed> timed; // in the one that has a clock

  uint64_t pair(int reg) const {
    uint64_t both;
    memcpy(&both, s + reg, 8);
    return both;
  }
  void set_pair(int reg, uint64_t both) { memcpy(s + reg, &both, 8); }
  uint64_t mask() const { return pair(exec); }
  uint32_t *vector(const Operand &o, int k = 0) {
    return v.data() + size_t(o.reg + k + (o.accumulator ? accumulators : 0)) * lanes;
  }
};

struct Group {
  Kernel *kernel = nullptr;
  uint32_t id[3] = {};
  std::vector<std::unique_ptr<Wave>> waves;
  std::vector<uint8_t> lds;
  int cu = 0;
  unsigned simd = 0;  // of its first wave
  size_t waiting = 0; // for the others, where there is a clock
};

// The uses of a kernel's time, in ps, summed over its waves, where there is a clock.
struct Spent {
  int64_t issue = 0, matrix = 0, memory = 0, rest = 0, meeting = 0, polling = 0;
  double own = 0, link[17] = {}; // bytes of own memory, and to and from each node
};

// A kernel under way.
struct Kernel {
  const uint8_t *packet = nullptr, *descriptor = nullptr, *entry = nullptr;
  uint64_t queue = 0; // the amd_queue_t
  std::string name;
  uint32_t groups[3] = {}, size[3] = {}, grid[3] = {};
  uint32_t lds = 0, scratch = 0, registers = 0;
  uint32_t most_waves = ~0u;              // at a time, which have scratch
  uint64_t next = 0, total = 0, left = 0; // groups: to start, all, not ended
  uint64_t unread = 0;        // waves that may still load arguments, on a strict machine
  int64_t begin = 0, end = 0; // in ps, where there is a clock
  Spent spent;
  struct Place {
    int64_t time; // in ps, of all waves
    uint64_t times;
  };
  std::map<ptrdiff_t, Place> places; // by the instruction's offset, where AMDGPU_TIME is 3
  unsigned waves() const {
    return (size[0] * size[1] * size[2] + unsigned(lanes) - 1) / unsigned(lanes);
  }
};

// A compute unit: its LDS, and the waves of its SIMDs with their registers. A workgroup's waves go
// to one SIMD after the other.
struct Unit {
  static constexpr unsigned simds = 4;
  static constexpr int most_waves = 8, most_registers = 512; // of a SIMD; registers are a lane's
  struct Simd {
    int waves = 0, registers = 0;
  } simd[simds];
  int64_t lds = 0;
  // With a workgroup more, or by -1 one less, whose first wave is on that SIMD.
  Unit with(const Kernel &kernel, unsigned first, int more = 1) const;
  bool possible() const;
};
// Such a workgroup has room on a compute unit that has no other.
bool has_room(const Kernel &kernel);

// One GPU, as this process sees it: other processes have compute units of their own.
class Machine {
public:
  Machine(unsigned node, int units);
  void start(Kernel *kernel) { kernels_.push_back(kernel); }
  // Each wave has a turn. False if none did more than poll.
  bool turn();
  Strict *strict() const { return strict_.get(); }
  TimedDie *die() const { return die_.get(); }
  bool busy() const { return !groups_.empty() || !kernels_.empty(); }

private:
  void place();
  std::unique_ptr<Group> make(Kernel &kernel);
  void run(Wave &w);
  bool turn_by_time();
  void run_until(Wave &w, int64_t time);
  void due(Wave &w);
  void ended(std::unique_ptr<Group> &group);
  std::vector<Unit> units_;
  std::shared_ptr<Strict> strict_; // or NULL
  std::vector<Kernel *> kernels_;  // with groups that wait for room
  std::vector<std::unique_ptr<Group>> groups_;
  std::shared_ptr<TimedDie> die_; // or NULL
  struct Due {
    int64_t time;
    uint64_t turn; // of waves of one time the first in line: their addresses differ from run to run
    Wave *wave;
    bool operator>(const Due &other) const {
      return time != other.time ? time > other.time : turn > other.turn;
    }
  };
  std::vector<Due> due_; // a heap of the waves that run,
  uint64_t turns_ = 0;
  std::vector<Wave *> polling_; // and those that only poll
};

// One line, with what the wave was doing, and the end of the process.
[[noreturn]] __attribute__((format(printf, 2, 3))) void stop(const Wave *wave, const char *format,
                                                             ...);
// The wave that this thread works for, for a fault.
extern thread_local const Wave *current;

// Clock of 100 MHz, as s_memrealtime and the signals' time stamps have it.
uint64_t ticks();

} // namespace amdgpu

// SPDX-License-Identifier: MIT
// What kernels know: one State, filled here and given to every module of device code, and the table
// of teams.
#include "publish.hpp"
#include "../../device/runtime.hpp"
#include "../../device/state.hpp"
#include "../address.hpp"
#include "../memory/buffer.hpp"
#include "../net.hpp"
#include "../team.hpp"
#include "choice.hpp"
#include "copy.hpp"
#include "hip.hpp"
#include "report.hpp"
#include "ring.hpp"
#include "teams.hpp"
#include <algorithm>
#include <bit>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace shmem::gpu {

namespace {

struct LoadedModule {
  void *state;
  bool ring;
};
struct {
  std::mutex mutex; // guards state too: a module may come at any time, from any thread
  device::Module *modules;
  device::State state; // all zero while there is no device heap
  device::Team *teams;
  std::vector<uint16_t> numbers[max_teams]; // of each team, see show_team
  const Team *shown[max_teams];             // also while there is no device heap, which may come
  std::vector<LoadedModule> loaded;         // modules that wait for one
  int loaded_on = -1;                       // the device of those modules
} known;

// Buffers in device memory, for kernels.
struct {
  // The rows of all buffers, by index; and the tables, one behind the other and round again,
  // because a kernel that runs may still use an old one. Of 8 PEs the largest, of 1,024 buffers,
  // fits in 46 times, and one of ten 3,000 times.
  uintptr_t *rows;
  std::byte *at;
  size_t used;
  int near[device::near_buffers]; // the indices of those in the State, plus one; or 0
} tables;
size_t entry_bytes() {
  return sizeof(device::Buffer) + size_t(self.n) * sizeof(uintptr_t);
}
size_t tables_bytes() {
  return std::max<size_t>(4 << 20, 16 * buffer::most * entry_bytes());
}
size_t row(int index) {
  return device::table_row + size_t(index) * size_t(self.n);
}

void check_module(size_t state_bytes, bool ring) {
  if (state_bytes != sizeof known.state)
    fatal("a module of device code was compiled against another version of this library: its state "
          "has %zu bytes, the library's %zu",
          state_bytes, sizeof known.state);
  if (known.state.ring.requests && !ring)
    fatal(
        "a module of device code reaches PEs of this node only, and the job has others: compile it "
        "without SHMEM_ONE_NODE, against this version of the library");
}

void publish_to(device::Module *module) {
  check_module(module->state_bytes, module->ring);
  void *there = nullptr;
  if (int error = module->find(&there))
    fatal("GPU %d: finding the State of a module of device code: %s", chosen,
          hipGetErrorString(hipError_t(error)));
  // On a stream of the library's own: kernels may run that wait for what comes later.
  copy(there, &known.state, sizeof known.state);
  if (!module->library) serve_kernels();
}

// Under the lock.
void publish_to_all() {
  const OnDevice on;
  for (auto *module = known.modules; module; module = module->next) publish_to(module);
}

// Behind the others' flags: arrived, epoch, claimed, the channels of collectives.
size_t arrived_bytes() {
  return size_t(device::max_teams) * size_t(self.n) * sizeof(uint64_t);
}
size_t epoch_bytes() {
  return size_t(device::max_teams) * sizeof(uint64_t);
}

// Messages that fit the lines of all channels together take one round.
device::Channels channels_of_job() {
  device::Channels w{};
  const auto n = size_t(self.n);
  w.teams = std::min(std::max(self.env.coll_teams, 1), max_teams);
  w.count = device::max_channels;
  w.head_bytes = w.head_end(n);
  // A byte of data takes two bytes of lines, once for even epochs and once for odd ones. At least a
  // piece of a row fits.
  const size_t budget = std::max(self.env.coll_size, n * 4 * 2048) / (4 * n);
  w.room = unsigned(std::min<size_t>(8192, budget & ~size_t(device::cache_line - 1)));
  w.with_lines = int(std::min<size_t>(size_t(w.count), budget / w.room));
  w.team_bytes = size_t(w.count) * w.head_bytes + size_t(w.with_lines) * 4 * n * w.room;
  return w;
}
size_t channels_at() {
  return arrived_bytes() + epoch_bytes() + cache_line;
}

// A team has another number on each node, and so lie its flags.
uint64_t flag_there(uint64_t at, int pe) {
  const bool meets = at < arrived_bytes();
  const uint64_t first = meets ? 0 : channels_at(),
                 each = meets ? size_t(self.n) * sizeof(uint64_t) : known.state.channels.team_bytes,
                 id = (at - first) / each;
  if (id < max_teams && !known.numbers[id].empty())
    return at + (known.numbers[id][size_t(net::node_of(pe))] - id) * each;
  return at;
}

void fill(const FlagMemory &flags) {
  device::State &state = known.state;
  state = {};
  state.base = self.device.base;
  state.size = self.device.size;
  state.teams = known.teams;
  state.arrived = reinterpret_cast<uint64_t *>(flags.own);
  state.epoch = reinterpret_cast<uint64_t *>(flags.own + arrived_bytes());
  state.claimed = reinterpret_cast<uint32_t *>(flags.own + arrived_bytes() + epoch_bytes());
  state.channels = channels_of_job();
  state.channels.at = uintptr_t(flags.own) + channels_at();
  state.me = self.me;
  state.n = self.n;
  for (int pe = 0; pe < device::max_pes; pe++) {
    const bool there = pe < self.n;
    const int i = there ? local_of(pe) : -1;
    state.delta[device::heap_row + unsigned(pe)] =
        i >= 0  ? uintptr_t(self.device.delta[i]) | (self.check ? device::closer : 0)
        : there ? device::closer | device::remote
                : device::closer;
    state.flag_delta[pe] = i >= 0 ? flags.peer[i] - uintptr_t(flags.own) : 0;
  }
  if (!self.one_node()) state.ring = open_ring(flag_there);
  if (self.check || self.env.wait_limit > 0 || !self.one_node()) state.report = open_reports();
  state.wait_limit = uint64_t(self.env.wait_limit * runtime::clock_rate);
}

} // namespace

size_t trial_at() {
  const device::Channels w = channels_of_job();
  return channels_at() + w.team_bytes * size_t(w.teams);
}
size_t flag_bytes() {
  return round_up(trial_at() + (size_t(self.n) + 2) * sizeof(uint64_t), page);
}

static void copy_team(const Team &t); // to the table

bool has_kernels() {
  std::lock_guard guard(known.mutex);
  for (auto *module = known.modules; module; module = module->next)
    if (!module->library) return true;
  return false;
}

void publish(const FlagMemory &flags) {
  void *p = nullptr;
  // Behind it the lists of the members of each team.
  const size_t bytes = device::max_teams * (sizeof(device::Team) + size_t(self.n) * sizeof(int));
  MUST(hipMalloc(&p, bytes), "hipMalloc of %zu bytes for the table of teams", bytes);
  MUST(hipMemset(p, 0, bytes), "hipMemset of the table of teams");
  // hipMemset does not wait, and show_team uses another stream.
  MUST(hipDeviceSynchronize(), "hipDeviceSynchronize");
  {
    std::lock_guard guard(known.mutex);
    known.teams = static_cast<device::Team *>(p);
    fill(flags);
  }
  if (!self.one_node()) show_team(*self.shared, {});
  for (const Team *t : known.shown)
    if (t) copy_team(*t);
  std::lock_guard guard(known.mutex);
  publish_to_all();
  if (known.loaded.empty()) return;
  if (known.loaded_on != chosen)
    fatal("shmemx_module_init: the module is on GPU %d, and this PE's GPU is %d: make that one "
          "current before, or set SHMEM_DEVICE=current",
          known.loaded_on, chosen);
  const OnDevice on;
  for (const LoadedModule &module : known.loaded) {
    check_module(sizeof known.state, module.ring);
    copy(module.state, &known.state, sizeof known.state);
  }
  known.loaded.clear();
  serve_kernels();
}
int device_of_modules() {
  return known.loaded.empty() ? -1 : known.loaded_on;
}

void unpublish() {
  MUST(hipDeviceSynchronize(), "hipDeviceSynchronize"); // kernels that the program did not wait for
  {
    std::lock_guard guard(known.mutex);
    known.state = {};
    publish_to_all();
  }
  close_reports();
  MUST(hipFree(known.teams), "hipFree");
  MUST(hipFree(tables.rows), "hipFree");
  known.teams = nullptr, tables = {};
  known.loaded.clear();
}

namespace {

// A kernel that runs may see half of this. So only a buffer that is new takes a slot, since no such
// kernel uses it, and none that this very call has made free.
void show_near(const std::vector<int> &all, int come) {
  using Units = device::Near::Units;
  if (self.n > int(device::near_pes)) return;
  const auto units = [](int index) {
    const Region &r = buffer::buffers[index].region;
    return Units::of(r.base, r.size);
  };
  const auto meets = [&](int index) {
    return come >= 0 && index != come && units(index).meets(units(come));
  };
  int *const free = std::find(std::begin(tables.near), std::end(tables.near), 0);
  for (int &slot : tables.near)
    if (slot && (std::find(all.begin(), all.end(), slot - 1) == all.end() || meets(slot - 1)))
      slot = 0, known.state.near.of[&slot - tables.near].count = 0;
  if (free == std::end(tables.near) || come < 0 || std::any_of(all.begin(), all.end(), meets) ||
      Units::of(known.state.base, known.state.size).meets(units(come)))
    return;
  const auto i = size_t(free - tables.near);
  *free = come + 1;
  known.state.near.of[i] = units(come);
  std::copy_n(buffer::buffers[come].row.data(), self.n, known.state.delta + i * device::near_pes);
}

// The table of kernels: each entry is a device::Buffer with its deltas, word by word. A power of
// two.
std::vector<uintptr_t> table_of(const std::vector<int> &ascending) {
  std::vector<uintptr_t> words;
  for (const int index : ascending) {
    const buffer::Buffer &b = buffer::buffers[index];
    words.insert(words.end(), {b.region.base, b.region.size, row(index)});
    words.insert(words.end(), b.row.begin(), b.row.end());
  }
  for (size_t i = ascending.size(); i < std::bit_ceil(ascending.size()); i++) {
    words.push_back(~uintptr_t(0)); // the base of nothing
    words.resize(words.size() + entry_bytes() / sizeof words[0] - 1);
  }
  return words;
}

} // namespace

void let_report() {
  std::lock_guard guard(known.mutex);
  if (known.state.report) return;
  const OnDevice on;
  known.state.report = open_reports();
  publish_to_all();
}

void show_buffers(const std::vector<int> &ascending, int come) {
  if (!self.device.size) return;
  std::lock_guard guard(known.mutex);
  const OnDevice on;
  if (!tables.rows) {
    const size_t bytes = round_up(row(buffer::most) * sizeof *tables.rows, device::cache_line);
    MUST(hipMalloc(reinterpret_cast<void **>(&tables.rows), bytes + tables_bytes()),
         "hipMalloc of %zu bytes for the tables of buffers", bytes + tables_bytes());
    tables.at = reinterpret_cast<std::byte *>(tables.rows) + bytes;
  }
  // A kernel may name a PE that does not have one, or do an atomic where none can be done, and then
  // it has a line to say.
  const auto refuses = [](int index) {
    const buffer::Buffer &b = buffer::buffers[index];
    return b.region.team ||
           std::any_of(b.row.begin(), b.row.end(), [](uintptr_t d) { return d & device::coarse; });
  };
  if (!known.state.report && std::any_of(ascending.begin(), ascending.end(), refuses))
    known.state.report = open_reports();
  if (come >= 0)
    copy(tables.rows + row(come), buffer::buffers[come].row.data(),
         size_t(self.n) * sizeof *tables.rows);
  show_near(ascending, come);
  known.state.buffers = 0, known.state.rows = tables.rows;
  if (!ascending.empty()) {
    const std::vector<uintptr_t> table = table_of(ascending);
    const size_t bytes = table.size() * sizeof table[0];
    if (bytes > tables_bytes() - tables.used) tables.used = 0;
    std::byte *const at = tables.at + tables.used;
    tables.used += round_up(bytes, device::cache_line);
    copy(at, table.data(), bytes);
    // The address is of whole lines, so the logarithm fits below it.
    known.state.buffers =
        uintptr_t(at) + unsigned(std::countr_zero(std::bit_ceil(ascending.size())));
  }
  for (int pe = 0; pe < self.n; pe++) {
    uintptr_t &delta = known.state.delta[device::heap_row + unsigned(pe)];
    delta = ascending.empty() ? delta & ~device::many : delta | device::many;
  }
  publish_to_all();
}
const uintptr_t *row_of(const Region &buffer) {
  return tables.rows + row(buffer.index);
}

// The lists of teams, as kernels find them.
static int *lists() {
  return reinterpret_cast<int *>(known.teams + max_teams);
}
device::Team kernel_team(const Team &t) {
  return {t.me,
          t.n,
          t.list ? t.id * self.n : t.start,
          t.list     ? 0
          : t.n == 1 ? 1
                     : t.stride,
          uint64_t(t.generation) << 32,
          t.nodes != nullptr};
}
const device::Channels &channels() {
  return known.state.channels;
}

static void copy_team(const Team &t) {
  if (t.list) copy(lists() + size_t(t.id) * size_t(self.n), t.list, size_t(t.n) * sizeof *t.list);
  const device::Team shown = kernel_team(t);
  copy(known.teams + t.id, &shown, sizeof shown);
}
void show_team(const Team &t, std::vector<uint16_t> of_nodes) {
  known.numbers[t.id] = std::move(of_nodes);
  known.shown[t.id] = &t;
  if (self.device.size) copy_team(t);
}
void forget_teams() {
  std::fill(std::begin(known.shown), std::end(known.shown), nullptr);
}

// The next team with this number starts from 0. The others have written a member's flags by the
// time that it leaves the team's last barrier, so each member clears its own before it gives the
// number back.
//
// Of a team on several nodes that says nothing of flags that no collective waits for to its end. So
// its members meet once more when all that they have sent is there: a flag that came later would be
// stored over one of the next team.
void forget_team(Team &t) {
  known.shown[t.id] = nullptr;
  if (!self.device.size) return;
  if (t.on_nodes()) finish_ring(), sync(t);
  const int id = t.id;
  zero(known.state.arrived + size_t(id) * size_t(self.n), size_t(self.n) * sizeof(uint64_t));
  zero(known.state.epoch + id, sizeof(uint64_t));
  const device::Channels &w = known.state.channels;
  if (id >= w.teams) return;
  // Every collective uses channel 0, and has read all lines that were sent to it when it ends.
  auto *own = reinterpret_cast<std::byte *>(w.at) + size_t(id) * w.team_bytes;
  uint64_t used = 0;
  copy(&used, own, sizeof used);
  if (used) zero(own, w.team_bytes);
}

} // namespace shmem::gpu

using shmem::device::Module;

extern "C" [[gnu::visibility("default")]] void shmemx_module_add(Module *module) {
  using namespace shmem::gpu;
  std::lock_guard guard(known.mutex);
  module->next = known.modules;
  known.modules = module;
  if (chosen < 0 || !known.state.size) return;
  OnDevice on;
  publish_to(module);
}

extern "C" [[gnu::visibility("default")]] void shmemx_module_init(void *module) {
  using namespace shmem;
  using namespace shmem::gpu;
  const char *const fn = "shmemx_module_init";
  check_ready(fn);
  std::lock_guard guard(known.mutex);
  if (!self.device.size && !may_open())
    fatal("%s: there is no symmetric heap in device memory: %s", fn, missing());
  // The module is where the program has loaded it, which is known before this PE's GPU is.
  std::optional<OnDevice> on;
  if (self.device.size) on.emplace();
  void *there = nullptr;
  size_t bytes = 0;
  // Its name says whether the kernels reach other nodes: see device/bitcode.hip.
  const bool ring = tried(runtime::module_global(&there, &bytes, module, "shmemx_module_state"));
  if (!ring)
    MUST(runtime::module_global(&there, &bytes, module, "shmemx_one_node_state"),
         "shmemx_module_init: looking for shmemx_module_state in the module, which "
         "libshmem_device_*.bc has to be linked into");
  check_module(bytes, ring);
  if (self.device.size) {
    gpu::copy(there, &known.state, sizeof known.state);
    return serve_kernels();
  }
  MUST(hipGetDevice(&known.loaded_on), "%s", fn);
  known.loaded.push_back({there, ring});
}

extern "C" [[gnu::visibility("default")]] void shmemx_module_remove(Module *module) {
  using namespace shmem::gpu;
  std::lock_guard guard(known.mutex);
  for (Module **p = &known.modules; *p; p = &(*p)->next)
    if (*p == module) {
      *p = module->next;
      return;
    }
}

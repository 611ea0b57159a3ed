// SPDX-License-Identifier: MIT
// What kernels know: one State, filled here and given to every module of device code, and the table
// of teams.
#include "../device/runtime.hpp"
#include "../device/state.hpp"
#include "buffer.hpp"
#include "gpu_hip.hpp"
#include "net.hpp"
#include "team.hpp"
#include <algorithm>
#include <bit>
#include <mutex>
#include <utility>
#include <vector>

namespace shmem::gpu {

namespace {

std::mutex modules_mutex; // guards state too: a module may come at any time, from any thread
device::Module *modules;
device::State state; // all zero while there is no device heap
device::Team *teams;
std::vector<uint16_t> numbers[max_teams]; // of each team, see show_team

// The rows of all buffers, each at its place; and the tables, one behind the other and round again,
// because a kernel that runs may still use an old one. Of 8 PEs the largest, of 1,024 buffers, fits
// in 46 times, and one of ten 3,000 times.
std::vector<BufferThere> buffers, near(device::near_buffers); // those in the State; or no region
uintptr_t *rows;
std::byte *tables;
size_t tables_used;
size_t buffer_bytes() {
  return sizeof(device::Buffer) + size_t(self.n) * sizeof(uintptr_t);
}
size_t tables_bytes() {
  return std::max<size_t>(4 << 20, 16 * buffer::most * buffer_bytes());
}
size_t row(int place) {
  return device::far_row + size_t(place) * size_t(self.n);
}

void check_module(size_t state_bytes, bool ring) {
  if (state_bytes != sizeof state)
    fatal("a module of device code was compiled against another version of this library: its state "
          "has %zu bytes, the library's %zu",
          state_bytes, sizeof state);
  if (state.ring.requests && !ring)
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
  copy(there, &state, sizeof state);
  if (!module->library) serve_kernels();
}

// Under the lock.
void publish_to_all() {
  const OnDevice on;
  for (auto *module = modules; module; module = module->next) publish_to(module);
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
  using device::line;
  const auto n = size_t(self.n);
  w.teams = std::min(std::max(self.env.coll_teams, 1), max_teams);
  w.count = device::max_channels;
  w.head_bytes = line + round_up(2 * n * sizeof(uint64_t), line);
  // A byte of data takes two bytes of lines, once for even epochs and once for odd ones.
  const size_t budget = std::max(self.env.coll_size, n * 4 * 1024) / (4 * n);
  w.room = unsigned(std::min<size_t>(8192, budget & ~size_t(line - 1)));
  w.with_lines = int(std::min<size_t>(size_t(w.count), budget / w.room));
  w.team_bytes = size_t(w.count) * w.head_bytes + size_t(w.with_lines) * 4 * n * w.room;
  return w;
}
size_t channels_at() {
  return arrived_bytes() + epoch_bytes() + line;
}

// A team has another number on each node, and so lie its flags.
uint64_t flag_there(uint64_t at, int pe) {
  const bool meets = at < arrived_bytes();
  const uint64_t first = meets ? 0 : channels_at(),
                 each = meets ? size_t(self.n) * sizeof(uint64_t) : state.channels.team_bytes,
                 id = (at - first) / each;
  if (id < max_teams && !numbers[id].empty())
    return at + (numbers[id][size_t(net::node_of(pe))] - id) * each;
  return at;
}

void fill(const Flags &flags) {
  state = {};
  state.base = self.device.base;
  state.size = self.device.size;
  state.teams = teams;
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

void publish(const Flags &flags) {
  void *p = nullptr;
  const size_t bytes = device::max_teams * sizeof(device::Team);
  MUST(hipMalloc(&p, bytes), "hipMalloc of %zu bytes for the table of teams", bytes);
  MUST(hipMemset(p, 0, bytes), "hipMemset of the table of teams");
  // hipMemset does not wait, and show_team uses another stream.
  MUST(hipDeviceSynchronize(), "hipDeviceSynchronize");
  {
    std::lock_guard guard(modules_mutex);
    teams = static_cast<device::Team *>(p);
    fill(flags);
  }
  if (!self.one_node()) show_team(*self.shared, {});
  std::lock_guard guard(modules_mutex);
  publish_to_all();
}

void unpublish() {
  MUST(hipDeviceSynchronize(), "hipDeviceSynchronize"); // kernels that the program did not wait for
  {
    std::lock_guard guard(modules_mutex);
    state = {};
    publish_to_all();
  }
  close_reports();
  MUST(hipFree(teams), "hipFree");
  MUST(hipFree(rows), "hipFree");
  teams = nullptr, rows = nullptr;
  near.assign(near.size(), {});
}

namespace {
bool is_in(const std::vector<BufferThere> &v, const BufferThere &b) {
  return std::find(v.begin(), v.end(), b) != v.end();
}
// A kernel that runs may see half of this. So only a buffer that is new takes a place, since no such
// kernel uses it, and none that this very call has made free.
void show_near(const std::vector<BufferThere> &all, const BufferThere *come) {
  using Units = device::Near::Units;
  if (self.n > int(device::near_pes)) return;
  auto units = [](const BufferThere &b) { return Units::of(b.region->base, b.region->size); };
  auto meets = [&](const BufferThere &b) {
    return come && b != *come && units(b).meets(units(*come));
  };
  const auto place = std::find(near.begin(), near.end(), BufferThere{});
  for (unsigned i = 0; i < near.size(); i++)
    if (near[i].region && (!is_in(all, near[i]) || meets(near[i])))
      near[i] = {}, state.near.of[i].count = 0;
  if (place == near.end() || !come || std::any_of(all.begin(), all.end(), meets) ||
      Units::of(state.base, state.size).meets(units(*come)))
    return;
  const auto i = size_t(place - near.begin());
  *place = *come;
  state.near.of[i] = units(*come);
  std::copy_n(come->row, self.n, state.delta + i * device::near_pes);
}
} // namespace

void show_buffers(std::vector<BufferThere> ascending) {
  if (!self.device.size) return;
  std::lock_guard guard(modules_mutex);
  if (!rows) {
    const OnDevice on;
    const size_t bytes = round_up(row(buffer::most) * sizeof *rows, device::line);
    MUST(hipMalloc(reinterpret_cast<void **>(&rows), bytes + tables_bytes()),
         "hipMalloc of %zu bytes for the tables of buffers", bytes + tables_bytes());
    tables = reinterpret_cast<std::byte *>(rows) + bytes;
  }
  // A kernel may name a PE that does not have one, or do an atomic where none can be done, and then it
  // has a line to say.
  const auto refuses = [](const BufferThere &b) {
    return buffer::team_of(*b.region) ||
           std::any_of(b.row, b.row + self.n, [](uintptr_t d) { return d & device::coarse; });
  };
  if (!state.report && std::any_of(ascending.begin(), ascending.end(), refuses)) {
    const OnDevice on;
    state.report = open_reports();
  }
  // Each a device::Buffer, word by word.
  const size_t places = std::bit_ceil(ascending.size());
  std::vector<uintptr_t> table;
  const BufferThere *come = nullptr; // since the last time: one at a time
  for (const BufferThere &b : ascending) {
    const auto &[region, deltas, place] = b;
    table.insert(table.end(), {region->base, region->size, row(place)});
    table.insert(table.end(), deltas, deltas + self.n);
    if (is_in(buffers, b)) continue;
    come = &b;
    copy(rows + row(place), deltas, size_t(self.n) * sizeof *rows);
  }
  for (size_t i = ascending.size(); i < places; i++) {
    table.push_back(~uintptr_t(0)); // the base of nothing
    table.resize(table.size() + buffer_bytes() / sizeof table[0] - 1);
  }
  show_near(ascending, come);
  buffers = std::move(ascending);
  state.buffers = 0, state.rows = rows;
  if (!buffers.empty()) {
    const size_t bytes = table.size() * sizeof table[0];
    if (bytes > tables_bytes() - tables_used) tables_used = 0;
    std::byte *const at = tables + tables_used;
    tables_used += round_up(bytes, device::line);
    copy(at, table.data(), bytes);
    state.buffers = uintptr_t(at) + unsigned(std::countr_zero(places)); // of whole lines
  }
  for (int pe = 0; pe < self.n; pe++) {
    uintptr_t &delta = state.delta[device::heap_row + unsigned(pe)];
    delta = buffers.empty() ? delta & ~device::many : delta | device::many;
  }
  publish_to_all();
}
const uintptr_t *row_of(const Region *r) {
  std::lock_guard guard(modules_mutex);
  for (const BufferThere &b : buffers)
    if (b.region == r) return rows + row(b.place);
  return nullptr;
}

device::Team kernel_team(const Team &t) {
  return {t.me, t.n, t.start, t.stride, uint64_t(t.generation) << 32, t.nodes != nullptr};
}
const device::Channels &channels() {
  return state.channels;
}

void show_team(const Team &t, std::vector<uint16_t> of_nodes) {
  if (!self.device.size) return;
  numbers[t.id] = std::move(of_nodes);
  const device::Team shown = kernel_team(t);
  copy(teams + t.id, &shown, sizeof shown);
}

// The next team with this number starts from 0. The others have written a member's flags by the
// time that it leaves the team's last barrier, so each member clears its own before it gives the
// number back.
//
// Of a team on several nodes that says nothing of flags that no collective waits for to its end. So
// its members meet once more when all that they have sent is there: a flag that came later would be
// stored over one of the next team.
void forget_team(Team &t) {
  if (!self.device.size) return;
  if (t.on_nodes()) finish_ring(), sync(t);
  const int id = t.id;
  zero(state.arrived + size_t(id) * size_t(self.n), size_t(self.n) * sizeof(uint64_t));
  zero(state.epoch + id, sizeof(uint64_t));
  const device::Channels &w = state.channels;
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
  std::lock_guard guard(modules_mutex);
  module->next = modules;
  modules = module;
  if (chosen < 0 || !state.size) return;
  OnDevice on;
  publish_to(module);
}

extern "C" [[gnu::visibility("default")]] void shmemx_module_init(void *module) {
  using namespace shmem;
  using namespace shmem::gpu;
  std::lock_guard guard(modules_mutex);
  if (chosen < 0 || !state.size)
    fatal("shmemx_module_init: there is no device heap, or no shmem_init before");
  OnDevice on;
  void *there = nullptr;
  size_t bytes = 0;
  // Its name says whether the kernels reach other nodes: see device/bitcode.hip.
  const bool ring = tried(runtime::module_global(&there, &bytes, module, "shmemx_module_state"));
  if (!ring)
    MUST(runtime::module_global(&there, &bytes, module, "shmemx_one_node_state"),
         "shmemx_module_init: looking for shmemx_module_state in the module, which "
         "libshmem_device_*.bc has to be linked into");
  check_module(bytes, ring);
  copy(there, &state, sizeof state);
  serve_kernels();
}

extern "C" [[gnu::visibility("default")]] void shmemx_module_remove(Module *module) {
  using namespace shmem::gpu;
  std::lock_guard guard(modules_mutex);
  for (Module **p = &modules; *p; p = &(*p)->next)
    if (*p == module) {
      *p = module->next;
      return;
    }
}

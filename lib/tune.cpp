// SPDX-License-Identifier: MIT
#include "tune.hpp"
#include "env.hpp"
#include "log.hpp"
#include "state.hpp"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <shmemx.h>
#include <vector>

namespace shmem::tune {

namespace {

template <class C> struct Row {
  std::optional<Collective> what; // none: any
  int pes;                        // or nodes
  size_t bytes;
  C choice;
};
struct Table {
  std::vector<Row<Choice>> streams;
  std::vector<Row<Between>> nodes;
};
struct {
  std::mutex mutex; // guards the table; a change while collectives run is for tests and shmem_tune
  Table table;
  char arch[64];
  Most most; // workgroups
} tuning;

// Which of some names, or none.
template <class Kind, size_t n>
std::optional<Kind> find(const char *name, const char *const (&names)[n]) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(name, names[i])) return Kind(i);
  return {};
}

// The first row that matches and that takes(), or null.
template <class C, class Takes>
const C *first(const std::vector<Row<C>> &rows, Collective what, int pes, size_t bytes,
               Takes takes) {
  for (const Row<C> &r : rows)
    if ((!r.what || r.what == what) && pes <= r.pes && bytes <= r.bytes && takes(r.choice))
      return &r.choice;
  return nullptr;
}

// More than there are channels: see kernels::Call.
constexpr long most_workgroups = 1024;
constexpr const char *ways[] = {"tree", "chain"};

// Appends the row if it is for this GPU or between nodes; what is wrong with it, or NULL.
const char *add(Table *to, const char *collective, const char *gpu, long pes, size_t bytes,
                const char *name, long blocks, long threads) {
  const auto what = find<Collective>(collective, collectives);
  if (!what && strcmp(collective, "*") != 0) return "no such collective";
  const int most_pes = int(std::min(pes, 1l << 30));
  if (strcmp(gpu, "net") == 0) {
    if (what && what != Collective::broadcast && what != Collective::reduce &&
        what != Collective::scan)
      return "between nodes only broadcast, reduce and scan have algorithms";
    const auto way = find<Route>(name, ways);
    if (!way) return "expected the algorithm \"tree\" or \"chain\"";
    if (pes < 1 || blocks < 1024 || blocks > 1l << 30 || threads < 2 || threads > 64)
      return "expected nodes from 1, segments from 1024 bytes to 1 GiB, in flight from 2 to 64";
    to->nodes.push_back({what, most_pes, bytes, {*way, size_t(blocks), unsigned(threads)}});
    return nullptr;
  }
  const auto algorithm = find<CollectiveAlgorithm>(name, algorithms);
  if (!algorithm)
    return "expected the algorithm \"lines\", \"direct\", \"phases\", \"oneshot\" or \"results\"";
  if (*algorithm == CollectiveAlgorithm::results && what && what != Collective::norm)
    return "only norm has the algorithm \"results\"";
  if (*algorithm == CollectiveAlgorithm::oneshot && what && what != Collective::reduce)
    return "only reduce has the algorithm \"oneshot\"";
  if (pes < 1 || blocks < 1 || blocks > most_workgroups || threads < 1 ||
      threads > long(device::max_threads))
    return "expected PEs from 1, workgroups from 1 to 1024, threads from 1 to 512";
  if (strcmp(gpu, "*") == 0 || strncmp(gpu, tuning.arch, strlen(gpu)) == 0)
    to->streams.push_back(
        {what, most_pes, bytes, {*algorithm, unsigned(blocks), unsigned(threads)}});
  return nullptr;
}
static_assert(most_workgroups == 1024 && device::max_threads == 512, "as the text says");

// Parses the text of a table: rows, blank lines, and comments behind a #.
const char *parse(const char *text, Table *to, int *line) {
  char row[256];
  for (*line = 1; *text; ++*line) {
    const size_t length = strcspn(text, "\n"), n = std::min(length, sizeof row - 1);
    memcpy(row, text, n);
    row[n] = '\0';
    row[strcspn(row, "#")] = '\0';
    text += length + (text[length] == '\n');
    char what[32], gpu[64], algorithm[32], rest[2];
    long pes, blocks, threads;
    size_t bytes;
    if (row[strspn(row, " \t\r")] == '\0') continue;
    if (sscanf(row, "%31s %63s %ld %zu %31s %ld %ld %1s", what, gpu, &pes, &bytes, algorithm,
               &blocks, &threads, rest) != 7)
      return "expected: collective architecture PEs bytes algorithm workgroups threads";
    if (const char *wrong = add(to, what, gpu, pes, bytes, algorithm, blocks, threads))
      return wrong;
  }
  return nullptr;
}

void add_built_in(Table *to) {
#define ROW(...) add(to, __VA_ARGS__);
#include "tune.def"
#undef ROW
}

} // namespace

void open(const char *name, Most most) {
  std::lock_guard guard(tuning.mutex);
  snprintf(tuning.arch, sizeof tuning.arch, "%s", name);
  most.blocks = std::max(most.blocks, 1u);
  most.lines = std::min(most.blocks, most.lines);
  most.short_rows = std::max(most.short_rows, 1u);
  tuning.most = most;
  tuning.table = {};
  const char *path = self.env.tune_file;
  if (path && *path) {
    FILE *f = fopen(path, "re");
    if (!f) fatal_team(self.pe_of(0), "SHMEM_TUNE_FILE = \"%s\": %s", path, strerror(errno));
    std::vector<char> text;
    for (int c; (c = getc(f)) != EOF;) text.push_back(char(c));
    fclose(f);
    text.push_back('\0');
    int line = 0;
    if (const char *wrong = parse(text.data(), &tuning.table, &line))
      fatal_team(self.pe_of(0), "SHMEM_TUNE_FILE = \"%s\": line %d: %s", path, line, wrong);
  }
  add_built_in(&tuning.table);
}

unsigned most_lines() {
  std::lock_guard guard(tuning.mutex);
  return tuning.most.lines;
}

Choice choose(const Asked &asked) {
  const auto what = asked.what;
  const int pes = asked.pes;
  const size_t bytes = asked.bytes;
  std::lock_guard guard(tuning.mutex);
  using Way = CollectiveAlgorithm;
  // The most workgroups of a choice's way.
  const auto most = [&](const Choice &c) {
    if (c.algorithm == Way::lines) return tuning.most.lines;
    if (c.algorithm == Way::results) // its workgroups have a quarter of the threads
      return std::min({c.blocks, 4 * tuning.most.blocks, device::max_channels});
    if (c.blocks > device::max_channels && !asked.each_meets) return c.blocks;
    return asked.short_rows ? tuning.most.short_rows : tuning.most.blocks;
  };
  const Choice *const found = first(tuning.table.streams, what, pes, bytes, [&](const Choice &c) {
    return (asked.oneshot || c.algorithm != Way::oneshot) &&
           (asked.results || c.algorithm != Way::results) &&
           (!asked.split || splits(c.algorithm)) &&
           (!shares(c.algorithm) || asked.pieces <= most(c));
  });
  if (!found) return {asked.split ? Way::phases : Way::direct, 1, device::max_wave};
  Choice c = *found;
  c.blocks = std::min(c.blocks, most(c));
  if (c.algorithm == Way::results) return c; // its workgroups go by rows
  // No more than there are packs of 16 bytes; whole waves.
  const size_t each = (bytes + c.blocks - 1) / c.blocks, packs = (bytes + 15) / 16;
  const auto needed = unsigned(std::min<size_t>((packs + c.threads - 1) / c.threads, c.blocks));
  c.blocks = std::max(needed, 1u);
  c.blocks = std::min(c.blocks, most(c));
  if (each < size_t(c.threads) * 16) { // of an alltoall, of all blocks, which go out side by side
    const size_t all = what == Collective::alltoall ? packs * unsigned(pes) : packs;
    c.threads =
        std::min(c.threads, unsigned(std::max<size_t>(device::full_waves(all), device::max_wave)));
  }
  return c;
}

// The last row of the built-in table takes all.
Between choose_between(Collective what, int nodes, size_t bytes) {
  std::lock_guard guard(tuning.mutex);
  return *first(tuning.table.nodes, what, nodes, bytes, [](const Between &) { return true; });
}

} // namespace shmem::tune

extern "C" [[gnu::visibility("default")]] int shmemx_tune(const char *text) {
  using namespace shmem::tune;
  Table next;
  int line = 0;
  std::lock_guard guard(tuning.mutex);
  if (text && parse(text, &next, &line)) return 1;
  add_built_in(&next);
  tuning.table = std::move(next);
  return 0;
}

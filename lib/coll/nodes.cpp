// SPDX-License-Identifier: MIT
// The teams' parts, their barrier, and the exchange of small blocks.
#include "nodes.hpp"
#include "../copy.hpp"

namespace shmem {

Nodes::Nodes() = default; // where TaggedMessages is known
Nodes::~Nodes() {
  for (const Part &part : parts) delete[] part.list, delete[] part.at.list;
}

Nodes *make_nodes(const Team &t, uint64_t tag) {
  auto *nodes = new Nodes{};
  std::vector<int> number(size_t(net::nodes()), -1); // of a node's part
  std::vector<std::vector<int>> at;                  // its members
  for (int i = 0; i < t.n; i++) {
    const int pe = t.pe(i);
    int &k = number[size_t(net::node_of(pe))];
    if (k < 0) {
      k = int(at.size());
      at.emplace_back();
    }
    std::vector<int> &part = at[size_t(k)];
    const int n = int(part.size());
    if (pe == self.me) nodes->here.me = n, nodes->me = k;
    if (nodes->runs.empty() || nodes->runs.back().part != k) nodes->runs.push_back({k, n, 0});
    nodes->runs.back().n++;
    part.push_back(i);
  }
  if (at.size() == 1) {
    delete nodes;
    return nullptr;
  }
  for (std::vector<int> &part : at) {
    const PeOrder here = members_of(part);
    for (int &i : part) i = t.pe(i);
    nodes->parts.push_back({members_of(part), here});
  }
  const Part &mine = nodes->parts[size_t(nodes->me)];
  const int me = nodes->here.me;
  nodes->here = t;
  static_cast<PeOrder &>(nodes->here) = mine;
  nodes->here.me = me;
  nodes->tag = tag << (tag_way_bits + tag_pe_bits);
  nodes->rails = mine.n;
  for (const Part &part : nodes->parts) nodes->rails = std::min(nodes->rails, part.n);
  nodes->taken.resize(nodes->parts.size());
  return nodes;
}

void free_nodes(Nodes *nodes) {
  delete nodes;
}

namespace {

// All nodes' first members hear of all others: in round k, of 2^k more (dissemination).
void meet(const Nodes &nodes) {
  const size_t n = nodes.parts.size(), me = size_t(nodes.me);
  for (size_t d = 1; d < n; d *= 2) {
    TaggedMessages c(nodes, Tag::meet);
    c.from(nodes.parts[(me + n - d) % n].first(), nullptr, 0);
    c.to(nodes.parts[(me + d) % n].first(), nullptr, 0);
  }
}

} // namespace

void sync_nodes(Team &t) {
  const Nodes &nodes = *t.nodes;
  Team &h = t.nodes->here;
  sync_here(h);
  if (h.me == 0) meet(nodes);
  sync_here(h);
}

void exchange_nodes(Team &t, const void *mine, size_t bytes, void *all) {
  const Nodes &nodes = *t.nodes;
  Team &h = t.nodes->here;
  auto *to = static_cast<char *>(all);
  const size_t n = nodes.parts.size(), me = size_t(nodes.me), total = bytes * size_t(t.n);
  // The first member here collects the node's blocks in `theirs`. The other nodes' blocks come
  // behind them, the next node's first: in round k, those of 2^k nodes more (Bruck).
  std::vector<char> theirs(h.me == 0 ? total : 0);
  exchange(
      h, [=](Stage &s) { copy(s.data, mine, bytes); }, // from a GPU, too
      [&](int i, Stage &s) {
        if (h.me == 0) memcpy(theirs.data() + size_t(i) * bytes, s.data, bytes);
      });
  if (h.me == 0) {
    std::vector<size_t> at(n + 1); // of the k-th node from here on
    for (size_t k = 0; k < n; k++) at[k + 1] = at[k] + size_t(nodes.parts[(me + k) % n].n) * bytes;
    for (size_t d = 1; d < n; d *= 2) {
      const size_t more = std::min(d, n - d);
      TaggedMessages c(nodes, Tag::meet);
      c.from(nodes.parts[(me + d) % n].first(), theirs.data() + at[d], at[d + more] - at[d]);
      c.to(nodes.parts[(me + n - d) % n].first(), theirs.data(), at[more]);
    }
    for (size_t i = 0; const Run &run : nodes.runs) {
      const size_t m = size_t(run.n) * bytes;
      memcpy(to + i, theirs.data() + at[(size_t(run.part) + n - me) % n] + size_t(run.from) * bytes,
             m);
      i += m;
    }
  }
  // The first member shows them to the others, a stage full at a time.
  for (size_t done = 0; done < total && h.n > 1; done += stage_bytes) {
    const size_t m = std::min(stage_bytes, total - done);
    exchange(
        h, [=](Stage &s) { h.me == 0 ? void(memcpy(s.data, to + done, m)) : void(); },
        [=](int i, Stage &s) {
          i == 0 && h.me != 0 ? void(memcpy(to + done, s.data, m)) : void();
        });
  }
}

} // namespace shmem

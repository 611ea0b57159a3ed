// SPDX-License-Identifier: MIT
#include "nodes.hpp"
#include "../copy.hpp"
#include "../log.hpp"
#include "../rma.hpp"
#include <algorithm>

namespace shmem {

Nodes *make_nodes(const Team &t, uint64_t tag) {
  auto *nodes = new Nodes{};
  Team &h = nodes->here;
  h = t;
  h.n = 0;
  int second = -1;
  for (int i = 0; i < t.n; i++) {
    const int pe = t.pe(i), node = net::node_of(pe);
    if (nodes->number.emplace(node, int(nodes->first.size())).second) nodes->first.push_back(pe);
    if (local_of(pe) < 0) continue;
    if (h.n == 0) h.start = pe;
    if (h.n == 1) second = pe;
    if (pe == self.me) h.me = h.n;
    h.n++;
  }
  if (nodes->first.size() == 1) {
    delete nodes;
    return nullptr;
  }
  // A team and a node are PEs at equal distances, and so is what they have in common.
  h.stride = h.n > 1 ? second - h.start : 1;
  nodes->tag = tag << tag_pe_bits;
  nodes->me = nodes->number[net::node_of(self.me)];
  return nodes;
}

void free_nodes(Nodes *nodes) {
  delete nodes;
}

// All nodes' first members hear of all others: in round k, of 2^k more (dissemination).
static void meet(const Nodes &nodes) {
  const size_t n = nodes.first.size(), me = size_t(nodes.me);
  for (size_t d = 1; d < n; d *= 2) {
    net::Messages m;
    m.receive(nodes.tag | uint64_t(nodes.first[(me + n - d) % n]), nullptr, 0);
    m.send(nodes.first[(me + d) % n], nodes.tag | uint64_t(self.me), nullptr, 0);
  }
}

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
  const size_t n = nodes.first.size(), total = bytes * size_t(t.n);
  // The node's first member collects what the members here have, and exchanges it for the other nodes'.
  std::vector<char> ours(h.me == 0 ? bytes * size_t(h.n) : 0);
  exchange(
      h, [=](Stage &s) { copy(s.data, mine, bytes); }, // from a GPU, too
      [&](int i, Stage &s) {
        if (h.me == 0) memcpy(ours.data() + size_t(i) * bytes, s.data, bytes);
      });
  if (h.me == 0) {
    std::vector<size_t> members(n), at(n);
    std::vector<int> number(size_t(t.n), 0);
    for (int i = 0; i < t.n; i++) {
      number[size_t(i)] = nodes.number.at(net::node_of(t.pe(i)));
      members[size_t(number[size_t(i)])]++;
    }
    for (size_t k = 1; k < n; k++) at[k] = at[k - 1] + members[k - 1] * bytes;
    std::vector<char> theirs(total);
    memcpy(theirs.data() + at[size_t(nodes.me)], ours.data(), ours.size());
    {
      net::Messages m;
      for (size_t k = 1; k < n; k++) {
        const size_t from = (size_t(nodes.me) + n - k) % n, where = (size_t(nodes.me) + k) % n;
        m.receive(nodes.tag | uint64_t(nodes.first[from]), theirs.data() + at[from],
                  members[from] * bytes);
        m.send(nodes.first[where], nodes.tag | uint64_t(self.me), ours.data(), ours.size());
      }
    }
    for (int i = 0; i < t.n; i++) {
      size_t &next = at[size_t(number[size_t(i)])];
      memcpy(to + size_t(i) * bytes, theirs.data() + next, bytes);
      next += bytes;
    }
  }
  // And shows it to the others, a stage full at a time.
  for (size_t done = 0; done < total && h.n > 1; done += stage_bytes) {
    const size_t m = std::min(stage_bytes, total - done);
    exchange(
        h, [=](Stage &s) { h.me == 0 ? void(memcpy(s.data, to + done, m)) : void(); },
        [=](int i, Stage &s) {
          i == 0 && h.me != 0 ? void(memcpy(to + done, s.data, m)) : void();
        });
  }
}

// The root puts it to each other node's first member, from which the others there copy it.
void coll::broadcast_nodes(const char *fn, Team &t, void *dest, const void *source, size_t bytes,
                           int root, bool root_too) {
  const Nodes &nodes = *t.nodes;
  Team &h = t.nodes->here;
  if (t.me == root) {
    const int n = int(nodes.first.size());
    for (int k = 1; k < n; k++)
      net::put({dest, nodes.first[size_t((nodes.me + k) % n)]}, source, {bytes}, true);
    net::quiet();
  }
  sync(t);
  auto *to = static_cast<char *>(dest);
  auto *from = static_cast<char *>(const_cast<void *>(source));
  if (t.me == root) {
    if (root_too && dest != source) copy(dest, source, bytes);
  } else if (const int pe = t.pe(root); local_of(pe) >= 0) {
    copy(dest, at(fn, "source", from, bytes, pe), bytes);
  } else if (h.me != 0) {
    copy(dest, at(fn, "dest", to, bytes, h.start), bytes);
  }
  sync_here(h); // what was copied from may change
}

} // namespace shmem

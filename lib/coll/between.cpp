// SPDX-License-Identifier: MIT
// Collectives of teams on several nodes: what goes between the nodes.
#include "../../device/pattern.hpp"
#include "../copy.hpp"
#include "../gpu/heap.hpp"
#include "../rma.hpp"
#include "reduce.hpp"
#include <algorithm>
#include <list>
#include <memory>
#include <optional>

namespace shmem::coll {

namespace {

// The least of a reduction whose arrays the GPU copies, because such a call costs more.
constexpr size_t device_segment = 128 << 10;

// The PE from which segments come, or -1, and the PEs to which they go on.
struct Hop {
  int from;
  std::vector<int> to;
};

// A root that runs ahead of a PE would fill that PE's memory with messages that it has not asked
// for. So only one broadcast that is larger than this, in such messages, is on its way to a PE,
// which tells when it has all of it.
constexpr size_t unannounced = 16 << 10;
class Taken {
  Nodes &nodes;
  const bool counts;

public:
  Taken(Nodes &nodes, size_t bytes, size_t segment)
      : nodes(nodes), counts(bytes > unannounced && segment <= net::eager_bytes) {}
  void before_sending(int part) {
    if (!counts) return;
    std::unique_ptr<TaggedMessages> &last = nodes.taken[size_t(part)];
    if (!last) last = std::make_unique<TaggedMessages>(nodes, Tag::taken);
    last->wait();
    last->from(nodes.parts[size_t(part)].first(), nullptr, 0);
  }
  void all_came(int from) {
    if (counts) TaggedMessages(nodes, Tag::taken).to(from, nullptr, 0);
  }
};

// Segments that come from a PE, or are made here, and go on to others. A segment makes all its hops
// here, in their order, before the next segment does. The order is the same on all nodes, so one
// tag is enough. in_flight of them have a buffer, or are waited for: half of those may be on their
// way to the next node while the others come.
class Relay {
  struct SegmentSlot {
    std::vector<char> data; // outlives the messages, whose end waits for them
    TaggedMessages in, out;
    SegmentSlot(const Nodes &nodes, Tag way, size_t bytes)
        : data(bytes), in(nodes, way), out(nodes, way) {}
  };
  std::list<SegmentSlot> slots;
  std::vector<SegmentSlot *> ring;
  std::vector<Hop> hops;
  size_t bytes, step, in_flight;
  char *memory;

  SegmentSlot &slot(size_t i) { return *ring[i % in_flight]; }
  char *place(size_t i) { return memory ? memory + i / hops.size() * step : slot(i).data.data(); }
  void expect(size_t i) {
    const size_t s = i / hops.size();
    const int from = hops[i % hops.size()].from;
    if (from >= 0 && s < segments()) slot(i).in.from(from, place(i), length(s));
  }

public:
  // `bytes` in segments of step, in memory, or in buffers if memory is null.
  Relay(const Nodes &nodes, Tag way, std::vector<Hop> through, size_t bytes, size_t step,
        size_t in_flight, char *memory)
      : hops(std::move(through)), bytes(bytes), step(step), in_flight(in_flight), memory(memory) {
    for (size_t i = 0; i < in_flight; i++)
      ring.push_back(&slots.emplace_back(nodes, way, memory ? 0 : std::min(step, bytes)));
    for (size_t i = 0; i < in_flight; i++) expect(i);
  }
  size_t segments() const { return (bytes + step - 1) / step; }
  size_t length(size_t s) const { return std::min(step, bytes - s * step); }
  // The place of the next segment. A segment from another PE is there.
  char *next(size_t s, size_t hop = 0) {
    const size_t going = in_flight / 2;
    const size_t i = s * hops.size() + hop;
    if (i >= going) {
      slot(i - going).out.wait();
      expect(i - going + in_flight);
    }
    slot(i).in.wait();
    return place(i);
  }
  void send(size_t s, size_t hop = 0) {
    const size_t i = s * hops.size() + hop;
    for (int pe : hops[hop].to) slot(i).out.to(pe, place(i), length(s));
  }
};

} // namespace

// One member of each node (on the root's node the root) hands on each segment: by a binomial tree
// or along a chain of nodes. Then each node broadcasts among its members.
void broadcast_nodes(const char *fn, Team &t, void *dest, const void *source, size_t bytes,
                     int root, bool root_too) {
  Nodes &nodes = *t.nodes;
  Team &h = nodes.here;
  const int n = int(nodes.parts.size()), root_pe = t.pe(root);
  int root_part = 0;
  for (int i = 0; const Run &run : nodes.runs)
    if ((i += run.n) > root) {
      root_part = run.part;
      break;
    }
  const bool root_here = nodes.me == root_part;
  const int speaker = root_here ? h.find(root_pe) : 0;
  // Its segments may still be on their way while this node's members copy.
  std::optional<Relay> relay;
  if (h.me == speaker) {
    const tune::Between by = tune::choose_between(Collective::broadcast, n, bytes);
    const int me = (nodes.me - root_part + n) % n; // from the root's node on
    auto part = [&](int k) { return (k + root_part) % n; };
    auto pe = [&](int k) { return k == 0 ? root_pe : nodes.parts[size_t(part(k))].first(); };
    Hop hop{-1, {}};
    Taken taken(nodes, bytes, by.segment);
    auto send_to = [&](int k) {
      taken.before_sending(part(k));
      hop.to.push_back(pe(k));
    };
    if (by.way == tune::Route::tree) {
      int bit = 1;
      for (; bit < n && !(me & bit); bit *= 2) {
      }
      if (me) hop.from = pe(me - bit);
      for (bit /= 2; bit; bit /= 2)
        if (me + bit < n) send_to(me + bit);
    } else {
      if (me) hop.from = pe(me - 1);
      if (me + 1 < n) send_to(me + 1);
    }
    auto *const p = static_cast<char *>(me ? dest : const_cast<void *>(source));
    const bool device_only = gpu::is_device_only(p);
    relay.emplace(nodes, Tag::along, std::vector<Hop>{hop}, bytes, by.segment, by.in_flight,
                  device_only ? nullptr : p);
    for (size_t s = 0; s < relay->segments(); s++) {
      char *const here = relay->next(s), *const there = p + s * by.segment;
      if (device_only && !me) copy(here, there, relay->length(s));
      relay->send(s);
      if (device_only && me) copy(there, here, relay->length(s));
    }
    if (me) taken.all_came(hop.from);
  }
  broadcast_here(fn, h, dest, root_here ? source : dest, bytes, speaker, root_here && root_too);
}

// Blocks go round the nodes, each on its member's rail, straight into dest; then the members copy
// from each other.
void collect_nodes(const char *fn, Team &t, void *dest, const void *source,
                   const MemberBlocks &blocks) {
  const Nodes &nodes = *t.nodes;
  Team &h = t.nodes->here;
  const size_t n = nodes.parts.size(), me = size_t(nodes.me);
  auto *const d = static_cast<char *>(dest);
  // Each member stores its own to its neighbours: one with nothing to give may pass any source.
  if (const size_t bytes = blocks.size(t.me))
    push_to_members(fn, h, d + blocks.at(t.me), source, 0, bytes);
  sync_here(h); // the blocks of this node are here
  if (h.me < nodes.rails) {
    const std::unique_ptr<std::optional<TaggedMessages>[]> in(new std::optional<TaggedMessages>[n]);
    TaggedMessages out(nodes, Tag::along);
    auto of_rail = [&](size_t k, auto f) { // the blocks of the k-th node before this one
      const Part &part = nodes.parts[(me + n - k) % n];
      for (int i = h.me; i < part.n; i += nodes.rails)
        if (const int m = part.at.pe(i); blocks.size(m)) f(d + blocks.at(m), blocks.size(m));
    };
    const int before = nodes.parts[(me + n - 1) % n].pe(h.me),
              after = nodes.parts[(me + 1) % n].pe(h.me);
    for (size_t k = 1; k < n; k++) {
      in[k].emplace(nodes, Tag::along);
      of_rail(k, [&](char *to, size_t bytes) { in[k]->from(before, to, bytes); });
    }
    for (size_t k = 0; k + 1 < n; k++) {
      if (k) in[k]->wait();
      of_rail(k, [&](char *block, size_t bytes) { out.to(after, block, bytes); });
    }
  }
  sync_here(h); // all blocks are on this node
  for (size_t k = 1; k < n; k++) {
    const Part &part = nodes.parts[(me + k) % n];
    for (int i = 0; i < part.n; i++) {
      const int m = part.at.pe(i), rail = i % nodes.rails;
      char *const to = d + blocks.at(m);
      const size_t bytes = blocks.size(m);
      if (bytes && rail != h.me) copy(to, at(fn, "dest", to, bytes, h.pe(rail)), bytes);
    }
  }
  sync_here(h); // what was copied from may change
}

// Straight from source to dest, with at_once peers at a time.
void alltoall_nodes(const char *fn, Team &t, void *dest, const void *source, size_t bytes) {
  constexpr int at_once = 64;
  Team &h = t.nodes->here;
  auto *const to = static_cast<char *>(dest);
  auto *const from = static_cast<const char *>(source);
  auto elsewhere = [&](int i) { return local_of(t.pe(i)) < 0; };
  TaggedMessages c(*t.nodes, Tag::along);
  for (int k = 1; k < t.n; k++) {
    const int after = pattern::peer(t.me, k, t.n), before = pattern::peer(t.me, t.n - k, t.n);
    if (elsewhere(before)) c.from(t.pe(before), to + size_t(before) * bytes, bytes);
    if (elsewhere(after)) c.to(t.pe(after), from + size_t(after) * bytes, bytes);
    if (k % at_once == 0) c.wait();
  }
  const PeOrder &at = t.nodes->parts[size_t(t.nodes->me)].at;
  push_to_members(fn, h, to + size_t(t.me) * bytes, bytes,
                  [&](int i) { return from + size_t(at.pe(i)) * bytes; });
  c.wait();
  sync_here(h); // the neighbours' blocks are here
}

namespace {

// In the order of the members: partial results go from run to run, segment by segment, each rail
// with its part of the elements. The last run's results go back from node to node.
void combine_chain(const Combine &combine, const char *fn, Team &t, void *dest, const void *source,
                   size_t n, Shape shape, const tune::Between &by) {
  const Nodes &nodes = *t.nodes;
  Team &h = t.nodes->here;
  const bool scan = shape != Shape::all, device_only = gpu::is_device_only(dest, source);
  const size_t runs = nodes.runs.size(), parts = nodes.parts.size(), size = combine.size;
  sync_here(h); // the sources are ready
  const pattern::Extent mine = pattern::part(n, 64, unsigned(h.me), unsigned(nodes.rails));
  const size_t from = mine.from, to = mine.to;
  const size_t step = std::max(by.segment, device_only ? device_segment : 0) / size;
  if (h.me < nodes.rails && from < to) {
    auto peer = [&](size_t part) { return nodes.parts[part].pe(h.me); };
    const auto place = [&](const void *p, size_t s) {
      return static_cast<char *>(const_cast<void *>(p)) + (from + s * step) * size;
    };
    const auto member = [&](const char *arg, int i, const void *p, size_t s, size_t bytes) {
      return at(fn, arg, place(p, s), bytes, h.pe(i));
    };
    const auto relay = [&](Tag way, std::vector<Hop> hops) {
      return Relay(nodes, way, std::move(hops), (to - from) * size, step * size, by.in_flight,
                   nullptr);
    };
    // The results start at the part of the last run and pass the parts before it, then those
    // behind.
    std::vector<Hop> hops;
    std::vector<size_t> here; // the runs of this part
    for (size_t r = 0; r < runs; r++)
      if (nodes.runs[r].part == nodes.me) {
        here.push_back(r);
        hops.push_back({r ? peer(size_t(nodes.runs[r - 1].part)) : -1, {}});
        if (r + 1 < runs) hops.back().to.push_back(peer(size_t(nodes.runs[r + 1].part)));
      }
    Relay along = relay(Tag::along, std::move(hops));
    const size_t last = size_t(nodes.runs.back().part), part = size_t(nodes.me),
                 left = (part + parts - 1) % parts;
    Hop homeward{scan || part == last ? -1 : peer((part + 1) % parts), {}};
    if (!scan && left != last) homeward.to.push_back(peer(left));
    Relay back = relay(Tag::back, {homeward});
    std::vector<char> loaded(scan || device_only ? step * size : 0);
    auto give = [&](char *result, size_t s) { // to the members, and on
      back.send(s);
      push_to_members(fn, h, place(dest, s), result, 0, back.length(s));
    };
    // A result is waited for after `behind` more segments have been sent on their way.
    const size_t segments = back.segments(), behind = std::min(size_t(by.in_flight), segments) - 1;
    for (size_t s = 0; s < segments + behind; s++) {
      for (size_t hop = 0; hop < here.size() && s < segments; hop++) {
        const size_t r = here[hop];
        const Run &run = nodes.runs[r];
        char *const acc = along.next(s, hop);
        const size_t bytes = along.length(s), m = bytes / size;
        if (scan && r == 0) memset(acc, 0, bytes);
        for (int i = run.from; i < run.from + run.n; i++) {
          const char *in = member("source", i, source, s, bytes);
          if (device_only || scan) { // dest may be source
            copy(loaded.data(), in, bytes);
            in = loaded.data();
          }
          if (shape == Shape::exscan) copy(member("dest", i, dest, s, bytes), acc, bytes);
          if (r == 0 && i == run.from && !scan)
            memcpy(acc, in, bytes);
          else
            combine.with(acc, in, m);
          if (shape == Shape::inscan) copy(member("dest", i, dest, s, bytes), acc, bytes);
        }
        along.send(s, hop);
        if (!scan && r + 1 == runs) {
          char *const result = back.next(s);
          memcpy(result, acc, bytes);
          give(result, s);
        }
      }
      if (!scan && part != last && s >= behind) give(back.next(s - behind), s - behind);
    }
  }
  sync_here(h); // the results are there
}

} // namespace

// Small: every member combines the sources of all.
void combine_nodes(const Combine &by, const char *fn, Team &t, void *dest, const void *source,
                   size_t n, Shape shape) {
  const size_t nodes = t.nodes->parts.size(), bytes = n * by.size;
  const tune::Between between =
      tune::choose_between(shape == Shape::all ? Collective::reduce : Collective::scan, int(nodes),
                           size_t(t.n) * bytes / nodes);
  if (between.way == tune::Route::chain || bytes > stage_bytes)
    return combine_chain(by, fn, t, dest, source, n, shape, between);
  const std::unique_ptr<char[]> all(new char[size_t(t.n + 1) * bytes]);
  char *const acc = all.get() + size_t(t.n) * bytes; // the CPU may not reach dest
  exchange_nodes(t, source, bytes, all.get());
  for (int i = 0; i < t.n; i++)
    take(by.with, shape, acc, all.get() + size_t(i) * bytes, n, by.size, i, t.me);
  if (n) copy(dest, acc, bytes);
}

} // namespace shmem::coll

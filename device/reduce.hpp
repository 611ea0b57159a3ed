// SPDX-License-Identifier: MIT
// Reductions and scans, see coll.hpp.
#pragma once
#include "channel.hpp"
#include "copy.hpp"

namespace shmem::device {

template <class T> struct Reduction {
  T *dest;
  const T *source;
  size_t n;
  Shape shape;
};

// Combines elements of all members, at s of their sources, into d of their dests: packs of 16
// bytes, or one element.
template <class T, class Op> struct Combiner {
  Channel c;
  Shape shape;
  Op op;

  // Without this, compilers keep facts about these in registers, through all loops, for many cases
  // and members: multiples of the team's stride, and comparisons with its size (17 scalars in lanes
  // of a vector register, gfx942, 2026-11-28).
  template <class Scope> SHMEM_D_ Combiner anew(Scope scope) const {
    Combiner k = *this;
    k.c = device::anew(scope, c);
    k.shape = device::anew(scope, shape);
    k.op = device::anew(scope, op);
    return k;
  }

  // Each thread has eight packs in flight, one of each of eight members or two of each of four: 128
  // bytes, which makes 4 MiB for 64 workgroups of 512. On 8 H200s (2026-11) all eight members at
  // once took an all-reduce of 2 MiB, where a thread has a single pack, from 22.2 to 20.7 us, and
  // one of 128 MiB, where it has many, from 718 to 728.
  template <int u, class Scope>
  SHMEM_D_ void packs(T *d, const T *s, size_t i, size_t step, Scope scope) const {
    constexpr int members = 8 / u;
    Lanes<T> acc[u] = {};
    for (int first = 0; first < c.t.n; first += members) {
      Pack v[members][u] = {};
      Combiner k = anew(scope);
      SHMEM_UNROLL_
      for (int j = 0; j < members; j++)
        if (first + j < k.c.t.n) k.load(v[j], s, i, step, first + j);
      SHMEM_UNROLL_
      for (int j = 0; j < members; j++) arch::arrive(v[j]); // scans store between the members
      k = anew(scope);
      const int at = device::anew(scope, first);
      SHMEM_UNROLL_
      for (int j = 0; j < members; j++)
        if (at + j < k.c.t.n) {
          SHMEM_UNROLL_
          for (int m = 0; m < u; m++)
            k.add(acc[m], v[j][m], at + j, reinterpret_cast<Pack *>(d) + i + m * step);
        }
    }
    if (shape == Shape::all || shape == Shape::scatter) {
      SHMEM_UNROLL_
      for (int j = 0; j < u; j++)
        put_result(pack<T>(acc[j]), reinterpret_cast<Pack *>(d) + i + j * step);
    }
  }
  template <int u>
  SHMEM_D_ void load(Pack (&v)[u], const T *s, size_t i, size_t step, int member) const {
    const Pack *from = reinterpret_cast<const Pack *>(source_at(c, s, c.pe(member)));
    SHMEM_UNROLL_
    for (int j = 0; j < u; j++) v[j] = arch::load_global(from + i + j * step);
  }
  // dest of a scan may be its source: a pack is loaded before it is overwritten.
  SHMEM_D_ void add(Lanes<T> &acc, Pack v, int member, Pack *d) const {
    const Lanes<T> in = unpack<T>(v), before = acc;
    if (member)
      combine(acc, in, op);
    else
      acc = in;
    if (scans())
      arch::store_remote(dest_at(c, d, c.pe(member)),
                         shape == Shape::exscan ? pack<T>(before) : pack<T>(acc));
  }
  SHMEM_D_ bool scans() const { return shape == Shape::inscan || shape == Shape::exscan; }
  SHMEM_D_ void put_result(Pack v, Pack *d) const {
    if (shape == Shape::scatter) return void(*d = v);
    for (int k = 1; k <= c.t.n; k++) arch::store_remote(dest_at(c, d, c.pe(c.peer(k))), v);
  }

  // The first of a pack's lanes is the element.
  SHMEM_D_ void one(T *d, const T *s) const {
    Lanes<T> acc{};
    for (int first = 0; first < c.t.n; first += 4) { // whose loads are in flight at once
      Loaded<T> next[4] = {};
      SHMEM_UNROLL_
      for (int j = 0; j < 4; j++)
        if (first + j < c.t.n) next[j].load(source_at(c, s, c.pe(first + j)));
      SHMEM_UNROLL_
      for (int j = 0; j < 4; j++) arch::arrive(next[j].w); // scans store between the members
      SHMEM_UNROLL_
      for (int j = 0; j < 4; j++) {
        const int i = first + j;
        if (i >= c.t.n) break;
        Lanes<T> in{};
        in.v[0] = widen(next[j].value());
        const Lanes<T> before = acc;
        if (i)
          combine(acc, in, op);
        else
          acc = in;
        if (scans())
          store_element(dest_at(c, d, c.pe(i)),
                        narrow<T>(shape == Shape::exscan ? before.v[0] : acc.v[0]));
      }
    }
    if (shape == Shape::scatter) store_element(d, narrow<T>(acc.v[0]));
    if (shape == Shape::all)
      for (int k = 1; k <= c.t.n; k++)
        store_element(dest_at(c, d, c.pe(c.peer(k))), narrow<T>(acc.v[0]));
  }

  template <class Scope> SHMEM_D_ void run(T *d, const T *s, size_t n, Scope scope) const {
    const size_t size = scope.size();
    const uintptr_t off = reinterpret_cast<uintptr_t>(d) % 16;
    size_t head = n; // elements to go one by one: all, if dest and source are aligned differently
    if ((reinterpret_cast<uintptr_t>(s) ^ reinterpret_cast<uintptr_t>(d)) % 16 == 0 &&
        off % sizeof(T) == 0)
      head = (16 - off) % 16 / sizeof(T);
    if (head > n) head = n;
    const size_t packs_n = (n - head) / size_t(Lanes<T>::n);
    d += head, s += head;
    size_t i = scope.rank();
    if constexpr (Op::deep == 2)
      for (; i + size < packs_n; i += 2 * size) anew(scope).template packs<2>(d, s, i, size, scope);
    for (; i < packs_n; i += size) anew(scope).template packs<1>(d, s, i, size, scope);
    const size_t ones = n - packs_n * size_t(Lanes<T>::n);
    for (size_t k = scope.rank(); k < ones; k += size) {
      const ptrdiff_t at = ptrdiff_t(k < head ? k : k + (n - ones)) - ptrdiff_t(head);
      anew(scope).one(d + at, s + at);
    }
  }
};

// arguments() gives the Reduction, and is called again where a number of it is used again: else
// compilers keep the numbers in scalar registers.
template <class Arguments, class Op, class Scope>
SHMEM_D_ void reduce(Channel &c, const Slice &s, Arguments arguments, Op op, Scope scope) {
  const auto r = arguments();
  using T = std::remove_pointer_t<decltype(r.dest)>;
  const size_t unit = cache_line / sizeof(T);
  const auto scatter = [&] { return arguments().shape == Shape::scatter; };
  // Sources that are not mapped cannot be read.
  if (s.algorithm == CollectiveAlgorithm::lines || may_be_remote(c.t)) {
    const Extent e = part(r.n, unit, s.index, s.count);
    const auto sent = [&] {
      const auto a = arguments();
      return Sent{reinterpret_cast<const char *>(a.source),
                  a.shape == Shape::scatter ? a.n * sizeof(T) : 0, 0};
    };
    pass(c, scope, Extent{e.from * sizeof(T), e.to * sizeof(T)}, sent,
         [&](size_t p, size_t at, size_t left) {
           Lanes<T> acc{};
           bool any = false;
           receive_all(c, p, [&](int i, Pack v) {
             // A scan receives what the later members send, too, so that nothing arrives after the
             // team's end.
             if (r.shape == Shape::inscan && i > c.t.me) return;
             if (r.shape == Shape::exscan && i >= c.t.me) return;
             const Lanes<T> in = unpack<T>(v);
             if (any)
               combine(acc, in, op);
             else
               acc = in;
             any = true;
           });
           store_pack(reinterpret_cast<char *>(arguments().dest) + at + 16 * p, left,
                      any ? pack<T>(acc) : Pack{});
         });
    return;
  }
  come(c, s, scope);
  // Links carry less when requests for reads go beside writes: 128 MiB on 4 H200s take 638 us, and
  // 605 in two phases (2026-11).
  const auto phases = [&] {
    return anew(scope, s.algorithm) == CollectiveAlgorithm::phases &&
           arguments().shape == Shape::all;
  };
  // Compilers that know of two members have no loop over them: 917504 bytes of bfloat16 between 2
  // H200s take 8.1 us, and 9.4 by the code for any number (2026-11-30).
  if constexpr (Op::deep == 2)
    if (r.shape == Shape::oneshot && c.t.n == 2) {
      const Combiner<T, Op> combiner{c, Shape::scatter, op};
      const Extent e = part(r.n, unit, s.index, s.count);
      combiner.run(r.dest + e.from, r.source + e.from, e.to - e.from, scope);
      return go<Stored::nothing>(c, s, scope);
    }
  const Combiner<T, Op> combiner{c, phases() ? Shape::scatter : r.shape, op};
  const Extent mine = scatter() ? Extent{0, r.n} : part(r.n, unit, c.t.me, c.t.n),
               e = part(mine, unit, s.index, s.count);
  combiner.run(r.dest + e.from, r.source + (scatter() ? size_t(c.t.me) * r.n : 0) + e.from,
               e.to - e.from, scope);
  if (scatter()) return go<Stored::nothing>(c, s, scope);
  if (phases()) {
    scope.sync(); // the others' sums are there
    c = anew(scope, c);
    char *const dest = reinterpret_cast<char *>(arguments().dest);
    const Extent bytes{anew(scope, e.from) * sizeof(T), e.to * sizeof(T)};
    spread(dest, dest, bytes, c.t.n, scope, [&](int k) {
      const int i = c.peer(k);
      return i == c.t.me ? nullptr : dest_at(c, dest, c.pe(i));
    });
  }
  go<Stored::by_scope>(c, s, scope);
}

} // namespace shmem::device

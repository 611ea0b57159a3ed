// SPDX-License-Identifier: MIT
// Collectives that kernels call: all threads of one scope of each member call, with the same
// arguments. dest and source are on the device heap. A collective sees the scope's earlier stores
// to source. A team has one collective at a time, which its first channel carries.
#pragma once
#include "coll.hpp"
#include "reduce.hpp"

namespace shmem::device {

// The largest messages of a scope that go by lines. The number is a guess, not measured.
inline constexpr size_t lines_bytes = 4096;

template <class Scope, class F>
SHMEM_D_ int collective(const char *fn, shmem_team_t team, const void *dest, const void *source,
                        size_t bytes, Scope scope, F f) {
  if (team == SHMEM_TEAM_INVALID) return -1;
  const unsigned id = team_id(team);
  Channel c = open(fn, id, team_of(id), 0, dest, source, scope);
  f(c, Slice{bytes <= lines_bytes ? CollectiveAlgorithm::lines : CollectiveAlgorithm::direct, 0, 1,
             Stored::by_scope});
  close(c, c.t.base, scope);
  return 0;
}
SHMEM_D_ void check_both(const char *fn, const void *dest, size_t dest_bytes, const void *source,
                         size_t source_bytes, size_t align) {
  check_own(fn, "dest", dest, dest_bytes, align);
  check_own(fn, "source", source, source_bytes, align);
}

template <class T, class Scope>
SHMEM_D_ int broadcast(const char *fn, shmem_team_t team, T *dest, const T *source, size_t n,
                       int root, Scope scope) {
  const size_t bytes = n * sizeof(T);
  return collective(fn, team, dest, source, bytes, scope, [&](Channel &c, const Slice &s) {
    if (unsigned(root) >= unsigned(c.t.n)) fail(Report::bad_pe, fn, "PE_root", nullptr, 0, 0, root);
    check_both(fn, dest, bytes, source, bytes, alignof(T));
    broadcast(c, s, reinterpret_cast<char *>(dest), reinterpret_cast<const char *>(source), bytes,
              root, scope);
  });
}
template <class T, class Scope>
SHMEM_D_ int collect(const char *fn, shmem_team_t team, T *dest, const T *source, size_t n,
                     Scope scope) {
  return collective(fn, team, dest, source, 0, scope, [&](Channel &c, const Slice &s) {
    check_both(fn, dest, n * sizeof(T), source, n * sizeof(T), alignof(T));
    collect(c, s, reinterpret_cast<char *>(dest), reinterpret_cast<const char *>(source),
            n * sizeof(T), scope);
  });
}
#define SHMEM_MOVE_(name, source_blocks)                                                           \
  template <class T, class Scope>                                                                  \
  SHMEM_D_ int name(const char *fn, shmem_team_t team, T *dest, const T *source, size_t n,         \
                    Scope scope) {                                                                 \
    const size_t bytes = n * sizeof(T);                                                            \
    return collective(fn, team, dest, source, bytes, scope, [&](Channel &c, const Slice &s) {      \
      const size_t blocks = unsigned(c.t.n);                                                       \
      check_both(fn, dest, blocks *bytes, source, (source_blocks)*bytes, alignof(T));              \
      name(c, s, reinterpret_cast<char *>(dest), reinterpret_cast<const char *>(source), bytes,    \
           scope);                                                                                 \
    });                                                                                            \
  }
SHMEM_MOVE_(fcollect, 1)
SHMEM_MOVE_(alltoall, blocks)
#undef SHMEM_MOVE_
template <class T, class Scope>
SHMEM_D_ int alltoalls(const char *fn, shmem_team_t team, T *dest, const T *source, ptrdiff_t dst,
                       ptrdiff_t sst, size_t n, Scope scope) {
  return collective(fn, team, dest, source, ~size_t(0), scope, [&](Channel &c, const Slice &s) {
    const size_t last = n ? unsigned(c.t.n) * n - 1 : 0, one = n ? 1 : 0;
    check_both(fn, dest, (last * size_t(dst) + one) * sizeof(T), source,
               (last * size_t(sst) + one) * sizeof(T), alignof(T));
    alltoalls(c, s, reinterpret_cast<char *>(dest), reinterpret_cast<const char *>(source), dst,
              sst, n, sizeof(T), scope);
  });
}

template <class T, class Scope>
SHMEM_D_ int alltoall2d(const char *fn, shmem_team_t team, T *dest, const T *source,
                        ptrdiff_t dest_block, ptrdiff_t dest_row, ptrdiff_t source_block,
                        ptrdiff_t source_row, size_t nelems, size_t nrows, Scope scope) {
  const auto bytes = [](ptrdiff_t n) { return n * ptrdiff_t(sizeof(T)); };
  const Block2d b{nelems * sizeof(T),  nrows,
                  bytes(dest_block),   bytes(dest_row),
                  bytes(source_block), bytes(source_row)};
  return collective(fn, team, dest, source, ~size_t(0), scope, [&](Channel &c, const Slice &s) {
    const auto n = size_t(c.t.n);
    check_both(fn, dest, extent(n, b.dest_block, b.dest_row, b), source,
               extent(n, b.source_block, b.source_row, b), alignof(T));
    alltoall2d(c, s, reinterpret_cast<char *>(dest), reinterpret_cast<const char *>(source), b,
               scope);
  });
}
template <class T, class Scope>
SHMEM_D_ int uneven(const char *fn, shmem_team_t team, T *dest, const T *source, const Uneven &u,
                    Scope scope) {
  return collective(fn, team, dest, source, 0, scope, [&](Channel &c, const Slice &s) {
    check_own(fn, "dest", dest, u.capacity * u.unit, alignof(T));
    alltoallv(c, s, reinterpret_cast<char *>(dest), reinterpret_cast<const char *>(source), u,
              scope);
  });
}
template <class T, class Scope>
SHMEM_D_ int alltoallv(const char *fn, shmem_team_t team, T *dest, size_t *recv_counts,
                       size_t *recv_offsets, size_t capacity, const T *source, const size_t *counts,
                       const size_t *offsets, Scope scope) {
  return uneven(fn, team, dest, source,
                {counts, offsets, recv_counts, recv_offsets, capacity, sizeof(T)}, scope);
}
template <class Scope>
SHMEM_D_ int alltoallv(const char *fn, shmem_team_t team, unsigned char *dest, size_t *recv_counts,
                       size_t *recv_offsets, size_t capacity, const unsigned char *source,
                       const size_t *counts, const size_t *offsets, size_t unit_bytes,
                       Scope scope) {
  return uneven(fn, team, dest, source,
                {counts, offsets, recv_counts, recv_offsets, capacity, unit_bytes}, scope);
}

// The receiver gives each member i a place of its own: room[i] units from places[i] on.
template <class T, class Scope>
SHMEM_D_ int alltoallv_to(const char *fn, shmem_team_t team, T *dest, const size_t *room,
                          const size_t *places, const T *source, const size_t *counts,
                          const size_t *offsets, Scope scope) {
  const Uneven u{counts, offsets, nullptr, nullptr, 0, sizeof(T)};
  return collective(fn, team, dest, source, 0, scope, [&](Channel &c, const Slice &s) {
    alltoallv(c, s, reinterpret_cast<char *>(dest), reinterpret_cast<const char *>(source), u,
              scope, [&](int i, uint64_t count, bool) {
                return count <= arch::load_global(room + i) ? arch::load_global(places + i)
                                                            : no_place;
              });
  });
}

template <class Op, class T, class Scope>
SHMEM_D_ int reduce(const char *fn, shmem_team_t team, T *dest, const T *source, size_t n,
                    Shape shape, Scope scope) {
  using E = Element<Op, T>;
  return collective(fn, team, dest, source, n * sizeof(T), scope, [&](Channel &c, const Slice &s) {
    const size_t blocks = shape == Shape::scatter ? unsigned(c.t.n) : 1;
    check_both(fn, dest, n * sizeof(T), source, blocks * n * sizeof(T), alignof(T));
    const auto arguments = [&] {
      return Reduction<E>{reinterpret_cast<E *>(dest), reinterpret_cast<const E *>(source), n,
                          anew(scope, shape)};
    };
    reduce(c, s, arguments, Fixed<Op>{}, scope);
  });
}
#define SHMEM_REDUCE_(name, op, shape)                                                             \
  template <class T, class Scope>                                                                  \
  SHMEM_D_ int name(const char *fn, shmem_team_t team, T *dest, const T *source, size_t n,         \
                    Scope scope) {                                                                 \
    return reduce<op>(fn, team, dest, source, n, Shape::shape, scope);                             \
  }
#define SHMEM_REDUCES_(name, op)                                                                   \
  SHMEM_REDUCE_(name##_reduce, op, all)                                                            \
  SHMEM_REDUCE_(name##_reduce_scatter, op, scatter)
SHMEM_OPERATORS_(SHMEM_REDUCES_)
SHMEM_REDUCE_(sum_inscan, Sum, inscan)
SHMEM_REDUCE_(sum_exscan, Sum, exscan)
#undef SHMEM_REDUCES_
#undef SHMEM_REDUCE_

} // namespace shmem::device

// SPDX-License-Identifier: MIT
// Reductions and scans. Every element is combined once, in the order of the members, by one of
// them: the result has the same bits on every PE and in every run. Arrays in device memory are
// reduced on a stream, and waited for; those that a kernel does not reach, and types it does not
// know, go through buffers of the host.
//
// Only the loop over the elements and the path of small sizes know the type. For each type all the
// other paths took 31 s to compile, and 527 KB (gcc 12, 2026-11-28).
#pragma once
#include "../../device/op.hpp"
#include "coll.hpp"
#include <cstring>
#include <type_traits>

namespace shmem {

namespace coll {

// The types and operators that kernels combine as the host does. Kernels have no long double, and
// in complex products not the C standard's care of infinities.
template <class Op, class T>
inline constexpr bool gpu_combines =
    !std::is_same_v<T, long double> &&
    !(std::is_same_v<Op, Prod> &&
      (std::is_same_v<T, shmem_complexf_> || std::is_same_v<T, shmem_complexd_>));

// Up to this size every member combines all sources: one exchange. Above, each combines a part for
// all: two barriers, but fewer bytes to read from others (2 PEs, EPYC, 2026-11: 2 KiB staged 525
// ns, 8 KiB in parts 446).
inline constexpr size_t staged_bytes = 1024;

// Integers of a size share the loop, so long long may be combined as long. The compiler believes
// the qualifier of a parameter, not of a local variable (gcc 12). By four vectors a round one PE
// scans 64 KiB in 3.7 us, by one in 4.1 (least of four runs, 2026-11-28).
template <class Op, class T>
[[gnu::noinline]] void combine(void *__restrict acc, const void *__restrict in, size_t n) {
  typedef T Any __attribute__((may_alias));
  auto *a = static_cast<Any *>(acc);
  const auto *b = static_cast<const Any *>(in);
#pragma GCC unroll 4
  for (size_t i = 0; i < n; i++) a[i] = Op::template op<T>(a[i], b[i]);
}

// Takes the n elements that member i gives into the result of member me, in the order of the
// members.
template <class With>
inline void take(With combine, Shape shape, void *acc, const void *in, size_t n, size_t size, int i,
                 int me) {
  if (shape == Shape::all) {
    if (i == 0) return copy(acc, in, n * size);
  } else {
    if (i == 0) memset(acc, 0, n * size); // a zero of every type
    if (i >= me + (shape == Shape::inscan)) return;
  }
  combine(acc, in, n);
}

// A reduction of any size, on arrays in any memory. reduce_word below does the common ones: a team
// of several PEs reduces a few elements that plain loads and stores reach.
void reduce_any(const Combine &by, const char *fn, Team &t, void *dest, const void *source,
                size_t n, Shape shape);

template <class Op, class T>
[[gnu::noinline]] void reduce_word(const char *fn, Team &t, void *dest, const void *source,
                                   size_t n, Shape shape) {
  static constexpr Combine by = [] {
    Combine c{sizeof(T), alignof(T), combine<Op, T>, Op::which, {}};
    if constexpr (gpu_combines<Op, T>) c.type = type_of<Element<Op, T>>;
    return c;
  }();
  if (n * sizeof(T) > staged_bytes || t.n == 1 || self.careful)
    return reduce_any(by, fn, t, dest, source, n, shape);
  exchange_data(t, static_cast<const T *>(source), n, [=, me = t.me](int i, const T *in) {
    take(combine<Op, T>, shape, dest, in, n, sizeof(T), i, me);
  });
}
template <class Op, class T>
inline void reduce(const char *fn, Team &t, T *dest, const T *source, size_t n,
                   Shape shape = Shape::all) {
  using Word = std::conditional_t<std::is_integral_v<T>, Element<Op, T>, T>;
  reduce_word<Op, Word>(fn, t, dest, source, n, shape);
}

} // namespace coll

namespace api {

#define REDUCTION(name, Op)                                                                        \
  template <class T>                                                                               \
  inline int name##_reduce(const char *fn, shmem_team_t team, T *dest, const T *source,            \
                           size_t n) {                                                             \
    coll::reduce<Op>(fn, need_team(fn, "team", team), dest, source, n);                            \
    return 0;                                                                                      \
  }                                                                                                \
  template <class T>                                                                               \
  inline void name##_to_all(const char *fn, T *dest, const T *source, int n, int start,            \
                            int log_stride, int size, T *, long *psync) {                          \
    if (Team *t = active_set(fn, start, log_stride, size, psync))                                  \
      coll::reduce<Op>(fn, *t, dest, source, n > 0 ? size_t(n) : 0);                               \
  }
SHMEM_OPERATORS_(REDUCTION)
#undef REDUCTION

#define SCAN(name, shape)                                                                          \
  template <class T>                                                                               \
  inline int name(const char *fn, shmem_team_t team, T *dest, const T *source, size_t n) {         \
    coll::reduce<Sum>(fn, need_team(fn, "team", team), dest, source, n, Shape::shape);             \
    return 0;                                                                                      \
  }
SCAN(sum_inscan, inscan)
SCAN(sum_exscan, exscan)
#undef SCAN

} // namespace api
} // namespace shmem

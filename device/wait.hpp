// SPDX-License-Identifier: MIT
// Point-to-point synchronization: wait and test, of one thread, at system scope.
#pragma once
#include "flags.hpp"
#include "op.hpp"

namespace shmem::device {

SHMEM_D_ void check_own(const char *fn, const char *arg, const void *p, size_t bytes,
                        size_t align) {
  const uintptr_t delta = state.heap_delta(state.me);
  if (__builtin_expect(delta & closer, 0))
    inspect(fn, arg, p, bytes, align, state.me, arch::keeps_peers ? delta & ~coarse : delta);
}

// Waits, and returns the value that satisfied the comparison.
template <class T>
SHMEM_D_ T wait_for(const char *fn, const char *arg, const T *p, int cmp, T value) {
  check_own(fn, arg, p, sizeof(T), alignof(T));
  T seen;
  poll_until([&] { return compare(seen = arch::poll(p), cmp, value); },
             [&] {
               fail(Report::wait_limit, fn, arg, p, sizeof(T), alignof(T), state.me, cmp,
                    uint64_t(value), uint64_t(seen));
             });
  arch::polled();
  return seen;
}

template <class T> SHMEM_D_ void wait_until(const char *fn, T *ivar, int cmp, T cmp_value, Thread) {
  wait_for(fn, "ivar", ivar, cmp, cmp_value);
}
template <class T> SHMEM_D_ void wait(const char *fn, T *ivar, T cmp_value, Thread) {
  wait_for(fn, "ivar", ivar, SHMEM_CMP_NE, cmp_value);
}
template <class T> SHMEM_D_ int test(const char *fn, T *ivar, int cmp, T cmp_value, Thread) {
  check_own(fn, "ivar", ivar, sizeof(T), alignof(T));
  deferred::look();
  if (!compare(arch::poll(ivar), cmp, cmp_value)) return 0;
  arch::polled();
  return 1;
}

// The value that element i is compared with: one for all, or one for each.
template <class T> SHMEM_D_ T value_for(T value, size_t) {
  return value;
}
template <class T> SHMEM_D_ T value_for(const T *values, size_t i) {
  return values[i];
}

// Whether element i counts: status, if given, is nonzero for elements to skip.
SHMEM_D_ bool counts(const int *status, size_t i) {
  return !status || !status[i];
}
SHMEM_D_ bool any_counts(const int *status, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (counts(status, i)) return true;
  return false;
}

template <class T, class V>
SHMEM_D_ int all_hold(T *ivars, size_t n, const int *status, int cmp, V values) {
  for (size_t i = 0; i < n; i++)
    if (counts(status, i) && !compare(arch::poll(ivars + i), cmp, value_for<T>(values, i)))
      return 0;
  arch::polled();
  return 1;
}
// Begins at a place that the clock chooses, so that no satisfied element is passed over for ever.
template <class T, class V>
SHMEM_D_ size_t any_holds(T *ivars, size_t n, const int *status, int cmp, V values) {
  if (!n) return SIZE_MAX;
  size_t i = size_t(arch::clock() / 32 % n);
  for (size_t k = 0; k < n; k++, i = i + 1 == n ? 0 : i + 1)
    if (counts(status, i) && compare(arch::poll(ivars + i), cmp, value_for<T>(values, i))) {
      arch::polled();
      return i;
    }
  return SIZE_MAX;
}
template <class T, class V>
SHMEM_D_ size_t some_hold(T *ivars, size_t n, size_t *indices, const int *status, int cmp,
                          V values) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++)
    if (counts(status, i) && compare(arch::poll(ivars + i), cmp, value_for<T>(values, i)))
      *arch::in_memory(indices + found++) = i;
  if (found) arch::polled();
  return found;
}

// Polls until f returns something else than none.
template <class T, class V, class R, class F>
SHMEM_D_ R poll(const char *fn, T *ivars, size_t n, int cmp, V values, R none, F f) {
  check_own(fn, "ivars", ivars, n * sizeof(T), alignof(T));
  R r;
  poll_until([&] { return (r = f()) != none; },
             [&] {
               fail(Report::wait_limit, fn, "ivars", ivars, n * sizeof(T), alignof(T), state.me,
                    cmp, uint64_t(value_for<T>(values, 0)), uint64_t(arch::load(ivars)));
             });
  return r;
}

template <class T, class V>
SHMEM_D_ void wait_until_all(const char *fn, T *ivars, size_t n, const int *status, int cmp,
                             V values, Thread) {
  if (any_counts(status, n))
    poll(fn, ivars, n, cmp, values, 0, [&] { return all_hold(ivars, n, status, cmp, values); });
}
template <class T, class V>
SHMEM_D_ size_t wait_until_any(const char *fn, T *ivars, size_t n, const int *status, int cmp,
                               V values, Thread) {
  if (!any_counts(status, n)) return SIZE_MAX;
  return poll(fn, ivars, n, cmp, values, size_t(SIZE_MAX),
              [&] { return any_holds(ivars, n, status, cmp, values); });
}
template <class T, class V>
SHMEM_D_ size_t wait_until_some(const char *fn, T *ivars, size_t n, size_t *indices,
                                const int *status, int cmp, V values, Thread) {
  if (!any_counts(status, n)) return 0;
  return poll(fn, ivars, n, cmp, values, size_t(0),
              [&] { return some_hold(ivars, n, indices, status, cmp, values); });
}
template <class T, class V>
SHMEM_D_ int test_all(const char *fn, T *ivars, size_t n, const int *status, int cmp, V values,
                      Thread) {
  deferred::look();
  check_own(fn, "ivars", ivars, n * sizeof(T), alignof(T));
  return all_hold(ivars, n, status, cmp, values);
}
template <class T, class V>
SHMEM_D_ size_t test_any(const char *fn, T *ivars, size_t n, const int *status, int cmp, V values,
                         Thread) {
  deferred::look();
  check_own(fn, "ivars", ivars, n * sizeof(T), alignof(T));
  return any_holds(ivars, n, status, cmp, values);
}
template <class T, class V>
SHMEM_D_ size_t test_some(const char *fn, T *ivars, size_t n, size_t *indices, const int *status,
                          int cmp, V values, Thread) {
  deferred::look();
  check_own(fn, "ivars", ivars, n * sizeof(T), alignof(T));
  return some_hold(ivars, n, indices, status, cmp, values);
}

} // namespace shmem::device

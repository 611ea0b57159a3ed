// SPDX-License-Identifier: MIT
// Point-to-point synchronization: wait and test.
#pragma once
#include "../device/op.hpp"
#include "address.hpp"
#include "sync.hpp"

namespace shmem::api {

[[noreturn, gnu::cold]] void bad_cmp(const char *fn, int cmp);

template <class T> [[gnu::always_inline]] inline bool holds(const char *fn, T a, int cmp, T b) {
  if (unsigned(cmp) > SHMEM_CMP_GE) [[unlikely]]
    bad_cmp(fn, cmp);
  return compare(a, cmp, b);
}

// An acquire: what was stored before the value that is seen here is seen after it. Another PE may
// also write it by put or p.
template <class T> inline T look(T *ivar) {
  return std::atomic_ref<T>(*ivar).load(std::memory_order_acquire);
}

// A copy that is looked at in place of objects that the CPU does not reach.
template <class T> class Copied {
  T few[16];
  T *all;
  const T *there;
  size_t n;

public:
  Copied(const T *ivars, size_t n) : all(n <= 16 ? few : new T[n]), there(ivars), n(n) {
    refresh();
  }
  ~Copied() {
    if (all != few) delete[] all;
  }
  Copied(const Copied &) = delete;
  Copied &operator=(const Copied &) = delete;
  T *refresh() {
    DeviceObject<T>(const_cast<T *>(there)).get(all, n, false);
    return all;
  }
  T *get() { return all; }
};

// For self.careful: true if ivars must be copied before they are looked at.
template <class T>
[[gnu::cold, gnu::noinline]] bool prepare(const char *fn, const char *arg, const T *ivars,
                                          size_t n) {
  if (self.check) check_symmetric(fn, arg, ivars, n * sizeof(T), alignof(T));
  return n && out_of_reach(ivars);
}

template <class T>
[[gnu::cold, gnu::noinline]] T wait_for_copy(const char *fn, T *ivar, int cmp, T cmp_value) {
  Copied<T> value(ivar, 1);
  if (!holds(fn, *value.get(), cmp, cmp_value))
    wait_while({ivar, false}, [&] { return !holds(fn, *value.refresh(), cmp, cmp_value); });
  return *value.get();
}

// Waits, and returns the value that satisfied the comparison.
template <class T>
inline T wait_for(const char *fn, const char *arg, T *ivar, int cmp, T cmp_value) {
  if (self.careful) [[unlikely]]
    if (prepare(fn, arg, ivar, 1)) return wait_for_copy(fn, ivar, cmp, cmp_value);
  T value = look(ivar);
  if (!holds(fn, value, cmp, cmp_value))
    wait_while({ivar, false}, [&] { return !holds(fn, value = look(ivar), cmp, cmp_value); });
  return value;
}

template <class T> inline void wait_until(const char *fn, T *ivar, int cmp, T cmp_value) {
  wait_for(fn, "ivar", ivar, cmp, cmp_value);
}
template <class T> inline void wait(const char *fn, T *ivar, T cmp_value) {
  wait_for(fn, "ivar", ivar, SHMEM_CMP_NE, cmp_value);
}

// The result of a test. A test that fails is often one of many.
template <class R> inline R tested(R result, R failed = R(0)) {
  if (result == failed) poll_failed();
  return result;
}
template <class T> inline int test(const char *fn, T *ivar, int cmp, T cmp_value) {
  if (self.careful) [[unlikely]]
    if (prepare(fn, "ivar", ivar, 1))
      return tested(holds(fn, *Copied<T>(ivar, 1).get(), cmp, cmp_value));
  return tested(holds(fn, look(ivar), cmp, cmp_value));
}

// The value that element i is compared with: one for all, or one for each.
template <class V> inline auto value_for(V values, size_t i) {
  if constexpr (std::is_pointer_v<V>)
    return values[i];
  else
    return values;
}

// Whether element i counts: status, if given, is nonzero for elements to skip.
inline bool counts(const int *status, size_t i) {
  return !status || !status[i];
}

inline size_t counted(const int *status, size_t n) {
  size_t sum = 0;
  for (size_t i = 0; i < n; i++) sum += counts(status, i);
  return sum;
}

template <class T, class V>
inline int all_hold(const char *fn, T *ivars, size_t n, const int *status, int cmp, V values) {
  for (size_t i = 0; i < n; i++)
    if (counts(status, i) && !holds(fn, look(ivars + i), cmp, value_for(values, i))) return 0;
  return 1;
}

// The start of a scan, as a fraction of the set. It moves on by the golden ratio with each call, so
// that no satisfied element is passed over for ever, even if every second or n-th call is for
// another set.
inline std::atomic<uint64_t> scan_start{0};

template <class T, class V>
inline size_t any_holds(const char *fn, T *ivars, size_t n, const int *status, int cmp, V values) {
  if (!n) return SIZE_MAX;
  uint64_t from = scan_start.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed);
  size_t i = size_t(static_cast<unsigned __int128>(from) * n >> 64);
  for (size_t k = 0; k < n; k++, i = i + 1 == n ? 0 : i + 1)
    if (counts(status, i) && holds(fn, look(ivars + i), cmp, value_for(values, i))) return i;
  return SIZE_MAX;
}

template <class T, class V>
inline size_t some_hold(const char *fn, T *ivars, size_t n, size_t *indices, const int *status,
                        int cmp, V values) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++)
    if (counts(status, i) && holds(fn, look(ivars + i), cmp, value_for(values, i)))
      indices[found++] = i;
  return found;
}

// Calls f(the elements, refresh). If they are out of the CPU's reach f sees a copy, so it calls
// refresh before each further look.
template <class T, class F>
[[gnu::cold, gnu::noinline]] auto on_copies(const T *ivars, size_t n, F f) {
  Copied<T> all(ivars, n);
  return f(all.get(), [&] { all.refresh(); });
}
template <class T, class F>
[[gnu::always_inline]] inline auto on_elements(const char *fn, T *ivars, size_t n, F f) {
  if (self.careful) [[unlikely]]
    if (prepare(fn, "ivars", ivars, n)) return on_copies(ivars, n, f);
  return f(ivars, [] {});
}

template <class T, class V>
inline int test_all(const char *fn, T *ivars, size_t n, const int *status, int cmp, V values) {
  return tested(on_elements(
      fn, ivars, n, [=](T *seen, auto) { return all_hold(fn, seen, n, status, cmp, values); }));
}
template <class T, class V>
inline size_t test_any(const char *fn, T *ivars, size_t n, const int *status, int cmp, V values) {
  const size_t found = on_elements(
      fn, ivars, n, [=](T *seen, auto) { return any_holds(fn, seen, n, status, cmp, values); });
  return tested(found, SIZE_MAX);
}
template <class T, class V>
inline size_t test_some(const char *fn, T *ivars, size_t n, size_t *indices, const int *status,
                        int cmp, V values) {
  return tested(on_elements(fn, ivars, n, [=](T *seen, auto) {
    return some_hold(fn, seen, n, indices, status, cmp, values);
  }));
}
template <class T, class V>
inline void wait_until_all(const char *fn, T *ivars, size_t n, const int *status, int cmp,
                           V values) {
  on_elements(fn, ivars, n, [=](T *seen, auto refresh) {
    for (size_t i = 0; i < n; i++) {
      auto missing = [&] { return !holds(fn, look(seen + i), cmp, value_for(values, i)); };
      if (counts(status, i) && missing())
        wait_while({ivars + i, false}, [&] { return refresh(), missing(); });
    }
  });
}
template <class T, class V>
inline size_t wait_until_any(const char *fn, T *ivars, size_t n, const int *status, int cmp,
                             V values) {
  return on_elements(fn, ivars, n, [=](T *seen, auto refresh) {
    size_t i = SIZE_MAX;
    if (counted(status, n))
      wait_while({nullptr, false}, [&] {
        return refresh(), (i = any_holds(fn, seen, n, status, cmp, values)) == SIZE_MAX;
      });
    return i;
  });
}
template <class T, class V>
inline size_t wait_until_some(const char *fn, T *ivars, size_t n, size_t *indices,
                              const int *status, int cmp, V values) {
  return on_elements(fn, ivars, n, [=](T *seen, auto refresh) {
    size_t found = 0;
    if (counted(status, n))
      wait_while({nullptr, false}, [&] {
        return refresh(), (found = some_hold(fn, seen, n, indices, status, cmp, values)) == 0;
      });
    return found;
  });
}

} // namespace shmem::api

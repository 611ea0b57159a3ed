// SPDX-License-Identifier: MIT
// From a symmetric address here to the same object of a peer: a range check, a load, an add.
#pragma once
#include "log.hpp"
#include "object.hpp"
#include "state.hpp"
#include "team.hpp"
#include <optional>

namespace shmem {

// An element of the sized routines, of any alignment, as the private side of a transfer may be.
template <int bits> struct Sized { std::byte bytes[bits / 8]; };

// The type for which templates are made where the sign of a T does not matter.
template <class T, bool = std::is_integral_v<T>> struct WordOf : std::type_identity<T> {};
template <class T>
struct WordOf<T, true> : std::make_signed<typename arch::WordOf<sizeof(T)>::type> {};
template <class T> using Word = typename WordOf<T>::type;

// A call, as the slow path and its messages need it: the symmetric object, and the other pointer of
// a transfer.
struct Access {
  const char *fn, *arg;
  const void *p;
  size_t bytes, align;
  int pe;
  const void *other; // where as many bytes are read or written locally, or no_other
  bool atomic;       // an atomic, which not all memory of a GPU has
};
inline const void *const no_other = reinterpret_cast<const void *>(~uintptr_t(0));

// The symmetric region that p lies in, or null.
const Region *region(const void *p);

// The object's address at PE a.pe, for all that the fast path does not cover: static data, and
// calls that have to be checked. Empty where that PE is on another node, because nothing of it is
// mapped here. A wrong call ends the program.
[[gnu::noinline]] std::optional<void *> slow_address(const Access &a);
[[noreturn, gnu::cold]] void not_mapped(const char *fn, int pe);

// Whether the data path finds PE pe in heap_delta, see choose_spans.
[[gnu::always_inline]] inline bool is_near(int pe) {
  if constexpr (net::built) return unsigned(pe - self.first) < unsigned(self.near);
  return unsigned(pe) < unsigned(self.near);
}

// The object of PE pe (of the world) that is at p here, n elements long.
template <class T>
[[gnu::always_inline]] inline T *at(const char *fn, const char *arg, T *p, size_t n, int pe) {
  if (self.fast.has(p) && is_near(pe)) [[likely]]
    return reinterpret_cast<T *>(uintptr_t(p) + heap_delta[pe]);
  const auto there = slow_address({fn, arg, p, n * sizeof(T), alignof(T), pe, no_other, false});
  if (!there) not_mapped(fn, pe);
  return static_cast<T *>(*there);
}

// Lives while an operation at a remote PE starts. Then records the operation's number in the
// context, if the context was created.
class Begins {
  Context *by;
  void begun() const {
    const std::atomic_ref last_of(by->begun);
    const uint64_t last = net::last_begun();
    uint64_t seen = last_of.load(std::memory_order_relaxed);
    while (seen < last && !last_of.compare_exchange_weak(seen, last, std::memory_order_relaxed)) {
    }
  }

public:
  explicit Begins(Context *by) : by(by) {}
  ~Begins() {
    if (by) begun();
  }
  Begins(const Begins &) = delete;
  Begins &operator=(const Begins &) = delete;
};

// GCC would clone the slow path for its constant arguments; the registers that the clone takes cost
// the fast path of atomic_fetch_add a move (gcc 12, 2026-11-28). Clang does not know the attribute.
#if __has_cpp_attribute(gnu::noclone)
#define NO_CLONE [[gnu::noclone]]
#else
#define NO_CLONE
#endif
// Calls f(the object at PE pe of the context's team), see object.hpp. The slow path is a function
// of its own that ends with f, so that nothing lives across a call in the fast one, which therefore
// needs no stack.
template <class C, class T, class F>
NO_CLONE [[gnu::noinline]] auto slow_access(const char *fn, const char *arg, C c, T *p, size_t n,
                                            int pe, const void *other, bool atomic, F f) {
  using Object = std::remove_const_t<T>;
  const int r = rank(fn, c, pe);
  const auto there = slow_address({fn, arg, p, n * sizeof(T), alignof(T), r, other, atomic});
  const Begins begins(net::built && !there ? created(c) : nullptr);
  return with_object(static_cast<Object *>(there.value_or(nullptr)), const_cast<Object *>(p), r, f);
}
#undef NO_CLONE
template <class C, class T, class F, class G>
[[gnu::always_inline]] inline auto access_in(const Span &span, const char *fn, const char *arg, C c,
                                             T *p, size_t n, int pe, const void *other, bool atomic,
                                             F fast, G slow) {
  if (span.has(p)) [[likely]] { // so neither p nor the context needs a check
    int r = plain_rank(c, pe);
    if (is_near(r)) [[likely]] {
      using Object = std::remove_const_t<T>;
      return fast(MappedObject<Object>(reinterpret_cast<Object *>(uintptr_t(p) + heap_delta[r])));
    }
  }
  return slow_access(fn, arg, c, p, n, pe, other, atomic, slow);
}
// For a transfer, whose other side may be anywhere.
template <class C, class T, class F>
[[gnu::always_inline]] inline auto access(const char *fn, const char *arg, C c, T *p, size_t n,
                                          int pe, const void *other, F f) {
  return access_in(self.fast, fn, arg, c, p, n, pe, other, false, f, f);
}
// For one element, whose value is in a register.
template <class C, class T, class F>
[[gnu::always_inline]] inline auto access_word(const char *fn, const char *arg, C c, T *p, int pe,
                                               F f, bool atomic = false) {
  return access_in(self.word, fn, arg, c, p, 1, pe, no_other, atomic, f, f);
}
template <class C, class T, class F>
[[gnu::always_inline]] inline auto access_atomic(const char *fn, C c, T *dest, int pe, F f) {
  return access_word(fn, "dest", c, dest, pe, f, true);
}
// The same for a read, which a program may repeat until the value changes.
template <class C, class T, class F>
[[gnu::always_inline]] inline auto access_read(const char *fn, const char *arg, C c, const T *p,
                                               int pe, F f, bool atomic = false) {
  return access_in(self.read, fn, arg, c, p, 1, pe, no_other, atomic, f, [=](auto object) {
    const auto value = f(object);
    object.looked(value);
    return value;
  });
}

// Ends the program unless [p, p + bytes) is symmetric and aligned. For SHMEM_CHECK; bytes 0 allows
// anything.
void check_symmetric(const char *fn, const char *arg, const void *p, size_t bytes, size_t align);
// The same for dest and source of a collective, which must not overlap. in_place: they may be the
// same.
void check_arrays(const char *fn, const void *dest, size_t dest_bytes, const void *source,
                  size_t source_bytes, size_t align, bool in_place);
inline void check_ready(const char *fn) {
  if (!self.ready) [[unlikely]]
    not_ready(fn);
}
inline void check_root(const char *fn, const Team &t, int root) {
  if (unsigned(root) >= unsigned(t.n)) [[unlikely]]
    fatal("%s: PE_root = %d: the team has PEs 0 to %d", fn, root, t.n - 1);
}
// Ends the program when p is NULL though n is not 0. For SHMEM_CHECK.
void check_pointer(const char *fn, const char *arg, const void *p, size_t n);
// The strides of an alltoall2d, in elements of unit bytes.
void check_block(const char *fn, const Block2d &b, size_t unit);
// Checks the arguments of an alltoallv; returns the bytes of dest.
size_t check_uneven(const char *fn, const Uneven &u);

} // namespace shmem

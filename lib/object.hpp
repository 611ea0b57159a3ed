// SPDX-License-Identifier: MIT
// One symmetric object of one PE, as an access finds it. Three classes have the same members:
//   MappedObject  loads and stores of this thread reach it
//   DeviceObject  the object, or the other side of a transfer, may lie where only the GPU should go
//   RemoteObject  its PE is on another node
// with_object chooses between them, once. A routine is then one line for all three.
#pragma once
#include "copy.hpp"
#include "gpu/copy.hpp"
#include "gpu/heap.hpp"
#include "gpu/ring.hpp"
#include "net.hpp"
#include "sync.hpp"
#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

namespace shmem {

// Members of each class, for elements of type T:
//   put(source, n, later), get(dest, n, later)   later: only the next quiet has to complete it
//   put_first(source, n)          done before the atomics that this thread asks for afterwards
//   push(source, n)               done once net::quiet has returned, or before
//   put_blocks, get_blocks        nblocks of bsize elements, which start dst apart in dest and sst
//                                 apart in source
//   load(), store(value)          one element, up to 8 bytes in one access
//   looked(value)                 a read on the slow path found this: a program may read again and
//                                 again until the value changes
//   wake()                        wakes those that sleep until the object changes
// and the atomics. Each atomic returns the old value, but `update` returns nothing, and
// compare_swap returns whether it has stored, with the old value in `seen`.

// Memory that only the GPU should read and write.
template <class... P> bool out_of_reach(const P *...p) {
  return gpu::is_device_only(p...);
}

template <class T> class MappedObject {
  T *p;
  static void copy_elements(T *d, const T *s, size_t n) {
    if (n == 1)
      copy_one(d, s);
    else
      copy(d, s, n * sizeof(T));
  }
  static void copy_blocks(T *d, const T *s, ptrdiff_t dst, ptrdiff_t sst, size_t bsize,
                          size_t nblocks) {
    for (size_t i = 0; i < nblocks; i++, d += dst, s += sst) copy_elements(d, s, bsize);
  }

public:
  using Order = std::memory_order;
  explicit MappedObject(T *p) : p(p) {}
  void put(const T *source, size_t n, bool) const { copy_elements(p, source, n); }
  void get(T *dest, size_t n, bool) const { copy_elements(dest, p, n); }
  void put_first(const T *source, size_t n) const { copy_elements(p, source, n); }
  void push(const T *source, size_t n) const { copy_elements(p, source, n); }
  void put_blocks(const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize,
                  size_t nblocks) const {
    copy_blocks(p, source, dst, sst, bsize, nblocks);
  }
  void get_blocks(T *dest, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks) const {
    copy_blocks(dest, p, dst, sst, bsize, nblocks);
  }
  T load() const {
    T value;
    if constexpr (sizeof(T) <= 8)
      __atomic_load(p, &value, __ATOMIC_RELAXED);
    else
      value = *p;
    return value;
  }
  void store(T value) const {
    if constexpr (sizeof(T) <= 8)
      __atomic_store(p, &value, __ATOMIC_RELAXED);
    else
      *p = value;
  }
  void looked(T value) const { polled(p, &value, sizeof value); }
  void wake() const { wake_at({p, false}); }

  T fetch(Order order) const { return std::atomic_ref<T>(*p).load(order); }
  void set(T value, Order order) const { std::atomic_ref<T>(*p).store(value, order); }
  T swap(T value) const { return std::atomic_ref<T>(*p).exchange(value); }
  bool compare_swap(T &seen, T value, Order order) const {
    return std::atomic_ref<T>(*p).compare_exchange_strong(seen, value, order);
  }
  template <Amo op> T fetch_op(T value, Order order = Order::seq_cst) const {
    const std::atomic_ref<T> object(*p);
    if constexpr (op == Amo::add) return object.fetch_add(value, order);
    if constexpr (op == Amo::and_) return object.fetch_and(value, order);
    if constexpr (op == Amo::or_) return object.fetch_or(value, order);
    if constexpr (op == Amo::xor_) return object.fetch_xor(value, order);
  }
  template <Amo op> void update(T value) const { fetch_op<op>(value); }
};

template <class T> class DeviceObject {
  T *p;
  MappedObject<T> mapped() const { return MappedObject<T>(p); }
  bool alone() const { return out_of_reach(p); } // the GPU has to do it
  T ask(Amo op, T value = T{}, T cond = T{}) const {
    using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    static_assert(sizeof(T) == sizeof(Word));
    return std::bit_cast<T>(Word(gpu::atomic(Operation::of_atomic(
        op, sizeof(T), p, std::bit_cast<Word>(value), std::bit_cast<Word>(cond)))));
  }
  void move(T *d, const T *s, size_t n, bool later) const {
    if (later && out_of_reach(d, s))
      gpu::start_copy(d, s, n * sizeof(T));
    else
      copy(d, s, n * sizeof(T));
  }

public:
  using Order = std::memory_order;
  explicit DeviceObject(T *p) : p(p) {}
  void put(const T *source, size_t n, bool later) const { move(p, source, n, later); }
  void get(T *dest, size_t n, bool later) const { move(dest, p, n, later); }
  void put_first(const T *source, size_t n) const { move(p, source, n, false); }
  void push(const T *source, size_t n) const { move(p, source, n, false); }
  void put_blocks(const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize,
                  size_t nblocks) const {
    if (!out_of_reach(p, source)) return mapped().put_blocks(source, dst, sst, bsize, nblocks);
    gpu::copy_2d(p, size_t(dst) * sizeof(T), source, size_t(sst) * sizeof(T), bsize * sizeof(T),
                 nblocks);
  }
  void get_blocks(T *dest, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks) const {
    if (!out_of_reach(p, dest)) return mapped().get_blocks(dest, dst, sst, bsize, nblocks);
    gpu::copy_2d(dest, size_t(dst) * sizeof(T), p, size_t(sst) * sizeof(T), bsize * sizeof(T),
                 nblocks);
  }
  T load() const {
    if (!alone()) return mapped().load();
    T value;
    gpu::copy(&value, p, sizeof value);
    return value;
  }
  void store(T value) const {
    if (!alone()) return mapped().store(value);
    gpu::copy(p, &value, sizeof value);
  }
  void looked(T value) const { mapped().looked(value); }
  void wake() const { mapped().wake(); }

  T fetch(Order order) const { return alone() ? ask(Amo::fetch) : mapped().fetch(order); }
  void set(T value, Order order) const {
    alone() ? void(ask(Amo::set, value)) : mapped().set(value, order);
  }
  T swap(T value) const { return alone() ? ask(Amo::swap, value) : mapped().swap(value); }
  bool compare_swap(T &seen, T value, Order order) const {
    if (!alone()) return mapped().compare_swap(seen, value, order);
    const T before = std::exchange(seen, ask(Amo::compare_swap, value, seen));
    return !memcmp(&before, &seen, sizeof before);
  }
  template <Amo op> T fetch_op(T value, Order order = Order::seq_cst) const {
    return alone() ? ask(op, value) : mapped().template fetch_op<op>(value, order);
  }
  template <Amo op> void update(T value) const { fetch_op<op>(value); }
};

// The PE's address of the object is not known here: p is this PE's own.
template <class T> class RemoteObject {
  T *p;
  int pe;
  using Word = std::conditional_t<
      sizeof(T) == 1, uint8_t,
      std::conditional_t<sizeof(T) == 2, uint16_t,
                         std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
  static uint64_t word(T value) {
    static_assert(sizeof(T) == sizeof(Word));
    return std::bit_cast<Word>(value);
  }
  T ask(Amo op, T value = T{}, T cond = T{}) const {
    const auto o = Operation::of_atomic(op, sizeof(T), p, word(value), word(cond));
    return std::bit_cast<T>(Word(net::atomic(o, pe)));
  }

public:
  using Order = std::memory_order;
  RemoteObject(T *p, int pe) : p(p), pe(pe) {}
  void put(const T *source, size_t n, bool later) const {
    net::put(p, pe, source, one_block(n * sizeof(T)), later);
  }
  void get(T *dest, size_t n, bool later) const {
    net::get(dest, p, pe, one_block(n * sizeof(T)), later);
  }
  void put_first(const T *source, size_t n) const {
    net::put_in_order(p, pe, source, n * sizeof(T));
  }
  void push(const T *source, size_t n) const { put(source, n, true); }
  void put_blocks(const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize,
                  size_t nblocks) const {
    const Blocks b{bsize * sizeof(T), nblocks, dst * sizeof(T), sst * sizeof(T)};
    net::put(p, pe, source, b, false);
  }
  void get_blocks(T *dest, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks) const {
    const Blocks b{bsize * sizeof(T), nblocks, sst * sizeof(T), dst * sizeof(T)};
    net::get(dest, p, pe, b, false);
  }
  T load() const {
    T value;
    get(&value, 1, false);
    return value;
  }
  void store(T value) const {
    if constexpr (sizeof(T) <= 8)
      update<Amo::set>(value);
    else
      put(&value, 1, false);
  }
  void looked(T) const {}
  void wake() const {} // the thread that does it there wakes them

  T fetch(Order) const { return ask(Amo::fetch); }
  void set(T value, Order) const { update<Amo::set>(value); }
  T swap(T value) const { return ask(Amo::swap, value); }
  bool compare_swap(T &seen, T value, Order) const {
    const uint64_t before = word(seen);
    seen = ask(Amo::compare_swap, value, seen);
    return word(seen) == before;
  }
  template <Amo op> T fetch_op(T value, Order = {}) const { return ask(op, value); }
  // The other node sends no old value back. The next quiet completes the update.
  template <Amo op> void update(T value) const {
    net::atomic_later(Operation::of_atomic(op, sizeof(T), p, word(value)), pe);
  }
};

// Calls f(the object of PE pe). p is the object here; there: where PE pe's object is mapped, or
// null. Not for the fast path, which knows that the object is mapped.
template <class T, class F> auto with_object(T *there, T *p, int pe, F f) {
  if constexpr (net::built)
    if (!there) return f(RemoteObject<T>(p, pe));
  if (self.careful) return f(DeviceObject<T>(there));
  return f(MappedObject<T>(there));
}

// Completion of operations that this thread began and others carry out. The GPU's copies and the
// requests of kernels count for all contexts. Operations at other nodes count for all contexts, or
// for the created context `only`.
inline void finish_gpu() {
  gpu::finish_ring();
  gpu::finish();
}
inline uint64_t last_begun(Context *only) {
  return only ? std::atomic_ref(only->begun).load(std::memory_order_relaxed) : net::last_begun();
}
inline void finish(Context *only = nullptr) {
  finish_gpu();
  only ? net::quiet(last_begun(only)) : net::quiet();
}
// The same, at these PEs alone, which are not mapped.
inline void finish_at(const int *pes, size_t n, Context *only) {
  finish_gpu();
  if (n) net::quiet_at(pes, n, last_begun(only));
}

} // namespace shmem

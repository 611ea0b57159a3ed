// SPDX-License-Identifier: MIT
// What a source with kernels includes. In kernels, the shmem_ routines below work on the device
// heap as on the host: same names, same arguments, called by one thread. shmemx_..._wave and
// shmemx_..._wg are called by all threads of a wave or workgroup, with the same arguments. In host
// functions the names mean the library's, as ever.
#pragma once
#include <hip/hip_runtime.h>
#include <shmemx.h>

#include "amo.hpp"
#include "collectives.hpp"
#include "module.hpp"
#include "order.hpp"
#include "rma.hpp"
#include "signal.hpp"
#include "sync.hpp"
#include "team.hpp"
#include "wait.hpp"

namespace shmem {

// With a scope of the caller's own. What each does is said in rma.hpp, signal.hpp and sync.hpp.
template <Cache cache = Cache::keep, class T, class Scope = Thread>
SHMEM_D_ void put(T *dest, const T *source, size_t n, int pe, Scope scope = {}) {
  device::put<cache>("shmem::put", device::World{}, dest, source, n, pe, scope);
}
template <Cache cache = Cache::keep, class T, class Scope = Thread>
SHMEM_D_ void put_nbi(T *dest, const T *source, size_t n, int pe, Scope scope = {}) {
  device::put_nbi<cache>("shmem::put_nbi", device::World{}, dest, source, n, pe, scope);
}
template <Cache cache = Cache::keep, class T, class Scope = Thread>
SHMEM_D_ void get(T *dest, const T *source, size_t n, int pe, Scope scope = {}) {
  device::get<cache>("shmem::get", device::World{}, dest, source, n, pe, scope);
}
template <Cache cache = Cache::keep, class T, class Scope = Thread>
SHMEM_D_ void get_nbi(T *dest, const T *source, size_t n, int pe, Scope scope = {}) {
  device::get_nbi<cache>("shmem::get_nbi", device::World{}, dest, source, n, pe, scope);
}
template <Cache cache = Cache::keep, class T, class Scope = Thread>
SHMEM_D_ void put_signal(T *dest, const T *source, size_t n, uint64_t *sig_addr, uint64_t signal,
                         int sig_op, int pe, Scope scope = {}) {
  device::put_signal<cache>("shmem::put_signal", device::World{}, dest, source, n, sig_addr, signal,
                            sig_op, pe, scope);
}
template <class Scope = Thread> SHMEM_D_ void barrier(shmem_team_t team, Scope scope = {}) {
  device::team_barrier("shmem::barrier", team, scope);
}
template <class Scope = Thread> SHMEM_D_ void sync(shmem_team_t team, Scope scope = {}) {
  device::team_sync("shmem::sync", team, scope);
}
// The barrier of a scope, before which every thread's stores have left: a release of one of them
// after it covers those of all.
template <class Scope = Workgroup> SHMEM_D_ void settle(Scope scope = {}) {
  device::settle(scope);
}

// One atomic access to an element of PE pe, with the order and range that the caller chooses. Of a
// wrong type, one error, and none from inside.
template <class T>
inline constexpr bool is_word = sizeof(T) <= 8 && (sizeof(T) & (sizeof(T) - 1)) == 0;
template <class T>
inline constexpr bool is_integer = std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);
template <Order order = Order::relaxed, Range range = Range::system, class T>
SHMEM_D_ T load(const T *source, int pe) {
  static_assert(is_word<T>, "shmem::load and shmem::store are of a type of 1, 2, 4 or 8 bytes");
  if constexpr (is_word<T>)
    return arch::load<order, range>(device::at("shmem::load", "source", source, 1, pe));
  else
    return *source;
}
template <Order order = Order::relaxed, Range range = Range::system, class T>
SHMEM_D_ void store(T *dest, T value, int pe) {
  static_assert(is_word<T>, "shmem::load and shmem::store are of a type of 1, 2, 4 or 8 bytes");
  if constexpr (is_word<T>)
    arch::store<order, range>(device::at("shmem::store", "dest", dest, 1, pe), value);
}
template <Order order = Order::relaxed, Range range = Range::system, class T>
SHMEM_D_ T fetch_add(T *dest, T value, int pe) {
  static_assert(is_integer<T>, "shmem::fetch_add is of an integer of 4 or 8 bytes");
  if constexpr (is_integer<T>)
    return arch::fetch_add<order, range>(device::at("shmem::fetch_add", "dest", dest, 1, pe),
                                         value);
  else
    return value;
}

} // namespace shmem

#include <shmem/device_api.hpp> // generated: the shmem_ names

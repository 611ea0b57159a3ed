// SPDX-License-Identifier: MIT
// The C++ overloads: a type picks its routine, std::complex included; statics of C++ are symmetric.
#include <complex>
#include <cstdint>
#include <shmem.h>
#include <type_traits>

extern "C" {
#include "harness.h"
}

namespace {

template <class T> struct Box {
  static T value; // a static member of a template is symmetric, too
};
template <class T> T Box<T>::value;
thread_local int not_symmetric;
int in_namespace;

template <class T> void rma() {
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  T *heap = static_cast<T *>(shmem_malloc(4 * sizeof(T)));
  const T source[4] = {T(1 + me), T(2), T(3), T(4)};
  shmem_put(heap, source, 4, right);
  shmem_p(&Box<T>::value, T(me + 9), right);
  shmem_barrier_all();
  CHECK(heap[0] == T(1 + left) && heap[3] == T(4), "put");
  CHECK(Box<T>::value == T(left + 9), "p");
  static_assert(std::is_same<decltype(shmem_g(heap, 0)), T>::value, "type of g");
  CHECK(shmem_g(heap, right) == T(1 + me), "g");
  T got[4] = {};
  shmem_get(SHMEM_CTX_DEFAULT, got, heap, 4, right);
  CHECK(got[0] == T(1 + me) && got[2] == T(3), "get");
  shmem_get_nbi(got + 1, heap, 1, right);
  shmem_quiet();
  CHECK(got[1] == T(1 + me), "get_nbi");
  shmem_barrier_all();
  shmem_free(heap);
}

void all_types() {
  rma<float>();
  rma<double>();
  rma<long double>();
  rma<char>();
  rma<signed char>();
  rma<unsigned char>();
  rma<short>();
  rma<unsigned short>();
  rma<int>();
  rma<unsigned>();
  rma<long>();
  rma<unsigned long>();
  rma<long long>();
  rma<unsigned long long>();
  rma<std::int8_t>();
  rma<std::uint64_t>();
  rma<std::size_t>();
  rma<std::ptrdiff_t>();
  CHECK(shmem_addr_accessible(&in_namespace, 0) == 1, "a variable of a namespace");
  CHECK(shmem_addr_accessible(&not_symmetric, 0) == 0, "a variable of a thread");
}

template <class T> void amo() {
  T *heap = static_cast<T *>(shmem_calloc(1, sizeof(T)));
  for (int pe = 0; pe < npes; pe++) shmem_atomic_add(heap, T(2), pe);
  shmem_atomic_inc(SHMEM_CTX_DEFAULT, heap, me);
  shmem_barrier_all();
  CHECK(shmem_atomic_fetch(heap, me) == T(2 * npes + 1), "add");
  static_assert(std::is_same<decltype(shmem_atomic_swap(heap, T(1), 0)), T>::value, "type");
  CHECK(shmem_atomic_compare_swap(heap, T(2 * npes + 1), T(50), me) == T(2 * npes + 1), "cswap");
  shmem_wait_until(heap, SHMEM_CMP_EQ, T(50));
  CHECK(shmem_test(heap, SHMEM_CMP_GT, T(49)) == 1, "test");
  shmem_barrier_all();
  shmem_free(heap);
}

void atomics() {
  amo<int>();
  amo<unsigned>();
  amo<long>();
  amo<unsigned long>();
  amo<long long>();
  amo<unsigned long long>();
}

template <class R> void complex_reduce() {
  using C = std::complex<R>;
  C *in = static_cast<C *>(shmem_malloc(3 * sizeof(C)));
  C *out = static_cast<C *>(shmem_malloc(3 * sizeof(C)));
  for (int i = 0; i < 3; i++) in[i] = C(R(me + i), R(-me));
  CHECK(shmem_sum_reduce(SHMEM_TEAM_WORLD, out, static_cast<const C *>(in), 3) == 0, "sum");
  const R n = R(npes), all = R(npes * (npes - 1) / 2);
  for (int i = 0; i < 3; i++) CHECK(out[i] == C(all + R(i) * n, -all), "sum [%d]", i);
  CHECK(shmem_sum_inscan(SHMEM_TEAM_WORLD, out, in, 3) == 0, "inscan");
  const R part = R(me * (me + 1) / 2);
  CHECK(out[1] == C(part + R(me + 1), -part), "inscan");
  CHECK(shmem_sum_exscan(SHMEM_TEAM_WORLD, out, in, 3) == 0, "exscan");
  if (me == 0) CHECK(out[2] == C(0), "exscan begins with 0");
  shmem_barrier_all();
  in[0] = C(0, 1);
  CHECK(shmem_prod_reduce(SHMEM_TEAM_WORLD, out, in, 1) == 0, "prod");
  C want(1);
  for (int pe = 0; pe < npes; pe++) want *= C(0, 1);
  CHECK(out[0] == want, "prod");
  shmem_barrier_all();
  shmem_free(out);
  shmem_free(in);
}

void reductions() {
  complex_reduce<double>();
  complex_reduce<float>();
  static int in, out;
  in = me;
  CHECK(shmem_max_reduce(SHMEM_TEAM_WORLD, &out, &in, 1) == 0 && out == npes - 1, "max");
  CHECK(shmem_broadcast(SHMEM_TEAM_WORLD, &out, &in, 1, npes - 1) == 0 && out == npes - 1, "bcast");
  CHECK(shmem_sync(SHMEM_TEAM_WORLD) == 0, "sync of a team");
  static long psync[SHMEM_SYNC_SIZE];
  shmem_sync(0, 0, npes, psync);
  shmem_barrier_all();
}

const pe_test tests[] = {
    {"all types", all_types}, {"atomics", atomics}, {"reductions", reductions}};

} // namespace

int main() {
  const pe_list all = {"", tests, sizeof tests / sizeof *tests};
  return pe_run("C++", &all, 1);
}

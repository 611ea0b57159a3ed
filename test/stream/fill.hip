// SPDX-License-Identifier: MIT
// Memory filled on a stream: every element of every type and at every alignment, and nothing beside
// them; random numbers against Philox's published vectors, and the same on each PE.
#include "../../device/philox.hpp" // before cmocka.h, which has a macro fail

#include "stream.hpp"
#include <cmath>
#include <vector>

namespace {

using shmem::Bfloat16, shmem::Half;

constexpr size_t room = 1 << 20, guard = 64;
char *area;
std::vector<char> seen;

// Calls f with each number of elements and each place in the first 16 bytes.
template <class T, class F> void at_each_place(F f) {
  for (size_t n : {0, 1, 2, 3, 5, 8, 15, 16, 17, 33, 100, 1023, 40001})
    for (size_t off = 0; off<16 / sizeof(T); off += n> 100 ? 3 : 1) {
      T *dest = reinterpret_cast<T *>(area + guard) + off;
      HIP(hipMemset(area, 0x5b, 2 * guard + (off + n) * sizeof(T)));
      HIP(hipDeviceSynchronize());
      f(dest, n);
      HIP(hipStreamSynchronize(stream));
      seen.resize(2 * guard + n * sizeof(T));
      from_device(seen.data(), reinterpret_cast<char *>(dest) - guard, seen.size());
      for (size_t i = 0; i < guard; i++)
        CHECK(seen[i] == 0x5b && seen[seen.size() - 1 - i] == 0x5b,
              "%zu elements of %zu bytes at %zu: byte %zu beside them", n, sizeof(T), off, i);
    }
}
// For at_each_place: the routine, and then the check of each element.
template <class T, class F, class W> void each(F call, W want, const char *what) {
  at_each_place<T>([&](T *dest, size_t n) {
    call(dest, n);
    HIP(hipStreamSynchronize(stream));
    std::vector<T> got(n + 1);
    from_device(got.data(), dest, n * sizeof(T));
    for (size_t i = 0; i < n; i++) {
      const T w = want(i);
      CHECK(!memcmp(&got[i], &w, sizeof w), "%s: element %zu of %zu of %zu bytes", what, i, n,
            sizeof(T));
    }
  });
}

template <class T> void fills(T value, T step) {
  each<T>([&](T *dest, size_t n) { shmemx_fill_on_stream(dest, value, n, stream); },
          [&](size_t) { return value; }, "fill");
  each<T>([&](T *dest, size_t n) { shmemx_iota_on_stream(dest, value, step, n, stream); },
          [&](size_t i) {
            if constexpr (std::is_floating_point_v<T>)
              return T(std::fma(double(step), double(i), double(value)));
            else
              return T(uint64_t(value) + uint64_t(i) * uint64_t(step));
          },
          "iota");
}
void all_types() {
  fills<char>('a', 3);
  fills<signed char>(-7, -1);
  fills<unsigned char>(200, 7);
  fills<short>(-30000, -11);
  fills<unsigned short>(65000, 13);
  fills<int>(-5, 1 << 20);
  fills<unsigned>(~0u, 3);
  fills<long>(-1, -2);
  fills<unsigned long>(1ul << 63, 5);
  fills<long long>(4, 1ll << 40);
  fills<unsigned long long>(3, 9);
  fills<float>(0.1f, 0.3f);
  fills<double>(1e-300, 0.7);
}

// Of the table of Random123, kat_vectors, philox 4x32 10.
void vectors() {
  const struct {
    shmem::random::PhiloxBlock counter;
    uint32_t key[2];
    uint32_t want[4];
  } known[] = {
      {{{0, 0, 0, 0}}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{{~0u, ~0u, ~0u, ~0u}}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const auto &k : known) {
    const auto got = shmem::random::philox(k.counter, k.key[0], k.key[1]);
    for (int i = 0; i < 4; i++)
      CHECK(got.word[i] == k.want[i], "word %d is %x, want %x", i, got.word[i], k.want[i]);
  }
}

template <class T, class F> void numbers(F call, const char *what) {
  for (uint64_t first : {uint64_t(0), uint64_t(1), uint64_t(6), (uint64_t(1) << 34) - 3}) {
    each<T>([&](T *dest, size_t n) { call(dest, n, first); },
            [&](size_t i) {
              return shmem::random::Sequence(0x123456789abcdef0).template number<T>(first + i);
            },
            what);
  }
}
void random_numbers() {
  constexpr uint64_t seed = 0x123456789abcdef0;
#define NUMBERS(word, T)                                                                           \
  numbers<T>(                                                                                      \
      [](T *dest, size_t n, uint64_t first) {                                                      \
        shmemx_##word##_random_on_stream(dest, n, seed, first, stream);                            \
      },                                                                                           \
      #word)
  NUMBERS(uint8, uint8_t);
  NUMBERS(short, short);
  NUMBERS(int, int);
  NUMBERS(ulong, unsigned long);
  NUMBERS(float, float);
  NUMBERS(double, double);
  NUMBERS(half, Half);
  NUMBERS(bfloat16, Bfloat16);
#undef NUMBERS
  // Each PE makes its part; together they are what one makes alone.
  constexpr size_t n = 4096;
  float *all = reinterpret_cast<float *>(area), *own = all + n;
  const size_t begin = n * size_t(me) / size_t(npes), end = n * size_t(me + 1) / size_t(npes);
  shmemx_float_random_on_stream(all, n, 7, 0, stream);
  shmemx_float_random_on_stream(own + begin, end - begin, 7, begin, stream);
  HIP(hipStreamSynchronize(stream));
  std::vector<float> whole(n), part(n);
  from_device(whole.data(), all, n * sizeof(float));
  from_device(part.data() + begin, own + begin, (end - begin) * sizeof(float));
  double mean = 0;
  for (size_t i = 0; i < n; i++) {
    CHECK(whole[i] >= 0 && whole[i] < 1, "%g is not in [0, 1)", double(whole[i]));
    mean += double(whole[i]) / n;
    if (i >= begin && i < end)
      CHECK(whole[i] == part[i], "number %zu is another one of PE %d", i, me);
  }
  CHECK(mean > 0.48 && mean < 0.52, "the mean is %g", mean); // 4.4 deviations
}

// A value of the root's, in a graph as well, from each root in turn.
void values() {
  constexpr size_t n = 777;
  int *dest = reinterpret_cast<int *>(area);
  for (int root = 0; root < npes; root++) {
    HIP(hipMemset(area, 0, room));
    finish_all();
    CHECK(shmemx_broadcast_value_on_stream(SHMEM_TEAM_WORLD, dest, me * 10 + 5, n, root, stream) ==
              0,
          "root %d", root);
    HIP(hipStreamSynchronize(stream));
    int got[n + 1];
    from_device(got, dest, sizeof got);
    for (size_t i = 0; i < n; i++)
      CHECK(got[i] == root * 10 + 5, "element %zu is %d of root %d", i, got[i], root);
    CHECK(got[n] == 0, "an element behind them is %d", got[n]);
    shmem_barrier_all();
  }
}

void set_up() {
  area = device_alloc(room, 0);
  all_types();
}
void end() {
  values();
  object_free(area);
}

struct pe_test tests[] = {{"philox", vectors},
                          {"fill and iota of all types", set_up},
                          {"random numbers", random_numbers},
                          {"a value of the host's", end}};

} // namespace

extern "C" {
extern struct pe_list stream_fill_lists[];
extern const size_t stream_fill_count;
struct pe_list stream_fill_lists[] = {PE_LIST("", tests)};
const size_t stream_fill_count = 1;
}

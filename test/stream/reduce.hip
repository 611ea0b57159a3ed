// SPDX-License-Identifier: MIT
// Every reduction and scan on a stream, of every type, by both algorithms: bit for bit the sum in
// the order of the members, of whole and ragged lengths, aligned and not.
#include "poison.hpp"
#include "stream.hpp"

#include <cmath>
#include <shmem/device/op.hpp>

namespace {

using shmem::Bfloat16, shmem::Half;
enum Shape { all, scatter, inscan, exscan };

// The types are wide when they are combined, by the definitions of the formats.
template <class T> struct Format {
  using Wide = T;
  static Wide widen(T v) { return v; }
  static T narrow(Wide v) { return v; }
};
template <class T, int exponent_bits> struct Small { // a sign, an exponent, a part
  static constexpr int part_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  using Wide = float;
  static float widen(T v) {
    const int e = v.bits >> part_bits & ((1 << exponent_bits) - 1),
              part = v.bits & ((1 << part_bits) - 1);
    const double size = e ? std::ldexp((1 << part_bits) + part, e - bias - part_bits)
                          : std::ldexp(part, 1 - bias - part_bits);
    return float(v.bits & 0x8000 ? -size : size);
  }
  static T
  narrow(float f) { // finite and in range; the current rounding is to nearest, ties to even
    int e;
    const double size = std::fabs(double(f));
    std::frexp(size, &e);
    if (size == 0 || e < 2 - bias) e = 2 - bias;
    const double unit = std::ldexp(1, e - 1 - part_bits), steps = std::nearbyint(size / unit);
    const int bits = int(steps) + ((e - 2 + bias) << part_bits);
    return T{uint16_t((std::signbit(f) ? 0x8000 : 0) | bits)};
  }
};
template <> struct Format<Half> : Small<Half, 5> {};
template <> struct Format<Bfloat16> : Small<Bfloat16, 8> {};

// Sums of floating-point numbers round at every step; products stay exact, because a GPU may fuse
// the parts of a complex one.
template <class T, class Op> T value(int pe, size_t i) {
  uint64_t seed = uint64_t(pe) * 1000003 + i * 7919 + 12345;
  const uint64_t random = pe_random(&seed);
  const bool exact = std::is_same<Op, shmem::Prod>::value;
  const double small = double(1 + random % 2), any = double(int64_t(random % 20001) - 10000) / 997;
  if constexpr (std::is_integral<T>::value)
    return T(random >> 7);
  else if constexpr (std::is_floating_point<T>::value)
    return T(exact ? small : any);
  else if constexpr (sizeof(T) == 2)
    return Format<T>::narrow(float(exact ? small : any));
  else
    return {decltype(T::re)(exact ? small : any), decltype(T::im)(exact ? 1 - small : any / 3)};
}
template <class T, class Op> T expected(Shape shape, const struct pe_team &t, size_t n, size_t i) {
  using F = Format<T>;
  typename F::Wide acc{};
  const size_t at = shape == scatter ? size_t(t.me) * n + i : i;
  const int end = shape == inscan ? t.me + 1 : shape == exscan ? t.me : t.n;
  for (int m = 0; m < end; m++) {
    const typename F::Wide v = F::widen(value<T, Op>(t.pe[m], at));
    acc = m ? Op::op(acc, v) : v;
  }
  return F::narrow(acc);
}

using Call = int (*)(shmem_team_t, void *, const void *, size_t, shmemx_stream_t);
constexpr size_t most = 1500, room = (most + 64) * 16 * 8;
char *source, *dest;
char host[room];

template <class T, class Op>
void check_case(const char *name, Shape shape, const struct pe_team &t, char *d, size_t n,
                size_t shift) {
  const size_t bytes = (n + shift + 2) * sizeof(T);
  from_device(host, d, bytes);
  const T *got = reinterpret_cast<const T *>(host) + shift;
  for (size_t i = 0; i < n; i++) {
    const T want = expected<T, Op>(shape, t, n, i);
    CHECK(!memcmp(got + i, &want, sizeof want),
          "%s, team %s: element %zu of %zu, shift %zu: 0x%llx, want 0x%llx", name, t.name, i, n,
          shift,
          *reinterpret_cast<const unsigned long long *>(got + i) &
              (~0ull >> (64 - 8 * (sizeof(T) < 8 ? sizeof(T) : 8))),
          [&] {
            unsigned long long w = 0;
            memcpy(&w, &want, sizeof w < sizeof want ? sizeof w : sizeof want);
            return w;
          }());
  }
  for (size_t i = 0; i < bytes; i++)
    if (i < shift * sizeof(T) || i >= (shift + n) * sizeof(T))
      CHECK(host[i] == 0x55, "%s: byte %zu beside dest", name, i);
}

// Calls that follow each other with nothing between.
template <class T, class Op>
void run(const char *name, Call call, Shape shape, const struct pe_team &t, int turn) {
  static const size_t sizes[] = {1, 37, 700, 0};
  constexpr int cases = 8;
  constexpr size_t part = room / cases & ~size_t(63);
  static_assert(part >= 740 * 16 || cases > 0, "room for every case");
  HIP(hipMemset(dest, 0x55, room));
  const size_t count = 740 * (shape == scatter ? size_t(t.n) : 1);
  T *mine = reinterpret_cast<T *>(host);
  for (size_t i = 0; i < count; i++) mine[i] = value<T, Op>(me, i);
  to_device(source, mine, count * sizeof(T));
  to_device(source + room + sizeof(T), mine, count * sizeof(T)); // not aligned
  constexpr size_t packs = (700 * sizeof(T) + 15) / 16;
  if (t.me >= 0) poison(t.team, packs, stream);
  finish_all();
  size_t ns[cases], shifts[cases];
  for (int k = 0; k < cases && t.me >= 0; k++) {
    choose(!(k & 1) ? "lines"
           : k & 4  ? "phases"
           : k & 2  ? "oneshot"
                    : "direct",
           1 + (k >> 1 & 1), k & 4 ? 64 : 128);
    ns[k] = sizes[(k / 2 + turn) % 4];
    shifts[k] = size_t(turn + k) % 3;
    const char *from = (turn + k) & 4 ? source : source + room + sizeof(T);
    CHECK(call(t.team, dest + size_t(k) * part + shifts[k] * sizeof(T), from, ns[k], stream) == 0,
          "%s", name);
  }
  HIP(hipStreamSynchronize(stream));
  if (t.me >= 0)
    CHECK(poison_spoilt(t.team, packs, stream) == 0, "%s, team %s: words behind the messages", name,
          t.name);
  for (int k = 0; k < cases && t.me >= 0; k++)
    check_case<T, Op>(name, shape, t, dest + size_t(k) * part, ns[k], shifts[k]);
  finish_all();
}

struct Row {
  const char *name;
  Call call;
  Shape shape;
  void (*run)(const char *, Call, Shape, const struct pe_team &, int);
};
template <class T, bool = std::is_integral<T>::value> struct Same { using type = T; };
template <class T> struct Same<T, true> { // one instance for all integers of a size and sign
  template <class S, class U>
  using pick = typename std::conditional<std::is_signed<T>::value, S, U>::type;
  using type = typename std::conditional<
      sizeof(T) == 1, pick<int8_t, uint8_t>,
      typename std::conditional<sizeof(T) == 2, pick<int16_t, uint16_t>,
                                typename std::conditional<sizeof(T) == 4, pick<int32_t, uint32_t>,
                                                          pick<int64_t, uint64_t>>::type>::type>::
      type;
};
const Row rows[] = {
#define ROW(name, T, Op, shape)                                                                    \
  {#name, reinterpret_cast<Call>(reinterpret_cast<void *>(name)), shape,                           \
   run<Same<T>::type, shmem::Op>},
#include "stream_table.inc"
#undef ROW
};

void with_buffers(void (*body)()) {
  source = device_alloc(2 * room, 0x55);
  dest = device_alloc(room, 0x55);
  body();
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  object_free(dest);
  object_free(source);
}
struct pe_team world() {
  struct pe_team t = {"world", SHMEM_TEAM_WORLD, npes, me, {}};
  for (int i = 0; i < npes; i++) t.pe[i] = i;
  return t;
}

void every_reduction(void) {
  with_buffers([] {
    int turn = 0;
    for (const Row &r : rows) r.run(r.name, r.call, r.shape, world(), turn++);
  });
}
void every_team(void) {
  with_buffers([] {
    struct pe_team teams[16];
    const size_t n = pe_teams(teams, COUNT(teams));
    for (size_t t = 0; t < n; t++)
      for (size_t r = t % 7; r < COUNT(rows); r += 61)
        rows[r].run(rows[r].name, rows[r].call, rows[r].shape, teams[t], int(r));
    pe_teams_free(teams, n);
  });
}

struct pe_test tests[] = {{"every reduction and scan of every type", every_reduction},
                          {"reductions of all kinds of teams", every_team}};

} // namespace

extern "C" {
extern struct pe_list stream_reduce_lists[];
extern const size_t stream_reduce_count;
struct pe_list stream_reduce_lists[] = {PE_LIST("", tests)};
const size_t stream_reduce_count = 1;
}

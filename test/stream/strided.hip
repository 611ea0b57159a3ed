// SPDX-License-Identifier: MIT
// Strided elements and blocks on a stream, of every size, by the routines with a type and the
// generic names: everything in its place, and every gap left alone.
#include "stream.hpp"

#include <vector>

namespace {

// Bytes, strides and blocks in elements of unit bytes.
struct Case {
  size_t unit;
  ptrdiff_t dst, sst;
  size_t block, n, off; // off: where the private side begins, of sized routines at any byte
};
const Case cases[] = {
    {1, 2, 1, 1, 700, 0},     {1, 3, 5, 1, 1, 0},
    {1, 1, 1, 1, 333, 3},     {2, 3, 2, 1, 301, 0},
    {2, 2, 7, 1, 64, 1},      {4, 2, 3, 1, 1000, 0},
    {4, 5, 1, 1, 65, 2},      {8, 2, 2, 1, 2000, 0},
    {8, 9, 4, 1, 17, 4},      {16, 2, 3, 1, 257, 0},
    {16, 2, 1, 1, 31, 8},     {16, 3, 2, 1, 9, 5},
    {4, 1, 1, 1, 0, 0},       {1, 5, 7, 3, 97, 0},
    {1, 40, 33, 32, 40, 1},   {2, 4, 5, 3, 50, 0},
    {4, 4, 4, 4, 30, 0},      {4, 7, 5, 4, 99, 0},
    {4, 33, 40, 33, 20, 0},   {8, 3, 2, 2, 200, 0},
    {8, 301, 300, 299, 9, 0}, {8, 20000, 20001, 20000, 2, 0},
    {16, 3, 3, 2, 33, 8},     {1, 70001, 70003, 70001, 3, 2},
    {4, 5, 5, 0, 7, 0},       {1, 9, 9, 9, 40, 5},
};
constexpr size_t room = 512 << 10;

#define SIZED(name, bytes, ...)                                                                    \
  switch (bytes) {                                                                                 \
  case 1:                                                                                          \
    shmemx_##name##8_on_stream(__VA_ARGS__);                                                       \
    break;                                                                                         \
  case 2:                                                                                          \
    shmemx_##name##16_on_stream(__VA_ARGS__);                                                      \
    break;                                                                                         \
  case 4:                                                                                          \
    shmemx_##name##32_on_stream(__VA_ARGS__);                                                      \
    break;                                                                                         \
  case 8:                                                                                          \
    shmemx_##name##64_on_stream(__VA_ARGS__);                                                      \
    break;                                                                                         \
  default:                                                                                         \
    shmemx_##name##128_on_stream(__VA_ARGS__);                                                     \
    break;                                                                                         \
  }

void by_size(bool put, void *dest, const void *source, const Case &c, int pe) {
  if (c.block == 1) {
    if (put)
      SIZED(iput, c.unit, dest, source, c.dst, c.sst, c.n, pe, stream)
    else
      SIZED(iget, c.unit, dest, source, c.dst, c.sst, c.n, pe, stream)
  } else if (put) {
    SIZED(ibput, c.unit, dest, source, c.dst, c.sst, c.block, c.n, pe, stream)
  } else {
    SIZED(ibget, c.unit, dest, source, c.dst, c.sst, c.block, c.n, pe, stream)
  }
}
template <class T> void by_type(bool put, void *dest, const void *source, const Case &c, int pe) {
  T *d = static_cast<T *>(dest);
  const T *s = static_cast<const T *>(source);
  if (c.block == 1 && put)
    shmemx_iput_on_stream(d, s, c.dst, c.sst, c.n, pe, stream);
  else if (c.block == 1)
    shmemx_iget_on_stream(d, s, c.dst, c.sst, c.n, pe, stream);
  else if (put)
    shmemx_ibput_on_stream(d, s, c.dst, c.sst, c.block, c.n, pe, stream);
  else
    shmemx_ibget_on_stream(d, s, c.dst, c.sst, c.block, c.n, pe, stream);
}

void run(bool put, bool typed) {
  char *symmetric = device_alloc(room, 0x55);
  void *p = nullptr;
  HIP(hipHostMalloc(&p, room, hipHostMallocMapped));
  auto *own = static_cast<unsigned char *>(p);
  std::vector<unsigned char> got(room), want(room);
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  int salt = 0;
  for (const Case &c : cases) {
    if (typed && (c.off % c.unit || c.unit > 8)) continue;
    salt++;
    const size_t bytes = c.unit * c.block;
    unsigned char *d = put ? reinterpret_cast<unsigned char *>(symmetric) + 64 : own + 64 + c.off;
    const unsigned char *s = put ? own + c.off : reinterpret_cast<unsigned char *>(symmetric);
    // The source of the PE that the data comes from, the dest of the one that it goes to: both are
    // here in turn.
    for (size_t i = 0; i < room; i++) got[i] = sample(me, salt, i);
    if (put) {
      memcpy(own, got.data(), room);
      HIP(hipMemset(symmetric, 0x55, room));
    } else {
      memset(own, 0x55, room);
      to_device(symmetric, got.data(), room);
    }
    memset(want.data(), 0x55, room);
    const size_t s_at = put ? c.off : 0, d_at = put ? 64 : 64 + c.off;
    for (size_t i = 0; i < c.n; i++)
      for (size_t b = 0; b < bytes; b++)
        want[d_at + i * size_t(c.dst) * c.unit + b] =
            sample(put ? left : right, salt, s_at + i * size_t(c.sst) * c.unit + b);
    finish_all();
    if (!typed)
      by_size(put, d, s, c, right);
    else if (c.unit == 1)
      by_type<signed char>(put, d, s, c, right);
    else if (c.unit == 2)
      by_type<short>(put, d, s, c, right);
    else if (c.unit == 4)
      by_type<float>(put, d, s, c, right);
    else
      by_type<unsigned long>(put, d, s, c, right);
    finish_all();
    if (put)
      from_device(got.data(), symmetric, room);
    else
      memcpy(got.data(), own, room);
    for (size_t i = 0; i < room; i++)
      CHECK(got[i] == want[i],
            "%s, unit %zu, strides %td %td, %zu blocks of %zu, offset %zu: byte %zu is %u, want %u",
            put ? "put" : "get", c.unit, c.dst, c.sst, c.n, c.block, c.off, i, got[i], want[i]);
    finish_all();
  }
  HIP(hipHostFree(p));
  object_free(symmetric);
}

void put_sized(void) {
  run(true, false);
}
void put_typed(void) {
  run(true, true);
}
void get_sized(void) {
  run(false, false);
}
void get_typed(void) {
  run(false, true);
}

// In a graph: nothing of the call is on the host when it runs.
void replayed(void) {
  constexpr size_t n = 50;
  int *x = reinterpret_cast<int *>(device_alloc(3 * n * sizeof(int), 0)),
      *y = reinterpret_cast<int *>(device_alloc(2 * n * sizeof(int), 0));
  std::vector<int> host(3 * n);
  hipGraph_t graph;
  hipGraphExec_t exec;
  const int right = (me + 1) % npes;
  HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  shmemx_iput_on_stream(y, x, 2, 3, n, right, stream); // of the left one, every third
  shmemx_barrier_all_on_stream(stream);
  shmemx_ibget_on_stream(x + 1, y, 3, 2, 1, n, right,
                         stream); // of this one, by the right one, behind what it came from
  shmemx_barrier_all_on_stream(stream);
  HIP(hipStreamEndCapture(stream, &graph));
  HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  for (int r = 0; r < 20; r++) {
    for (size_t i = 0; i < 3 * n; i++) host[i] = r * 1000 + me * 200 + int(i);
    to_device(x, host.data(), 3 * n * sizeof(int));
    finish_all();
    HIP(hipGraphLaunch(exec, stream));
    HIP(hipStreamSynchronize(stream));
    from_device(host.data(), x, 3 * n * sizeof(int));
    for (size_t i = 0; i < 3 * n; i++) {
      const int want = r * 1000 + me * 200 + int(i % 3 == 1 ? i - 1 : i);
      CHECK(host[i] == want, "replay %d: %zu is %d, want %d", r, i, host[i], want);
    }
    finish_all();
  }
  HIP(hipGraphExecDestroy(exec));
  HIP(hipGraphDestroy(graph));
  object_free(y);
  object_free(x);
}

struct pe_test tests[] = {{"iput and ibput by size", put_sized},
                          {"iput and ibput by type", put_typed},
                          {"iget and ibget by size", get_sized},
                          {"iget and ibget by type", get_typed},
                          {"strided in a graph", replayed}};

} // namespace

extern "C" {
extern struct pe_list stream_strided_lists[];
extern const size_t stream_strided_count;
struct pe_list stream_strided_lists[] = {PE_LIST("", tests)};
const size_t stream_strided_count = 1;
}

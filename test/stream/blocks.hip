// SPDX-License-Identifier: MIT
// alltoallv and alltoall2d in all their forms, against models that each PE computes of all PEs.
#include <shmem/device/shmem.hpp> // before cmocka.h, which has a macro fail

#include "poison.hpp"
#include "stream.hpp"
#include <unistd.h>
#include <vector>

namespace {

enum Form { on_stream, workgroup, wave, thread, host, forms };
const char *const form_names[] = {"stream", "workgroup", "wave", "thread", "host"};

// A member's block for another, in units.
enum Pattern { some, nothing, to_one, one_idle, many, one_each, patterns };
__host__ __device__ inline size_t count_of(int pattern, int from, int to, int n, unsigned salt) {
  unsigned h = (unsigned(from) * 73u + unsigned(to) * 19u + salt * 101u + 7u) * 2654435761u;
  h ^= h >> 15;
  switch (pattern) {
  case some:
    return h % 3 ? h / 3 % 40 : 0;
  case to_one:
    return unsigned(to) == salt % unsigned(n) ? 1 + h % 90 : 0;
  case one_idle: {
    const int idle = int(salt % unsigned(n));
    return from == idle || to == idle ? 0 : h % 50;
  }
  case many:
    return h % 701;
  case one_each:
    return 1;
  default:
    return 0;
  }
}
constexpr size_t most = 701;
// The offset of a block in source: the last member's block comes first, with a gap before each.
__host__ __device__ inline size_t offset_of(int pattern, int from, int to, int n, unsigned salt) {
  size_t at = 1;
  for (int k = n - 1; k > to; k--) at += count_of(pattern, from, k, n, salt) + 1;
  return at;
}
__host__ __device__ inline unsigned char byte_of(int pe, unsigned salt, size_t i) {
  return static_cast<unsigned char>(i * 131 + (i >> 8) * 17 + size_t(pe) * 29 + salt * 7 + 1);
}

struct Arrays { // of one PE, where the form wants them
  size_t *counts, *offsets, *recv_counts, *recv_offsets;
};
constexpr size_t most_members = 64, array = most_members + 2;

struct Call {
  shmem_team_t team;
  unsigned char *dest;
  const unsigned char *source;
  Arrays a;
  size_t capacity, unit;
};
template <int form> __global__ void __launch_bounds__(256) in_kernel(Call c) {
  const Arrays &a = c.a;
#define ARGUMENTS(T)                                                                               \
  c.team, reinterpret_cast<T *>(c.dest), a.recv_counts, a.recv_offsets, c.capacity,                \
      reinterpret_cast<const T *>(c.source), a.counts, a.offsets
  if constexpr (form == workgroup) {
    if (c.unit == sizeof(int))
      shmemx_int_alltoallv_wg(ARGUMENTS(int));
    else
      shmemx_alltoallvmem_wg(ARGUMENTS(void), c.unit);
  }
  if constexpr (form == wave) shmemx_alltoallvmem_wave(ARGUMENTS(void), c.unit);
  if constexpr (form == thread) shmemx_alltoallvmem(ARGUMENTS(void), c.unit);
}
int call(int form, const Call &c) {
  const Arrays &a = c.a;
  const auto launch = [&](auto kernel, unsigned threads) {
    hipLaunchKernelGGL(kernel, dim3(1), dim3(threads), 0, stream, c);
    HIP(hipGetLastError());
    return 0;
  };
  switch (form) {
  case on_stream:
    if (c.unit == sizeof(double)) return shmemx_alltoallv_on_stream(ARGUMENTS(double), stream);
    return shmemx_alltoallvmem_on_stream(ARGUMENTS(void), c.unit, stream);
  case workgroup:
    return launch(in_kernel<workgroup>, 130);
  case wave:
    return launch(in_kernel<wave>, unsigned(shmem::arch::wave_size));
  case thread:
    return launch(in_kernel<thread>, 1);
  default:
    if (c.unit == sizeof(short)) return shmemx_alltoallv(ARGUMENTS(short));
    return shmemx_alltoallvmem(ARGUMENTS(void), c.unit);
  }
#undef ARGUMENTS
}

size_t room; // bytes of source and dest
unsigned char *source, *dest;
Arrays there, here; // device memory, and the host's
std::vector<unsigned char> bytes, want;

void open() {
  room = (most + 2) * 16 * size_t(std::max(npes, 2)) + 256;
  source = reinterpret_cast<unsigned char *>(device_alloc(room, 0));
  dest = reinterpret_cast<unsigned char *>(device_alloc(room, 0));
  size_t *p;
  HIP(hipMalloc(reinterpret_cast<void **>(&p), 4 * array * sizeof *p));
  there = {p, p + array, p + 2 * array, p + 3 * array};
  static size_t own[4 * array];
  here = {own, own + array, own + 2 * array, own + 3 * array};
  bytes.resize(room), want.resize(room);
}
void close() {
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  HIP(hipFree(there.counts));
  object_free(dest);
  object_free(source);
}

// short_of: so many units less than what comes have room here.
void one(const struct pe_team &t, int form, int pattern, size_t unit, unsigned salt, size_t shift,
         size_t other, size_t short_of) {
  const auto n = size_t(t.n);
  for (size_t i = 0; i < room; i++) bytes[i] = byte_of(me, salt, i);
  to_device(source, bytes.data(), room);
  HIP(hipMemset(dest, 0x55, room));
  std::fill(want.begin(), want.end(), 0x55);
  if (t.me >= 0) poison(t.team, 1, stream);
  finish_all();
  if (t.me < 0) return finish_all();
  size_t end = 0;
  for (int m = 0; m < t.n; m++) end += count_of(pattern, m, t.me, t.n, salt);
  const size_t total = end, capacity = total > short_of ? total - short_of : short_of ? 0 : total;
  for (int m = 0; m < t.n; m++) {
    here.counts[m] = count_of(pattern, t.me, m, t.n, salt);
    here.offsets[m] = offset_of(pattern, t.me, m, t.n, salt);
  }
  std::fill(here.recv_counts, here.recv_counts + 2 * array, size_t(0x5555));
  to_device(there.counts, here.counts, 4 * array * sizeof(size_t));
  const bool by_host = form == host;
  const Call c{t.team, dest + shift, source + other, by_host ? here : there, capacity, unit};
  CHECK(call(form, c) == 0, "%s", form_names[form]);
  HIP(hipStreamSynchronize(stream));
  if (!by_host) from_device(here.counts, there.counts, 4 * array * sizeof(size_t));
  const size_t *got_offsets = here.recv_offsets;
  end = 0;
  for (int m = 0; m < t.n; m++) {
    const size_t count = count_of(pattern, m, t.me, t.n, salt);
    CHECK(here.recv_counts[m] == count && got_offsets[m] == end,
          "%s, team %s, pattern %d, salt %u: %zu units at %zu from %d, want %zu at %zu",
          form_names[form], t.name, pattern, salt, here.recv_counts[m], got_offsets[m], m, count,
          end);
    if (end + count <= capacity)
      for (size_t i = 0; i < count * unit; i++)
        want[shift + end * unit + i] =
            byte_of(t.pe[m], salt, other + offset_of(pattern, m, t.me, t.n, salt) * unit + i);
    end += count;
  }
  CHECK(got_offsets[n] == total && here.recv_counts[n] == 0x5555 && got_offsets[n + 1] == 0x5555,
        "%s, team %s, pattern %d: ends at %zu, want %zu", form_names[form], t.name, pattern,
        got_offsets[n], total);
  CHECK((got_offsets[n] > capacity) == (total > capacity), "an overflow is seen");
  from_device(bytes.data(), dest, room);
  for (size_t i = 0; i < room; i++)
    CHECK(bytes[i] == want[i],
          "%s, team %s, pattern %d, salt %u, unit %zu, shifts %zu %zu, capacity %zu of %zu: byte "
          "%zu is %u, want %u",
          form_names[form], t.name, pattern, salt, unit, shift, other, capacity, total, i, bytes[i],
          want[i]);
  finish_all();
}

void all_forms(void) {
  open();
  struct pe_team teams[16];
  const size_t count = pe_teams(teams, COUNT(teams));
  const size_t units[] = {4, 1, 16, 3, 8, 2, 7, 12};
  unsigned turn = 0;
  for (size_t t = 0; t < count; t++)
    for (int form = 0; form < forms; form++)
      for (int pattern = 0; pattern < patterns; pattern++)
        for (unsigned k = 0; k < 4; k++) {
          turn++;
          if (t > 0 && turn % 11 != 0) continue; // all of the world, some of the others
          const size_t unit = units[(turn + k) % COUNT(units)];
          choose("direct", 1 + turn % 2, turn % 3 ? 64 : 128);
          // Over by one on every third PE, or with no room at all.
          const size_t less = k == 2 && (unsigned(me) + turn) % 3 == 0 ? 1 : k == 3 ? 100000 : 0;
          const size_t align = unit == 4 || unit == 8 || unit == 2 ? unit : 1;
          one(teams[t], form, pattern, unit, turn, (turn % 5) * align, (turn % 7) * align,
              turn % 4 == 3 ? 0 : less);
        }
  pe_teams_free(teams, count);
  close();
}

// A block of rows, by strides of blocks and rows on both sides.
struct Call2d {
  shmem_team_t team;
  unsigned char *dest;
  const unsigned char *source;
  ptrdiff_t dest_block, dest_row, source_block, source_row;
  size_t nelems, nrows;
  bool floats;
};
#define BLOCKS(suffix, ...)                                                                        \
  c.floats                                                                                         \
      ? shmemx_float_alltoall2d##suffix(                                                           \
            c.team, reinterpret_cast<float *>(c.dest), reinterpret_cast<const float *>(c.source),  \
            c.dest_block, c.dest_row, c.source_block, c.source_row, c.nelems, c.nrows __VA_ARGS__) \
      : shmemx_alltoall2dmem##suffix(c.team, c.dest, c.source, c.dest_block, c.dest_row,           \
                                     c.source_block, c.source_row, c.nelems, c.nrows __VA_ARGS__)
template <int form> __global__ void __launch_bounds__(256) in_kernel_2d(Call2d c) {
  if constexpr (form == workgroup) BLOCKS(_wg);
  if constexpr (form == wave) BLOCKS(_wave);
  if constexpr (form == thread) BLOCKS();
}
#define COMMA ,
int call_2d(int form, const Call2d &c) {
  const auto launch = [&](auto kernel, unsigned threads) {
    hipLaunchKernelGGL(kernel, dim3(1), dim3(threads), 0, stream, c);
    HIP(hipGetLastError());
    return 0;
  };
  switch (form) {
  case on_stream:
    return BLOCKS(_on_stream, COMMA stream);
  case workgroup:
    return launch(in_kernel_2d<workgroup>, 130);
  case wave:
    return launch(in_kernel_2d<wave>, unsigned(shmem::arch::wave_size));
  case thread:
    return launch(in_kernel_2d<thread>, 1);
  default:
    return BLOCKS();
  }
}
// Heads against sequence: each PE has `rows` rows of all heads and gets all rows of its heads, or
// the way back. gap: elements between rows.
void transposed(const struct pe_team &t, int form, bool back, bool floats, size_t nelems,
                size_t nrows, size_t gap, size_t shift, size_t other, int salt) {
  for (size_t i = 0; i < room; i++) bytes[i] = byte_of(me, unsigned(salt), i);
  to_device(source, bytes.data(), room);
  HIP(hipMemset(dest, 0x55, room));
  std::fill(want.begin(), want.end(), 0x55);
  if (t.me >= 0) poison(t.team, 1, stream);
  finish_all();
  if (t.me < 0) return finish_all();
  const auto n = ptrdiff_t(t.n), row = ptrdiff_t(nelems + gap), rows = ptrdiff_t(nrows);
  const ptrdiff_t of_all = std::max<ptrdiff_t>(n * row, 1), of_one = std::max<ptrdiff_t>(row, 1),
                  block = std::max<ptrdiff_t>(rows * row, 1);
  Call2d c{t.team, dest + shift, source + other, block, of_one,
           of_one, of_all,       nelems,         nrows, floats};
  if (back) std::swap(c.dest_block, c.source_block), std::swap(c.dest_row, c.source_row);
  CHECK(call_2d(form, c) == 0, "%s", form_names[form]);
  HIP(hipStreamSynchronize(stream));
  const size_t unit = floats ? 4 : 1;
  for (int m = 0; m < t.n; m++)
    for (size_t r = 0; r < nrows; r++)
      for (size_t i = 0; i < nelems * unit; i++)
        want[shift + (size_t(m * c.dest_block) + r * size_t(c.dest_row)) * unit + i] =
            byte_of(t.pe[m], unsigned(salt),
                    other + (size_t(t.me * c.source_block) + r * size_t(c.source_row)) * unit + i);
  from_device(bytes.data(), dest, room);
  for (size_t i = 0; i < room; i++)
    CHECK(bytes[i] == want[i],
          "%s, team %s, %s, %zu rows of %zu%s, gap %zu, shifts %zu %zu: byte %zu is %u, want %u",
          form_names[form], t.name, back ? "back" : "there", nrows, nelems,
          floats ? " floats" : " bytes", gap, shift, other, i, bytes[i], want[i]);
  finish_all();
}
void transpositions(void) {
  open();
  struct pe_team teams[16];
  const size_t count = pe_teams(teams, COUNT(teams));
  const struct {
    size_t nelems, nrows, gap;
    bool floats;
  } shapes[] = {{0, 5, 0, true},     {1, 1, 0, true},    {3, 7, 1, false},    {4, 33, 0, true},
                {64, 9, 0, true},    {17, 20, 3, false}, {2000, 1, 0, false}, {5, 0, 0, false},
                {130, 12, 0, false}, {32, 70, 4, true}};
  int turn = 0;
  for (size_t t = 0; t < count; t++)
    for (int form = 0; form < forms; form++)
      for (const auto &s : shapes) {
        turn++;
        if (t > 0 && turn % 7 != 0) continue; // all of the world, some of the others
        choose("direct", 1 + unsigned(turn) % 3 / 2, turn % 3 ? 64 : 128);
        const size_t align = s.floats ? 4 : 1;
        transposed(teams[t], form, turn % 2, s.floats, s.nelems, s.nrows, s.gap,
                   size_t(turn % 5) * align, size_t(turn % 7 / 3) * align, turn);
      }
  pe_teams_free(teams, count);
  close();
}

// A round in kernels, whose number is in device memory: each round sends other bytes.
constexpr size_t wide = 12, tight = 60; // bytes of a unit; capacity, which some rounds go beyond
struct Round {
  unsigned *number;
  unsigned long long *faults; // how many words were wrong, and how many rounds overflowed
  Arrays a;
  unsigned char *source, *dest;
  int me, n;
};
__global__ void prepare(Round r) {
  const unsigned round = *r.number;
  for (int m = int(threadIdx.x); m < r.n; m += int(blockDim.x)) {
    r.a.counts[m] = count_of(some, r.me, m, r.n, round);
    r.a.offsets[m] = offset_of(some, r.me, m, r.n, round);
  }
  const size_t all = offset_of(some, r.me, -1, r.n, round) * wide;
  for (size_t i = threadIdx.x; i < all; i += blockDim.x) r.source[i] = byte_of(r.me, round, i);
}
__global__ void verify(Round r) {
  const unsigned round = *r.number;
  size_t end = 0, wrong = 0;
  for (int m = 0; m < r.n; m++) {
    const size_t count = count_of(some, m, r.me, r.n, round),
                 from = offset_of(some, m, r.me, r.n, round) * wide;
    wrong += r.a.recv_counts[m] != count || r.a.recv_offsets[m] != end;
    if (end + count <= tight)
      for (size_t i = threadIdx.x; i < count * wide; i += blockDim.x)
        wrong += r.dest[end * wide + i] != byte_of(m, round, from + i);
    end += count;
  }
  wrong += r.a.recv_offsets[r.n] != end;
  if (wrong) shmem::arch::fetch_add(r.faults, static_cast<unsigned long long>(wrong));
  __syncthreads();
  if (threadIdx.x == 0) {
    *r.number = round + 1;
    r.faults[1] += end > tight;
  }
}
void round_on_stream(const Round &r, hipStream_t s) {
  hipLaunchKernelGGL(prepare, dim3(1), dim3(64), 0, s, r);
  CHECK(shmemx_alltoallvmem_on_stream(SHMEM_TEAM_WORLD, r.dest, r.a.recv_counts, r.a.recv_offsets,
                                      tight, r.source, r.a.counts, r.a.offsets, wide, s) == 0,
        "alltoallv");
  hipLaunchKernelGGL(verify, dim3(1), dim3(64), 0, s, r);
}
Round first_round() {
  open();
  unsigned char *p;
  HIP(hipMalloc(reinterpret_cast<void **>(&p), 64));
  HIP(hipMemset(p, 0, 64));
  finish_all();
  return {reinterpret_cast<unsigned *>(p),
          reinterpret_cast<unsigned long long *>(p + 16),
          there,
          source,
          dest,
          me,
          npes};
}
void last_round(const Round &r, unsigned rounds) {
  HIP(hipStreamSynchronize(stream));
  unsigned number;
  unsigned long long faults[2];
  from_device(&number, r.number, sizeof number);
  from_device(faults, r.faults, sizeof faults);
  CHECK(number == rounds && faults[0] == 0, "%u rounds of %u, %llu words wrong", number, rounds,
        faults[0]);
  unsigned long long over = 0;
  for (unsigned k = 0; k < rounds; k++) {
    size_t end = 0;
    for (int m = 0; m < npes; m++) end += count_of(some, m, me, npes, k);
    over += end > tight;
  }
  CHECK(faults[1] == over, "%llu rounds overflowed, want %llu", faults[1], over);
  finish_all();
  HIP(hipFree(r.number));
  close();
}

// Rounds with nothing between, some of which overflow; the host is ahead of the device, and one PE
// comes late.
void repeated(void) {
  const Round r = first_round();
  constexpr unsigned rounds = 60;
  for (unsigned k = 0; k < rounds; k++) {
    choose("direct", 1 + k % 2, 64);
    round_on_stream(r, stream);
    if (k % 20 == 7 && me == int(k / 20) % npes) {
      HIP(hipStreamSynchronize(stream));
      usleep(10000);
    }
  }
  last_round(r, rounds);
}
void replayed(void) {
  const auto rounds = unsigned(pe_rounds(1000));
  const Round r = first_round();
  hipGraph_t graph;
  hipGraphExec_t exec;
  choose("direct", 2, 64);
  HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  round_on_stream(r, stream);
  HIP(hipStreamEndCapture(stream, &graph));
  HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  for (unsigned k = 0; k < rounds; k++) {
    HIP(hipGraphLaunch(exec, stream));
    if (k % 200 == 99 && me == int(k / 200) % npes) {
      HIP(hipStreamSynchronize(stream));
      usleep(10000);
    }
  }
  HIP(hipStreamSynchronize(stream));
  HIP(hipGraphExecDestroy(exec));
  HIP(hipGraphDestroy(graph));
  last_round(r, rounds);
}

struct pe_test tests[] = {{"alltoallv in all forms", all_forms},
                          {"alltoallv repeated", repeated},
                          {"alltoallv in a graph", replayed},
                          {"alltoall2d in all forms", transpositions}};

} // namespace

extern "C" {
extern struct pe_list stream_blocks_lists[];
extern const size_t stream_blocks_count;
struct pe_list stream_blocks_lists[] = {PE_LIST("", tests)};
const size_t stream_blocks_count = 1;
}

// SPDX-License-Identifier: MIT
// The heap in device memory that grows, unless SHMEM_HEAP_GROW=0: a range of addresses for each PE
// of the node, and in them chunks of memory that come when a block needs them and go when nothing
// is left in them. The ranges stay where they are, so kernels that run and captured graphs stay
// right.
#include "grow.hpp"
#include "../../device/runtime.hpp"
#include "../descriptors.hpp"
#include "../team.hpp"
#include "hip.hpp"
#include <algorithm>
#include <sys/resource.h>
#include <unistd.h>

namespace shmem::gpu {

namespace {

struct Reserved {
  char *raw = nullptr, *at = nullptr; // as reserved; where the heap begins, behind the front
  size_t bytes = 0;
};
std::vector<Reserved> ranges;       // of each PE of the node, here
ptrdiff_t front_bytes, first_bytes; // of the heap's front, and of itself, there from the start

// A program that captures a graph may allocate meanwhile.
class Relaxed {
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;

public:
  Relaxed() { tried(hipThreadExchangeStreamCaptureMode(&mode)); }
  ~Relaxed() { tried(hipThreadExchangeStreamCaptureMode(&mode)); }
  Relaxed(const Relaxed &) = delete;
  Relaxed &operator=(const Relaxed &) = delete;
};

constexpr int not_sent = -1; // for an error of HIP: its descriptor has not come

// Whether no PE has failed. The cause is the first PE's that had one of its own, and not one that
// others' failing made.
struct Outcome {
  int pe = -1, error = hipSuccess;
  const char *text() const {
    return error == not_sent ? "a descriptor could not be passed to a PE"
                             : hipGetErrorString(hipError_t(error));
  }
};
Outcome outcome_of(int mine) {
  Outcome o;
  exchange_value(*self.world, mine, [&](int pe, int theirs) {
    if (theirs != hipSuccess && (o.pe < 0 || (o.error == not_sent && theirs != not_sent)))
      o = {pe, theirs};
  });
  return o;
}

// All PEs at once, between these offsets; where one fails nothing is left on any.
Outcome add(ptrdiff_t from, ptrdiff_t to) {
  const auto bytes = size_t(to - from);
  int failed = hipSuccess;
  auto well = [&](hipError_t error) {
    if (error != hipSuccess && failed == hipSuccess) failed = error;
    return tried(error);
  };
  auto map = [&](int i, runtime::Chunk c) {
    well(runtime::map_chunk(ranges[size_t(i)].at + from, bytes, c, chosen));
    well(runtime::drop_chunk(c));
  };
  runtime::Chunk mine{};
  int fd = -1;
  if (well(runtime::create_chunk(&mine, bytes, chosen))) {
    if (self.n_local > 1) well(runtime::export_chunk(&fd, mine));
    map(self.local, mine);
  }
  const std::vector<int> fds = exchange_descriptors(*self.shared, fd);
  if (fd >= 0) ::close(fd);
  for (int i = 0; i < self.n_local; i++) {
    if (i == self.local) continue;
    runtime::Chunk theirs{};
    const int there = fds[size_t(i)];
    if (there < 0 && failed == hipSuccess) failed = not_sent;
    if (there >= 0 && well(runtime::import_chunk(&theirs, there))) map(i, theirs);
    if (there >= 0) ::close(there);
  }
  const Outcome o = outcome_of(failed);
  if (o.pe >= 0)
    for (const Reserved &r : ranges) tried(runtime::unmap_chunk(r.at + from, bytes));
  return o;
}

} // namespace

void close_chunks() {
  for (const Reserved &r : ranges) {
    if (first_bytes)
      tried(runtime::unmap_chunk(r.at - front_bytes, size_t(front_bytes + first_bytes)));
    if (r.raw) tried(runtime::give_up(r.raw, r.bytes));
  }
  ranges.clear();
  front_bytes = first_bytes = 0;
}

size_t open_chunks(size_t &front, size_t &first, size_t upto, std::vector<uintptr_t> &starts) {
  auto stays = [](const char *why) {
    debug("the heap in device memory stays as it is: %s", why);
    return size_t(0);
  };
  size_t step = runtime::chunk_step(chosen);
  bool all_have = true;
  exchange_value(*self.world, step, [&](int, size_t theirs) {
    all_have &= theirs != 0;
    step = std::max(step, theirs);
  });
  if (!all_have) return stays("this runtime has no such memory that is coherent while kernels run");
  const size_t start = round_up(first, step), most = std::max(start, upto & ~(step - 1)),
               before = round_up(front, step), room = before + most + max_align;
  ranges.resize(size_t(self.n_local));
  int failed = hipSuccess;
  rlimit space; // of which half is for the program's own
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
      space.rlim_cur / 2 / room < ranges.size())
    failed = hipErrorOutOfMemory;
  for (Reserved &r : ranges) {
    void *p = nullptr;
    const hipError_t error = failed ? hipError_t(failed) : runtime::reserve(&p, room);
    if (!tried(error)) {
      failed = error;
      break;
    }
    r = {static_cast<char *>(p),
         reinterpret_cast<char *>(round_up(uintptr_t(p) + before, max_align)), room};
  }
  Outcome o = outcome_of(failed);
  if (o.pe < 0) o = add(-ptrdiff_t(before), ptrdiff_t(start));
  if (o.pe >= 0) {
    close_chunks();
    return stays(o.text());
  }
  front_bytes = ptrdiff_t(front = before);
  first_bytes = ptrdiff_t(first = start);
  for (const Reserved &r : ranges) starts.push_back(uintptr_t(r.at));
  return most;
}

bool add_chunk(const char *fn, size_t from, size_t to) {
  const OnDevice here;
  const Relaxed capture;
  const Outcome o = add(ptrdiff_t(from), ptrdiff_t(to));
  static Note note;
  if (o.pe == self.me)
    note("%s: the heap in device memory cannot grow by %zu bytes: GPU %d: %s", fn, to - from,
         chosen, o.text());
  return o.pe < 0;
}

void remove_chunk(size_t from, size_t to) {
  const OnDevice here;
  const Relaxed capture;
  for (const Reserved &r : ranges)
    MUST(runtime::unmap_chunk(r.at + from, to - from), "unmapping %zu bytes of the heap",
         to - from);
}

} // namespace shmem::gpu

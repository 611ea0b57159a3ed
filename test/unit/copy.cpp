// SPDX-License-Identifier: MIT
// Copies, in each of the ways that one processor or another has: all lengths and alignments up to
// two lines, and those around which a way changes, with nothing touched outside. The test `once`
// checks the order of the stores.
#include "../../lib/copy.cpp"

#include <csetjmp>
#include <cstdarg>
#include <cstdlib>
#include <sys/mman.h>

extern "C" {
#include <cmocka.h>
}

shmem::State shmem::self;
void shmem::gpu::copy(void *, const void *, size_t) {
  abort(); // no memory is far here
}
bool shmem::buffer::on_device(const void *) {
  return false;
}

namespace {

constexpr size_t page = 4096, room = 20 * page;

// Memory of which neither side can be passed without a fault.
unsigned char *fenced() {
  void *all = mmap(nullptr, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(all, MAP_FAILED);
  auto *begin = static_cast<unsigned char *>(all) + page;
  assert_int_equal(mprotect(begin, room, PROT_READ | PROT_WRITE), 0);
  return begin;
}

void ways(void **) {
  unsigned char *const from = fenced(), *const to = fenced();
  for (size_t i = 0; i < room; i++) from[i] = static_cast<unsigned char>(i * 7 + i / 251);
  const auto check = [&](size_t d, size_t s, size_t n) {
    const size_t low = d < 64 ? 0 : d - 64, high = d + n + 64 > room ? room : d + n + 64;
    memset(to + low, 0xee, high - low);
    shmem::copy_once(to + d, from + s, n);
    if (memcmp(to + d, from + s, n))
      fail_msg("%zu bytes from +%zu to +%zu: other bytes came", n, s, d);
    for (size_t i = low; i < high; i++)
      if ((i < d || i >= d + n) && to[i] != 0xee)
        fail_msg("%zu bytes from +%zu to +%zu: +%zu was touched", n, s, d, i);
  };
  const auto all = [&] {
    for (size_t n = 0; n <= 200; n++)
      for (size_t d = 0; d < 64; d += n < 80 ? 1 : 7)
        for (size_t s : {size_t(0), size_t(1), size_t(8), size_t(61)}) check(d, s, n);
    for (size_t around : {256, 512, 1024, 8 << 10, 24 << 10, 64 << 10})
      for (size_t n = around - 9; n <= around + 72; n += 3)
        for (size_t d : {0, 1, 7, 8, 24, 63})
          for (size_t s : {0, 3, 8}) check(d, s, n);
    for (size_t n = 0; n <= 200; n++) check(room - n, room - n, n), check(0, 0, n);
  };
#if defined __x86_64__
  const auto has = shmem::can;
  for (int lines = has.lines; lines >= 0; lines--)
    for (int words = has.words; words >= 0; words--)
      for (int strings = has.strings; strings >= 0; strings--) {
        shmem::can = {bool(lines), bool(words), bool(strings)};
        all();
      }
  shmem::can = has;
#else
  all();
#endif
}

} // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(ways)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

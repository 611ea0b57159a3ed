// SPDX-License-Identifier: MIT
// The table of algorithms: which row counts between nodes, and which are refused. Includes the
// library's own file.
#include "../../lib/tune.cpp"
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
extern "C" {
#include <cmocka.h>
}

namespace shmem {
State self;
void fatal_team(int, const char *, ...) {
  abort();
}
} // namespace shmem

using namespace shmem;
using tune::Route;

static void expect(Collective what, int nodes, size_t bytes, Route way, size_t segment,
                   unsigned in_flight) {
  const tune::Between by = tune::choose_between(what, nodes, bytes);
  assert_true(by.way == way && by.segment == segment && by.in_flight == in_flight);
}

static void between_nodes(void **) {
  // The built-in rows take what no other row does, at the largest size, too.
  assert_int_equal(shmemx_tune(nullptr), 0);
  tune::choose_between(Collective::broadcast, max_pes, ~size_t(0));
  tune::choose_between(Collective::scan, max_pes, ~size_t(0));
  assert_int_equal(shmemx_tune("broadcast net 4 100 tree 1024 2 # comment\n"
                               "* * 512 1000000 direct 7 64\n"
                               "\n"
                               "broadcast net 8 4096 chain 2048 3\n"
                               "* net 1000 18446744073709551615 chain 1073741824 64\n"),
                   0);
  expect(Collective::broadcast, 4, 100, Route::tree, 1024, 2);
  expect(Collective::broadcast, 5, 100, Route::chain, 2048, 3);
  expect(Collective::broadcast, 4, 101, Route::chain, 2048, 3);
  expect(Collective::broadcast, 9, 1, Route::chain, 1 << 30, 64);
  expect(Collective::reduce, 2, 1, Route::chain, 1 << 30, 64);
  for (const char *wrong : {"broadcast net 2 1 ring 1024 4", "broadcast net 2 1 direct 1024 4",
                            "* * 2 1 tree 1 64", "fcollect net 2 1 chain 1024 4",
                            "broadcast net 0 1 tree 1024 4", "broadcast net 2 1 tree 1023 4",
                            "broadcast net 2 1 tree 1073741825 4", "broadcast net 2 1 tree 1024 1",
                            "broadcast net 2 1 tree 1024 65", "broadcast net 2 1 tree 1024"})
    assert_int_equal(shmemx_tune(wrong), 1);
  expect(Collective::broadcast, 4, 100, Route::tree, 1024, 2); // as it was
}

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(between_nodes)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

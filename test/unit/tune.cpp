// SPDX-License-Identifier: MIT
// The table of algorithms: which row counts between nodes and on streams, and which are refused.
// Includes the library's own file.
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

// On a GPU that holds 27 workgroups of each of four collectives at once, 16 with lines, and 55 of a
// norm of short rows.
template <class Set> static tune::Choice of_norm(Set set) {
  tune::Asked asked{.what = Collective::norm, .pes = 4, .bytes = 1 << 20};
  set(asked);
  return tune::choose(asked);
}
static void on_streams(void **) {
  using Way = CollectiveAlgorithm;
  tune::open("gfx90a", {27, 16, 55});
  assert_int_equal(shmemx_tune("norm * 512 10000000 results 64 512\n"
                               "norm * 512 20000000 phases 60 512\n"),
                   0);
  tune::Choice c = of_norm([](tune::Asked &a) { a.results = a.split = true, a.pieces = 7; });
  assert_true(c.algorithm == Way::results && c.blocks == 64);
  // A call that cannot go by results has no more workgroups than the way has that it goes.
  for (const bool results : {false, true}) {
    c = of_norm([&](tune::Asked &a) {
      a.each_meets = true, a.results = results, a.pieces = results ? 65 : 7;
    });
    assert_true(c.algorithm == Way::phases && c.blocks == 27);
  }
  c = of_norm([](tune::Asked &a) { a.each_meets = a.split = true; });
  assert_true(c.algorithm == Way::phases && c.blocks == 27);
  c = of_norm([](tune::Asked &a) { a.each_meets = a.short_rows = true; });
  assert_true(c.algorithm == Way::phases && c.blocks == 55);
  // Four times as many of a quarter of the threads.
  tune::open("gfx90a", {2, 2, 2});
  assert_int_equal(shmemx_tune("norm * 512 10000000 results 64 512\n"
                               "norm * 512 20000000 lines 64 512\n"
                               "norm * 512 30000000 phases 60 512\n"),
                   0);
  c = of_norm([](tune::Asked &a) { a.results = true, a.pieces = 8; });
  assert_true(c.algorithm == Way::results && c.blocks == 8);
  c = of_norm([](tune::Asked &a) { a.results = true, a.pieces = 9; });
  assert_true(c.algorithm == Way::phases && c.blocks == 2);
  c = of_norm([](tune::Asked &a) { a.pieces = 2; });
  assert_true(c.algorithm == Way::lines && c.blocks == 2);
  // Other collectives take no notice of a way that is the norm's, or refuse it by name.
  assert_int_equal(shmemx_tune("* * 512 10000000 results 64 512\n"
                               "* * 512 20000000 direct 1 64\n"),
                   0);
  assert_true(tune::choose({.what = Collective::fcollect, .pes = 4, .bytes = 4096}).algorithm ==
              Way::direct);
  for (const char *wrong : {"fcollect * 512 1 results 64 512", "reduce gfx90a 8 1 results 1 64",
                            "norm * 2 1 oneshot 64 512", "* * 2 1 none 64 512"})
    assert_int_equal(shmemx_tune(wrong), 1);
}

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(between_nodes), cmocka_unit_test(on_streams)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: MIT
// Tags of messages between nodes: no two teams or active sets have the same, up to the largest job.
#include "coll/nodes.hpp"
#include <array>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <map>
extern "C" {
#include <cmocka.h>
}

using namespace shmem;

// The owner of a tag: start, log_stride and size, or start and id.
static std::map<uint64_t, std::array<int, 3>> owners;
static void add(uint64_t tag, std::array<int, 3> owner) {
  assert_true(tag < uint64_t(1) << (64 - tag_way_bits - tag_pe_bits));
  const auto [at, fresh] = owners.emplace(tag, owner);
  assert_true(fresh || at->second == owner);
}

static void tags(void **) {
  // All sets of a small job, and of the largest one those that end with it.
  for (int log_stride = 0; log_stride < tag_pe_bits; log_stride++)
    for (int pe = 0; pe < 128; pe++) {
      for (int size = 2; pe + (int64_t(size - 1) << log_stride) < 128; size++)
        add(set_tag(pe, log_stride, size), {pe, log_stride, size});
      const int last = max_pes - 1 - pe;
      for (int size = 2; size < 128 && last - (int64_t(size - 1) << log_stride) >= 0; size++)
        add(set_tag(last - ((size - 1) << log_stride), log_stride, size),
            {last - ((size - 1) << log_stride), log_stride, size});
      const int most = (last >> log_stride) + 1, start = last - ((most - 1) << log_stride);
      if (most > 1) add(set_tag(start, log_stride, most), {start, log_stride, most});
    }
  for (int pe = 0; pe < 128; pe++)
    for (int id = 0; id < max_teams; id++) {
      add(team_tag(pe, id), {pe, -1, id});
      add(team_tag(max_pes - 1 - pe, id), {max_pes - 1 - pe, -1, id});
    }
}

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(tags)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

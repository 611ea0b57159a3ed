// SPDX-License-Identifier: MIT
// Pure parts of the library, without a job: the allocator, the size grammar, the PEs' parts of
// collectives.
#include "../../device/pattern.hpp"
#include "env.hpp"
#include "gpu/topology.hpp"
#include "memory/alloc.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

extern "C" {
#include <cmocka.h>
}

using shmem::Alloc;

namespace {

void alloc_basics(void **) {
  Alloc a(256);
  a.reset(1 << 20);
  const size_t first = a.allocate(1, 1), second = a.allocate(257, 1);
  assert_int_not_equal(first, Alloc::none);
  assert_int_equal(first % 256, 0);
  assert_int_equal(second % 256, 0);
  assert_int_equal(a.find(first)->size, 256);
  assert_int_equal(a.find(second)->size, 512);
  assert_null(a.find(first + 1));
  assert_null(a.find(second + 256));
  assert_int_equal(a.bytes_used(), 768);
  assert_int_equal(a.room(first + 60), 4); // SHMEM_CHECK sees no more than was asked for
  assert_int_equal(a.room(first + 64), 0);
  assert_int_equal(a.room(second), 320);
  a.release(first);
  a.release(second);
  assert_null(a.find(first));
  assert_int_equal(a.bytes_used(), 0);
  assert_int_equal(a.largest_free(), 1 << 20);
  assert_true(a.consistent());
}

void alloc_limits(void **) {
  Alloc a(64);
  a.reset(1 << 20);
  assert_int_equal(a.allocate((1 << 20) + 1, 1), Alloc::none);
  for (size_t bytes = SIZE_MAX - 200; bytes != 0; bytes++)
    assert_int_equal(a.allocate(bytes, 1), Alloc::none); // rounding up must not wrap
  assert_int_equal(a.allocate(64, size_t(1) << 62), 0);  // offset 0 has every alignment
  assert_int_equal(a.allocate(64, size_t(1) << 62), Alloc::none);
  a.reset(1 << 20);
  const size_t all = a.allocate(1 << 20, 64);
  assert_int_equal(all, 0);
  assert_int_equal(a.largest_free(), 0);
  assert_int_equal(a.allocate(1, 1), Alloc::none);
  a.release(all);
  const size_t x = a.allocate(100, 1), y = a.allocate(100, 4096);
  assert_int_equal(y % 4096, 0);
  assert_int_equal(a.find(x)->tag, 0);
  const size_t z = a.allocate(100, 1, 42);
  assert_int_equal(a.find(z)->tag, 42);
  assert_true(z < y); // the gap in front of an aligned block is used
  assert_true(a.consistent());
}

void alloc_resize(void **) {
  Alloc a(64);
  a.reset(1 << 20);
  const size_t x = a.allocate(64, 1), y = a.allocate(64, 1);
  assert_false(a.resize(x, 65)); // y lies behind it
  assert_int_equal(a.find(x)->size, 64);
  assert_true(a.resize(y, 1000));
  assert_int_equal(a.find(y)->size, 1024);
  assert_true(a.resize(y, 1));
  assert_int_equal(a.find(y)->size, 64);
  a.release(y);
  assert_true(a.resize(x, 1 << 20));
  assert_int_equal(a.largest_free(), 0);
  assert_false(a.resize(x, (1 << 20) + 1));
  assert_false(a.resize(x, SIZE_MAX - 3));
  assert_int_equal(a.find(x)->size, 1 << 20);
  assert_true(a.consistent());
}

// Two allocators and a map that knows what must be; the same calls give the same offsets.
void alloc_random(void **) {
  Alloc a(64), b(64);
  a.reset(4 << 20);
  b.reset(4 << 20);
  std::map<size_t, size_t> live; // offset -> end
  uint64_t state = 7;
  auto random = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
  };
  int failed = 0;
  for (int step = 0; step < 30000; step++) {
    if (live.size() > 400 || (!live.empty() && random() % 5 < 2)) {
      auto it = live.begin();
      std::advance(it, long(random() % live.size()));
      a.release(it->first);
      b.release(it->first);
      live.erase(it);
    } else if (!live.empty() && random() % 8 == 0) {
      auto it = live.begin();
      std::advance(it, long(random() % live.size()));
      const size_t bytes = 1 + random() % 30000;
      const bool done = a.resize(it->first, bytes);
      assert_int_equal(done, b.resize(it->first, bytes));
      if (done) it->second = it->first + a.find(it->first)->size;
      const auto next = std::next(it);
      assert_true(next == live.end() || it->second <= next->first);
    } else {
      const size_t bytes = 1 + random() % (random() % 4 ? 500 : 60000);
      const size_t align = size_t(1) << random() % 14;
      const size_t at = a.allocate(bytes, align);
      assert_int_equal(at, b.allocate(bytes, align));
      if (at == Alloc::none) {
        failed++;
        continue;
      }
      assert_int_equal(at % align, 0);
      const size_t end = at + a.find(at)->size;
      assert_true(a.find(at)->size >= bytes && end <= 4 << 20);
      auto next = live.lower_bound(at);
      assert_true(next == live.end() || end <= next->first);
      assert_true(next == live.begin() || std::prev(next)->second <= at);
      live[at] = end;
    }
    if (step % 500 == 0) assert_true(a.consistent());
  }
  assert_true(failed < 3000);
  for (auto &[at, end] : live) a.release(at);
  assert_int_equal(a.largest_free(), 4 << 20);
  assert_true(a.consistent());
}

void sizes(void **) {
  const struct {
    const char *text;
    size_t bytes;
  } good[] = {{"0", 0},
              {"1", 1},
              {"4096", 4096},
              {"1k", 1024},
              {"1K", 1024},
              {"2m", 2 << 20},
              {"2M", 2 << 20},
              {"1g", 1 << 30},
              {"1G", 1 << 30},
              {"1t", size_t(1) << 40},
              {"3.1M", 3250586},
              {".5m", 512 << 10},
              {"0.5m", 512 << 10},
              {"20kk", 20 << 10},
              {"20kB", 20 << 10},
              {"1.5", 2},
              {"1mjunk here", 1 << 20},
              {"5.g", size_t(5) << 30},
              {"0.0001k", 1},
              {"007k", 7 << 10},
              {"0.1k", 103}};
  for (auto &g : good) {
    size_t got = 99;
    if (!shmem::parse_size(g.text, &got)) fail_msg("'%s' is refused", g.text);
    if (got != g.bytes) fail_msg("'%s' gives %zu, want %zu", g.text, got, g.bytes);
  }
  const char *bad[] = {
      "",          " ",    " 1m",   "-1",  "+1",  "k",   ".",   ".k",
      "1e3",       "0x10", "one",   "1,5", "1 m", "nan", "inf", "99999999999999999999",
      "16777217t", "-",    "1.2.3", "1b",  "1x"};
  for (auto *text : bad) {
    size_t got;
    if (shmem::parse_size(text, &got)) fail_msg("'%s' gives %zu", text, got);
  }
}

void patterns(void **) {
  for (int n = 1; n <= 40; n++) {
    for (int me = 0; me < n; me++) {
      uint64_t seen = 0; // every member once, oneself first
      for (int k = 0; k < n; k++) {
        const int p = shmem::pattern::peer(me, k, n);
        assert_true(p >= 0 && p < n && !(seen >> p & 1));
        seen |= uint64_t(1) << p;
      }
      assert_int_equal(shmem::pattern::peer(me, 0, n), me);
    }
    for (int k = 0; k < n; k++) { // at each step every member is the peer of one
      uint64_t seen = 0;
      for (int me = 0; me < n; me++) seen |= uint64_t(1) << shmem::pattern::peer(me, k, n);
      assert_int_equal(seen, (uint64_t(1) << n) - 1);
    }
    for (size_t total :
         {size_t(0), size_t(1), size_t(63), size_t(64), size_t(65), size_t(1000), size_t(4097)}) {
      for (size_t unit : {size_t(1), size_t(8), size_t(16), size_t(64)}) {
        size_t at = 0, least = total, most = 0;
        for (int i = 0; i < n; i++) { // the parts tile the whole, evenly
          const auto r = shmem::pattern::part(total, unit, i, n);
          assert_int_equal(r.from, at);
          assert_true(r.to >= r.from && r.to <= total);
          assert_true(r.from == total || r.from % unit == 0);
          if (r.to < total) {
            least = std::min(least, r.to - r.from);
            most = std::max(most, r.to - r.from);
          }
          at = r.to;
        }
        assert_int_equal(at, total);
        if (most) assert_true(most - least <= unit);
      }
    }
  }
}

// As the driver lays out two GPUs behind a host, the second in another PCI domain.
void link_rates(void **) {
  char root[] = "/tmp/shmem-topology-XXXXXX";
  assert_non_null(mkdtemp(root));
  const std::string nodes = std::string(root) + "/nodes";
  const auto file = [](const std::string &folder, const char *text) {
    std::filesystem::create_directories(folder);
    FILE *f = fopen((folder + "/properties").c_str(), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
  };
  file(nodes + "/0", "cpu_cores_count 8\nlocation_id 0\ndomain 0\n");
  file(nodes + "/1", "simd_count 1216\nlocation_id 49408\ndomain 0\nmarketing 1\n"); // c1:00.0
  file(nodes + "/2", "simd_count 1216\nlocation_id 49408\ndomain 1\n");
  file(nodes + "/1/io_links/0", "type 2\nnode_from 1\nnode_to 0\nmax_bandwidth 32000\n");
  file(nodes + "/1/io_links/1", "type 11\nnode_from 1\nnode_to 2\nmax_bandwidth 64000\n");
  file(nodes + "/2/p2p_links/0", "type 2\nnode_from 2\nnode_to 1\nmax_bandwidth 31500\n");
  const auto rate = [&](const char *from, const char *to) {
    return int(shmem::gpu::link_rate(root, from, to));
  };
  assert_int_equal(rate("0000:c1:00.0", "0001:c1:00.0"), 64000);
  assert_int_equal(rate("0001:C1:00.0", "0000:C1:00.0"), 31500);
  assert_int_equal(rate("0000:c1:00.0", "0000:c2:00.0"), 0);
  assert_int_equal(rate("0000:c1:00.1", "0001:c1:00.0"), 0);
  assert_int_equal(rate("", "0001:c1:00.0"), 0);
  std::filesystem::remove_all(root);
  assert_int_equal(rate("0000:c1:00.0", "0001:c1:00.0"), 0);
}

} // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(alloc_basics), cmocka_unit_test(alloc_limits),
                              cmocka_unit_test(alloc_resize), cmocka_unit_test(alloc_random),
                              cmocka_unit_test(sizes),        cmocka_unit_test(patterns),
                              cmocka_unit_test(link_rates)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

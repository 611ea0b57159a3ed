// SPDX-License-Identifier: MIT
// The cost of a job of many nodes to a PE, for test/bench/scaling --simulate: the sizes are those
// of the library's types, and the messages are counted where its own barrier and exchange send
// them, by a network that is not there. PEs of a node are taken for one, with as many blocks.
#include "../../lib/coll/nodes.cpp"
#include "../../lib/net/ucx/ucx.hpp"
#include "../../lib/tune.cpp"
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

namespace shmem {

State self;

// One process waits for no other.
void wait_slow(Location, bool (*)(void *), void *) {
  abort();
}
void wake_sleepers(Location) {}
void copy_once(void *to, const void *from, size_t n) {
  memcpy(to, from, n);
}
void copy_stream(void *to, const void *from, size_t n) {
  memcpy(to, from, n);
}

namespace net {

static size_t messages, sent;
static std::set<int> met; // with whom there is a connection

void Messages::send(int pe, uint64_t, const void *, size_t bytes) {
  messages++, sent += bytes;
  met.insert(pe);
}
void Messages::receive(uint64_t, void *, size_t) {}
void Messages::wait() {}
Messages::~Messages() {}

} // namespace net
} // namespace shmem

using namespace shmem;

int main(int argc, char **argv) {
  self.job = new Job{};
  shmemx_tune(nullptr); // the built-in rows
  const int per_node = argc > 1 ? atoi(argv[1]) : 8;
  printf("pes nodes refused table_kib peers_kib shares_kib barrier_messages sum_messages sum_bytes "
         "endpoints fence_bytes\n");
  for (int n = 64; n <= 1 << 20; n *= 4) {
    const int nodes = n / per_node;
    if (nodes < 2) continue;
    Nodes all{};
    for (int i = 0; i < nodes; i++) {
      const PeOrder one{1, i, 1};
      all.parts.push_back({one, one});
      all.runs.push_back({i, 1, 0});
    }
    const std::unique_ptr<std::byte[]> share(new std::byte[share_bytes(1) + cache_line]{});
    all.here.n = 1;
    all.here.share = reinterpret_cast<std::byte *>(round_up(uintptr_t(share.get()), cache_line));
    meet(all);
    const size_t barrier = std::exchange(net::messages, 0);
    net::sent = 0;
    const size_t block = sizeof(double) * size_t(per_node);
    const std::vector<char> mine(block);
    std::vector<char> of_all(block * size_t(nodes));
    Team team{};
    team.n = nodes, team.nodes = &all;
    exchange_nodes(team, mine.data(), block, of_all.data());
    printf("%d %d %d %zu %zu %zu %zu ", n, nodes, n > net::max_remote_pes,
           size_t(n) * sizeof(net::Entry) >> 10, net::met.size() * page >> 10,
           share_bytes(per_node) >> 10, barrier);
    // Larger ones go along the nodes and back, and this PE sends one message of each.
    if (tune::choose_between(Collective::reduce, nodes, block).way == tune::Route::tree)
      printf("%zu %zu ", net::messages, net::sent);
    else
      printf("chain chain ");
    printf("%zu %zu\n", net::met.size(), sizeof(net::Entry));
    net::met.clear(), net::messages = net::sent = 0;
  }
}

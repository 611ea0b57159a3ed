// SPDX-License-Identifier: MIT
// Collectives of all kinds by chance, of two teams on two streams at once, of odd lengths at odd
// addresses, the teams' algorithms changing from call to call, and in each batch one PE that comes
// 10 ms late. A stream has two parts of dest; its calls write one and may read an earlier one's
// results in the other, so that each begins while others are in the one before. Every byte of them
// is looked at.
#include "poison.hpp"
#include "stream.hpp"

#include <unistd.h>
#include <vector>

namespace {

constexpr size_t most = 2500, calls = 18; // bytes for one member; of a batch and stream
size_t part;                              // bytes, twice `most` for each PE and some more
char *source, *dest;
std::vector<unsigned char> host, want;
std::vector<unsigned char> memory; // a stream's parts on all members, as they must be

struct Call {
  int kind, root;
  size_t n, shift, from; // bytes for one member, of elements of 4 for sums; of dest and source
  bool direct, goes_on;  // source is the part that is not written
  size_t which;          // part
  unsigned workgroups, threads;
};
enum Kind { broadcast, fcollect, collect, alltoall, sum, block_sum, exscan, exchange, meet, kinds };

// The same on all members.
Call by_chance(uint64_t *seed, const struct pe_team &t) {
  auto below = [&](uint64_t n) { return size_t(pe_random(seed) % n); };
  Call c;
  c.kind = int(below(kinds));
  c.root = int(below(uint64_t(t.n)));
  c.n = below(3) ? below(200) : below(most);
  c.shift = below(40), c.from = below(40);
  c.direct = below(2), c.goes_on = below(2), c.which = below(2),
  c.workgroups = unsigned(1 + below(2)), c.threads = below(2) ? 64 : 128;
  const size_t unit = c.kind == sum || c.kind == block_sum || c.kind == exscan ? 4
                      : c.kind == exchange                                     ? 2
                                                                               : 1;
  c.n -= c.n % unit, c.shift -= c.shift % unit, c.from -= c.from % unit;
  return c;
}
size_t length(const Call &c, int member) { // of collect
  return member & 1 ? c.n / 3 : c.n;
}
int queue(const Call &c, const struct pe_team &t, char *d, const char *other, hipStream_t s) {
  const char *from = (c.goes_on ? other : source) + c.from;
  auto *words = reinterpret_cast<unsigned *>(d);
  auto *of = reinterpret_cast<const unsigned *>(from);
  choose(!c.direct ? "lines" : c.n & 8 ? "phases" : "direct", c.workgroups, c.threads);
  switch (c.kind) {
  case broadcast:
    return shmemx_broadcastmem_on_stream(t.team, d, from, c.n, c.root, s);
  case fcollect:
    return shmemx_fcollectmem_on_stream(t.team, d, from, c.n, s);
  case collect:
    return shmemx_collectmem_on_stream(t.team, d, from, length(c, t.me), s);
  case alltoall:
    return shmemx_alltoallmem_on_stream(t.team, d, from, c.n, s);
  case sum:
    return shmemx_sum_reduce_on_stream(t.team, words, of, c.n / 4, s);
  case block_sum:
    return shmemx_sum_reduce_scatter_on_stream(t.team, words, of, c.n / 4, s);
  case exscan:
    return shmemx_sum_exscan_on_stream(t.team, words, of, c.n / 4, s);
  case exchange:
    return shmemx_alltoalls_on_stream(t.team, reinterpret_cast<short *>(d),
                                      reinterpret_cast<const short *>(from), 2, 1, c.n / 2, s);
  default:
    return shmemx_sync_on_stream(t.team, s);
  }
}
unsigned char *part_of(int member, size_t which) {
  return memory.data() + (size_t(member) * 2 + which) * part;
}
// Of one member.
void model(const Call &c, const struct pe_team &t, int who, int salt) {
  unsigned char *d = part_of(who, c.which) + 64 + c.shift;
  auto byte = [&](int m, size_t i) {
    return c.goes_on ? part_of(m, !c.which)[c.from + i] : sample(t.pe[m], salt, c.from + i);
  };
  auto add = [&](int end, size_t at) {
    for (size_t i = 0; i < c.n / 4; i++) {
      unsigned acc = 0;
      for (int m = 0; m < end; m++) {
        unsigned v = 0;
        for (size_t b = 0; b < 4; b++) v |= unsigned(byte(m, at + 4 * i + b)) << 8 * b;
        acc += v;
      }
      memcpy(d + 4 * i, &acc, 4);
    }
  };
  const size_t mine = size_t(who) * c.n;
  switch (c.kind) {
  case broadcast:
    for (size_t i = 0; i < c.n; i++) d[i] = byte(c.root, i);
    break;
  case fcollect:
  case collect:
    for (int m = 0; m < t.n; m++)
      for (size_t i = 0; i < (c.kind == collect ? length(c, m) : c.n); i++) *d++ = byte(m, i);
    break;
  case alltoall:
    for (int m = 0; m < t.n; m++)
      for (size_t i = 0; i < c.n; i++) *d++ = byte(m, mine + i);
    break;
  case sum:
    add(t.n, 0);
    break;
  case block_sum:
    add(t.n, mine);
    break;
  case exscan:
    add(who, 0);
    break;
  case exchange:
    for (int m = 0; m < t.n; m++)
      for (size_t i = 0; i < c.n; i++)
        d[size_t(m) * 2 * c.n + i / 2 * 4 + i % 2] = byte(m, mine + i);
    break;
  default:
    break;
  }
}

// The teams of the first and the second stream, of which this PE is a member.
void batches(const struct pe_team (&teams)[2], int salt) {
  constexpr int rounds = 16;
  uint64_t seeds[2] = {uint64_t(salt) * 77 + 1,
                       uint64_t(salt) * 99 + uint64_t(teams[1].pe[0]) * 7 + 2};
  for (int r = 0; r < rounds; r++, salt++) {
    for (size_t i = 0; i < part; i++) host[i] = sample(me, salt, i);
    to_device(source, host.data(), part);
    HIP(hipMemset(dest, 0x55, want.size()));
    for (const auto &t : teams) {
      poison(t.team, (most + 15) / 16, stream);
      HIP(hipStreamSynchronize(stream)); // there is one buffer of marks
    }
    finish_all();
    Call batch[2][calls];
    for (size_t k = 0; k < calls; k++)
      for (int i = 0; i < 2; i++) batch[i][k] = by_chance(&seeds[i], teams[i]);
    for (size_t k = 0; k < calls; k++)
      for (int i = 0; i < 2;
           i++) { // each stream's in its order; which is first differs among the PEs
        const int s = (i + me + r) % 2;
        const Call &c = batch[s][k];
        char *parts = dest + size_t(s) * 2 * part;
        if (me == r % npes && k % 6 == size_t(r) % 6 && i == r / 2 % 2) usleep(10000);
        CHECK(queue(c, teams[s], parts + c.which * part + 64 + c.shift, parts + !c.which * part,
                    s ? second : stream) == 0,
              "kind %d", c.kind);
      }
    for (int s = 0; s < 2; s++) {
      memory.assign(size_t(teams[s].n) * 2 * part, 0x55);
      for (size_t k = 0; k < calls; k++)
        for (int m = 0; m < teams[s].n; m++) model(batch[s][k], teams[s], m, salt);
      memcpy(want.data() + size_t(s) * 2 * part, part_of(teams[s].me, 0), 2 * part);
    }
    HIP(hipStreamSynchronize(stream));
    HIP(hipStreamSynchronize(second));
    from_device(host.data(), dest, want.size());
    for (size_t i = 0; i < want.size(); i++)
      if (host[i] != want[i]) {
        const size_t s = i / part / 2;
        for (const Call &c : batch[s])
          fprintf(stderr, "kind %d, part %zu, n %zu, shift %zu, from %zu, %s %u x %u%s\n", c.kind,
                  c.which, c.n, c.shift, c.from, c.direct ? "direct" : "lines", c.workgroups,
                  c.threads, c.goes_on ? ", goes on" : "");
        CHECK(host[i] == want[i],
              "batch %d, stream %zu, team %s, part %zu, byte %zd is %u, want %u", r, s,
              teams[s].name, i / part % 2, ptrdiff_t(i % part) - 64, host[i], want[i]);
      }
    finish_all();
  }
}

void with_buffers(void (*body)(const struct pe_team *, size_t)) {
  part = size_t(npes) * (5 << 10) + 1024;
  host.resize(4 * part), want.resize(4 * part);
  source = device_alloc(part, 0);
  dest = device_alloc(want.size(), 0x55);
  struct pe_team teams[16];
  const size_t n = pe_teams(teams, COUNT(teams));
  body(teams, n);
  pe_teams_free(teams, n);
  CHECK(shmemx_tune(nullptr) == 0, "the built-in table");
  object_free(dest);
  object_free(source);
}
const struct pe_team *named(const struct pe_team *teams, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(teams[i].name, name) == 0) return teams + i;
  return nullptr;
}

void same_members(void) {
  with_buffers([](const struct pe_team *teams, size_t n) {
    const struct pe_team *other = named(teams, n, "reversed");
    batches({teams[0], other ? *other : teams[1]}, 1);
  });
}
// The world beside its halves: PEs of one half may be far ahead of the other.
void halves(void) {
  with_buffers([](const struct pe_team *teams, size_t n) {
    const struct pe_team *half = named(teams, n, me % 2 ? "odd" : "even");
    if (half) batches({teams[0], *half}, 1000);
  });
}

struct pe_test tests[] = {{"two teams of all PEs", same_members},
                          {"the world and its halves", halves}};

} // namespace

extern "C" {
extern struct pe_list stream_mix_lists[];
extern const size_t stream_mix_count;
struct pe_list stream_mix_lists[] = {PE_LIST("", tests)};
const size_t stream_mix_count = 1;
}

// SPDX-License-Identifier: MIT
// Random calls next to a serial model. Every PE computes the same model from the same seed, so
// every PE knows what all PEs do in each phase and what memory must be after it. Options: --seed N,
// --rounds N.
#include "harness.h"

enum { WORDS = 96, CELLS = 16, OPS = 12, MAX = 16, NTEAMS = 5 };

static struct {
  uint64_t words[WORDS]; // RMA: an owner for each range and phase
  uint64_t cells[CELLS]; // AMO by any PE
  uint64_t signals[CELLS];
} * sym, model[MAX];
static uint64_t static_words[WORDS], static_model[MAX][WORDS];

struct group {
  shmem_team_t team;
  int n, me, pe[MAX];
};
static uint64_t seed, state;
static long rounds = 150, now;
static uint64_t draw(uint64_t below) {
  return pe_random(&state) % below;
}

#define STRESS(cond, ...)                                                                          \
  do {                                                                                             \
    if (!(cond)) {                                                                                 \
      fprintf(stderr, "PE %d: seed %llu round %ld: %s: ", me, (unsigned long long)seed, now,       \
              #cond);                                                                              \
      fprintf(stderr, __VA_ARGS__);                                                                \
      fputc('\n', stderr);                                                                         \
      shmem_global_exit(1);                                                                        \
    }                                                                                              \
  } while (0)

static void compare(const char *phase) {
  for (int i = 0; i < WORDS; i++) {
    STRESS(sym->words[i] == model[me].words[i], "%s: heap word %d is %llx, want %llx", phase, i,
           (unsigned long long)sym->words[i], (unsigned long long)model[me].words[i]);
    STRESS(static_words[i] == static_model[me][i], "%s: static word %d", phase, i);
  }
  for (int i = 0; i < CELLS; i++) {
    STRESS(sym->cells[i] == model[me].cells[i], "%s: cell %d is %llx, want %llx", phase, i,
           (unsigned long long)sym->cells[i], (unsigned long long)model[me].cells[i]);
    STRESS(sym->signals[i] == model[me].signals[i], "%s: signal %d is %llx, want %llx", phase, i,
           (unsigned long long)sym->signals[i], (unsigned long long)model[me].signals[i]);
  }
}

// Each target's words are dealt out in ranges, each to one PE, so that puts do not meet.
static void puts_phase(void) {
  for (int target = 0; target < npes; target++) {
    for (int at = 0; at < WORDS;) {
      const int n = 1 + (int)draw(20), end = at + n < WORDS ? at + n : WORDS;
      const int owner = (int)draw((uint64_t)npes), how = (int)draw(6);
      const uint64_t base = pe_random(&state);
      const bool heap = draw(3) != 0;
      uint64_t out[32];
      uint64_t *dest = heap ? sym->words : static_words;
      uint64_t *want = heap ? model[target].words : static_model[target];
      for (int i = at; i < end; i++) out[i - at] = want[i] = base + (uint64_t)i;
      const size_t len = (size_t)(end - at);
      if (owner == me) {
        switch (how) {
        case 0:
          shmem_uint64_put(dest + at, out, len, target);
          break;
        case 1:
          shmem_uint64_put_nbi(dest + at, out, len, target);
          shmem_quiet(); // out is about to go
          break;
        case 2:
          for (size_t i = 0; i < len; i++) shmem_uint64_p(dest + at + i, out[i], target);
          break;
        case 3:
          shmem_put128(dest + at, out, len / 2, target); // 16 bytes at a time, and the rest
          if (len % 2) shmem_uint64_p(dest + end - 1, out[len - 1], target);
          break;
        case 4:
          shmem_uint64_iput(dest + at, out, 1, 1, len, target);
          break;
        default:
          shmem_putmem(dest + at, out, len * sizeof *out, target);
        }
      }
      at = end;
    }
  }
  shmem_barrier_all();
  compare("put");
  // gets: every PE reads at random and knows the answer
  for (int i = 0; i < OPS * npes; i++) {
    const int who = i % npes, from = (int)draw((uint64_t)npes), at = (int)draw(WORDS);
    const int n = 1 + (int)draw((uint64_t)(WORDS - at > 30 ? 30 : WORDS - at)), how = (int)draw(3);
    if (who != me) continue;
    uint64_t in[32];
    if (how == 0)
      shmem_uint64_get(in, sym->words + at, (size_t)n, from);
    else if (how == 1)
      shmem_getmem(in, sym->words + at, (size_t)n * 8, from);
    else
      for (int k = 0; k < n; k++) in[k] = shmem_uint64_g(sym->words + at + k, from);
    for (int k = 0; k < n; k++)
      STRESS(in[k] == model[from].words[at + k], "get from %d at %d", from, at + k);
  }
  shmem_barrier_all();
}

// Each cell has one kind of operation in a phase, one whose order does not matter.
static void amo_phase(void) {
  for (int target = 0; target < npes; target++) {
    for (int cell = 0; cell < CELLS; cell++) {
      const int kind = (int)draw(4);
      for (int k = 0; k < OPS; k++) {
        const int who = (int)draw((uint64_t)npes);
        const uint64_t v = pe_random(&state);
        uint64_t *a = &sym->cells[cell], *want = &model[target].cells[cell], got;
        switch (kind) {
        case 0:
          *want += v;
          if (who != me) break;
          if (v & 1)
            shmem_uint64_atomic_add(a, v, target);
          else
            shmem_uint64_atomic_fetch_add(a, v, target);
          break;
        case 1:
          *want ^= v;
          if (who != me) break;
          if (v & 1) {
            shmem_uint64_atomic_xor(a, v, target);
          } else {
            shmem_uint64_atomic_fetch_xor_nbi(&got, a, v, target);
            shmem_quiet();
          }
          break;
        case 2:
          *want |= v & 0xff00ff;
          if (who == me) shmem_uint64_atomic_or(a, v & 0xff00ff, target);
          break;
        default:
          *want += 1;
          if (who != me) break;
          for (uint64_t old = shmem_uint64_atomic_fetch(a, target);;) {
            got = shmem_uint64_atomic_compare_swap(a, old, old + 1, target);
            if (got == old) break;
            old = got;
          }
        }
      }
    }
  }
  shmem_barrier_all();
  compare("amo");
  shmem_barrier_all();
}

// A chain from PE to PE in random order: each waits for its signal, then sends one on with data.
static void signal_phase(void) {
  int order[MAX];
  for (int i = 0; i < npes; i++) order[i] = i;
  for (int i = npes - 1; i > 0; i--) {
    const int j = (int)draw((uint64_t)i + 1), swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
  const int cell = (int)draw(CELLS);
  const bool add = draw(2);
  const uint64_t step = 1 + draw(1000);
  for (int i = 0; i < npes; i++) {
    const int from = order[i], to = order[(i + 1) % npes], at = (int)draw(WORDS - 8);
    const uint64_t base = pe_random(&state);
    uint64_t *want = &model[to].signals[cell];
    const uint64_t value = add ? step : *want + step;
    uint64_t out[8];
    for (int k = 0; k < 8; k++) out[k] = model[to].words[at + k] = base * 3 + (uint64_t)k;
    *want = add ? *want + step : value;
    if (from == me) {
      if (base & 1)
        shmem_uint64_put_signal(sym->words + at, out, 8, &sym->signals[cell], value,
                                add ? SHMEM_SIGNAL_ADD : SHMEM_SIGNAL_SET, to);
      else
        shmem_putmem_signal_nbi(sym->words + at, out, sizeof out, &sym->signals[cell], value,
                                add ? SHMEM_SIGNAL_ADD : SHMEM_SIGNAL_SET, to);
      shmem_quiet();
    }
    if (to == me) {
      const uint64_t got = shmem_signal_wait_until(&sym->signals[cell], SHMEM_CMP_EQ, *want);
      STRESS(got == *want, "signal %llx", (unsigned long long)got);
      for (int k = 0; k < 8; k++)
        STRESS(sym->words[at + k] == base * 3 + (uint64_t)k, "data with signal [%d]", k);
    }
  }
  shmem_barrier_all();
  compare("signal");
  shmem_barrier_all();
}

static uint64_t contribution(uint64_t salt, int pe, size_t i) {
  uint64_t s = salt ^ ((uint64_t)pe << 40) ^ i;
  return pe_random(&s);
}

static void coll_phase(const struct group *groups, size_t ngroups, uint64_t *source, uint64_t *dest,
                       size_t room) {
  for (int k = 0; k < 8; k++) {
    const struct group *g = &groups[draw(ngroups)];
    const uint64_t salt = pe_random(&state), r = pe_random(&state);
    const int kind = (int)draw(8), root = (int)(r % (uint64_t)g->n);
    size_t n = r >> 32 & 1 ? r % 40 : r % (room / MAX);
    if (kind == 7) n = n % 50; // for collect: PE i gives n + i
    if (g->me < 0) continue;
    for (size_t i = 0; i < room; i++) {
      dest[i] = ~(uint64_t)0;
      source[i] = contribution(salt, g->me, i);
    }
    STRESS(shmem_team_sync(g->team) == 0, "sync");
    int rc = 0;
    size_t total = n;
    switch (kind) {
    case 0:
      rc = shmem_uint64_broadcast(g->team, dest, source, n, root);
      break;
    case 1:
      rc = shmem_uint64_fcollect(g->team, dest, source, n);
      break;
    case 2:
      rc = shmem_uint64_alltoall(g->team, dest, source, n);
      break;
    case 3:
      rc = shmem_uint64_sum_reduce(g->team, dest, source, n);
      break;
    case 4:
      rc = shmem_uint64_max_reduce(g->team, dest, source, n);
      break;
    case 5:
      rc = shmem_uint64_xor_reduce(g->team, dest, source, n);
      break;
    case 6:
      rc = shmem_uint64_sum_exscan(g->team, dest, source, n);
      break;
    default:
      rc = shmem_uint64_collect(g->team, dest, source, n + (size_t)g->me);
    }
    STRESS(rc == 0, "kind %d gives %d", kind, rc);
    if (kind == 1 || kind == 2) total = n * (size_t)g->n;
    if (kind == 7) total = n * (size_t)g->n + (size_t)g->n * (size_t)(g->n - 1) / 2;
    size_t at = 0;
    int part = 0;
    for (size_t i = 0; i < total; i++) {
      uint64_t want = 0;
      switch (kind) {
      case 0:
        want = contribution(salt, root, i);
        break;
      case 1:
        want = contribution(salt, (int)(i / n), i % n);
        break;
      case 2:
        want = contribution(salt, (int)(i / n), (size_t)g->me * n + i % n);
        break;
      case 7:
        while (at == n + (size_t)part) at = 0, part++;
        want = contribution(salt, part, at++);
        break;
      default:
        for (int pe = 0; pe < (kind == 6 ? g->me : g->n); pe++) {
          const uint64_t v = contribution(salt, pe, i);
          want = kind == 4 ? (v > want ? v : want) : kind == 5 ? want ^ v : want + v;
        }
      }
      STRESS(dest[i] == want, "kind %d on a team of %d, n %zu: [%zu]", kind, g->n, n, i);
    }
    for (size_t i = total; i < total + 4 && i < room; i++)
      STRESS(dest[i] == ~(uint64_t)0, "kind %d, n %zu wrote [%zu]", kind, n, i);
    STRESS(shmem_team_sync(g->team) == 0, "sync");
  }
  shmem_barrier_all();
}

int main(int argc, char **argv) {
  seed = (uint64_t)pe_seconds() * 1000003;
  bool given = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) {
      seed = strtoull(argv[i + 1], NULL, 0);
      given = true;
    }
    if (strcmp(argv[i], "--rounds") == 0) rounds = atol(argv[i + 1]);
  }
  shmem_init();
  me = shmem_my_pe();
  npes = shmem_n_pes();
  if (npes > MAX) shmem_global_exit(2);
  static uint64_t shared;
  shared = seed;
  shmem_barrier_all();
  if (!given) seed = shmem_uint64_g(&shared, 0); // the clocks may differ
  state = seed;
  if (me == 0) printf("seed %llu, %ld rounds, %d PEs\n", (unsigned long long)seed, rounds, npes);
  fflush(stdout);
  shmem_barrier_all();

  sym = shmem_calloc(1, sizeof *sym);
  const size_t room = 20000;
  uint64_t *source = shmem_malloc(room * sizeof *source), *dest = shmem_malloc(room * sizeof *dest);
  for (now = 0; now < rounds; now++) {
    struct group groups[NTEAMS];
    for (int k = 0; k < NTEAMS; k++) { // the world, and random strided teams
      struct group *g = &groups[k];
      const int start = k ? (int)draw((uint64_t)npes) : 0;
      int stride = k ? (int)draw((uint64_t)npes) - npes / 2 : 1, size = npes;
      if (stride == 0) stride = 1;
      for (; start + stride * (size - 1) >= npes || start + stride * (size - 1) < 0;) size--;
      if (k && size > 1) size = 1 + (int)draw((uint64_t)size);
      g->n = size;
      g->me = -1;
      for (int i = 0; i < size; i++) {
        g->pe[i] = start + i * stride;
        if (g->pe[i] == me) g->me = i;
      }
      g->team = SHMEM_TEAM_WORLD;
      if (k == 0) continue;
      STRESS(shmem_team_split_strided(SHMEM_TEAM_WORLD, start, stride, size, NULL, 0, &g->team) ==
                 0,
             "split %d:%d:%d", start, stride, size);
      STRESS(shmem_team_my_pe(g->team) == g->me, "split %d:%d:%d", start, stride, size);
    }
    for (int phase = 0; phase < 4; phase++) {
      switch (draw(4)) {
      case 0:
        puts_phase();
        break;
      case 1:
        amo_phase();
        break;
      case 2:
        signal_phase();
        break;
      default:
        coll_phase(groups, NTEAMS, source, dest, room);
      }
    }
    for (int k = 1; k < NTEAMS; k++) shmem_team_destroy(groups[k].team);
  }
  shmem_free(dest);
  shmem_free(source);
  shmem_free(sym);
  shmem_finalize();
  return 0;
}

// SPDX-License-Identifier: MIT
// SHMEM_THREAD_MULTIPLE: several threads of each PE work at once. CMocka's checks are for the main
// thread only; the others count their errors. Synchronization between PEs is by the library alone,
// so ThreadSanitizer sees what it promises.
#include <pthread.h>
#include <stdatomic.h>

#include "harness.h"

enum { THREADS = 4 };

static _Atomic int errors;
static char first_error[256];

static void note(int line, const char *format, ...) {
  int n = snprintf(first_error, sizeof first_error, "line %d: ", line);
  va_list args;
  va_start(args, format);
  vsnprintf(first_error + n, sizeof first_error - (size_t)n, format, args);
  va_end(args);
}

#define EXPECT(cond, ...)                                                                          \
  do {                                                                                             \
    if (!(cond) && atomic_fetch_add(&errors, 1) == 0) note(__LINE__, __VA_ARGS__);                 \
  } while (0)

struct job {
  int id;
  void (*work)(int id);
};
static void *start(void *arg) {
  const struct job *job = arg;
  job->work(job->id);
  return NULL;
}
static void in_threads(void (*work)(int id)) {
  pthread_t threads[THREADS];
  struct job jobs[THREADS];
  atomic_store(&errors, 0);
  shmem_barrier_all();
  for (int i = 0; i < THREADS; i++) {
    jobs[i] = (struct job){i, work};
    CHECK(pthread_create(&threads[i], NULL, start, &jobs[i]) == 0, "pthread_create");
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CHECK(errors == 0, "%d errors, the first: %s", errors, first_error);
  shmem_barrier_all();
}

static long boxes[THREADS][64], counter, slots[THREADS];
static uint64_t signals[THREADS];

static void rma_work(int id) { // each thread has its own box on the right neighbour
  const int right = (me + 1) % npes;
  long out[64], in[64];
  for (int r = 0; r < 100; r++) {
    for (int i = 0; i < 64; i++) out[i] = r * 100 + i + id + me;
    shmem_long_put(boxes[id], out, 64, right);
    shmem_quiet();
    shmem_long_get(in, boxes[id], 64, right);
    for (int i = 0; i < 64; i++) EXPECT(in[i] == out[i], "thread %d round %d: %ld", id, r, in[i]);
  }
}
static void rma(void) {
  in_threads(rma_work);
}

static void amo_work(int id) {
  for (int r = 0; r < 500; r++) {
    shmem_long_atomic_inc(&counter, (r + id) % npes);
    const long v = shmem_long_atomic_fetch_add(&slots[id], 1, me);
    EXPECT(v == r, "own slot: %ld", v);
  }
}
static void amo(void) {
  counter = 0;
  memset(slots, 0, sizeof slots);
  in_threads(amo_work);
  long sum = 0;
  for (int pe = 0; pe < npes; pe++) sum += shmem_long_g(&counter, pe);
  CHECK(sum == 500L * THREADS * npes, "%ld", sum);
  shmem_barrier_all();
}

static void ctx_work(int id) { // contexts come and go in all threads
  const int right = (me + 1) % npes;
  for (int r = 0; r < 100; r++) {
    shmem_ctx_t c;
    const int rc = shmem_ctx_create(r & 1 ? SHMEM_CTX_PRIVATE : SHMEM_CTX_SERIALIZED, &c);
    EXPECT(rc == 0, "ctx_create %d", rc);
    if (rc) return;
    const long v = r * 10 + me;
    shmem_ctx_long_put_nbi(c, &boxes[id][r % 64], &v, 1, right);
    shmem_ctx_fence(c);
    shmem_ctx_quiet(c);
    EXPECT(shmem_ctx_long_g(c, &boxes[id][r % 64], right) == v, "thread %d", id);
    shmem_ctx_destroy(c);
  }
}
static void contexts(void) {
  in_threads(ctx_work);
}

static shmem_ctx_t shared_ctx;
static void shared_ctx_work(int id) { // one shareable context, all threads
  const int right = (me + 1) % npes;
  for (long r = 1; r <= 200; r++) {
    shmem_ctx_long_p(shared_ctx, &boxes[id][0], r, right);
    shmem_ctx_quiet(shared_ctx);
    EXPECT(shmem_ctx_long_g(shared_ctx, &boxes[id][0], right) == r, "thread %d", id);
  }
}
static void shareable(void) {
  CHECK(shmem_ctx_create(0, &shared_ctx) == 0, "ctx_create");
  in_threads(shared_ctx_work);
  shmem_ctx_destroy(shared_ctx);
}

static void signal_work(int id) { // thread id of each PE plays with thread id of its neighbours
  const int right = (me + 1) % npes, left = (me + npes - 1) % npes;
  for (uint64_t r = 1; r <= 200; r++) {
    const long out = (long)r * 100 + me;
    shmem_long_put_signal(&boxes[id][r % 2], &out, 1, &signals[id], 1, SHMEM_SIGNAL_ADD, right);
    const uint64_t got = shmem_signal_wait_until(&signals[id], SHMEM_CMP_GE, r);
    EXPECT(got == r || got == r + 1, "signal %d", (int)got);
    const long in = *(volatile long *)&boxes[id][r % 2];
    EXPECT(in == (long)r * 100 + left, "thread %d round %d: %ld", id, (int)r, in);
    shmem_long_p(&slots[id], (long)r, left); // read: the left one may use the box again
    if (id & 1)
      shmem_long_wait_until(&slots[id], SHMEM_CMP_GE, (long)r);
    else
      while (!shmem_long_test(&slots[id], SHMEM_CMP_GE, (long)r)) {
      }
  }
}
static void signals_and_waits(void) {
  memset(signals, 0, sizeof signals);
  memset(slots, 0, sizeof slots);
  in_threads(signal_work);
}

// A thread that waits does not stop the others of its PE: thread 0 waits for thread 1's message.
static void blocked_work(int id) {
  if (id == 0) {
    shmem_signal_wait_until(&signals[0], SHMEM_CMP_EQ, 7);
  } else {
    for (int r = 0; r < 100; r++) shmem_long_atomic_inc(&counter, (me + 1) % npes);
    shmem_quiet();
    if (id == 1) shmem_signal_set(SHMEM_CTX_DEFAULT, &signals[0], 7, me);
  }
}
static void blocked(void) {
  signals[0] = 0;
  counter = 0;
  in_threads(blocked_work);
  CHECK(counter == 100 * (THREADS - 1), "%ld", counter);
}

static shmem_team_t teams[THREADS];
static long sources[THREADS][8], results[THREADS][8], casts[THREADS];

static void coll_work(int id) { // each thread has a team of its own
  for (long r = 0; r < 100; r++) {
    for (int i = 0; i < 8; i++) sources[id][i] = r + i + me;
    const int rc = shmem_long_sum_reduce(teams[id], results[id], sources[id], 8);
    EXPECT(rc == 0, "rc %d", rc);
    for (int i = 0; i < 8; i++)
      EXPECT(results[id][i] == (r + i) * npes + (long)npes * (npes - 1) / 2, "team %d [%d] %ld", id,
             i, results[id][i]);
    sources[id][0] = r * 3; // the dest is another one: a peer may still be at the one above
    EXPECT(shmem_long_broadcast(teams[id], &casts[id], sources[id], 1, (int)(r % npes)) == 0, "rc");
    EXPECT(casts[id] == r * 3, "team %d: %ld", id, casts[id]);
    EXPECT(shmem_team_sync(teams[id]) == 0, "sync");
  }
}
static void collectives(void) {
  for (int i = 0; i < THREADS; i++)
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, i & 1 ? npes - 1 : 0, i & 1 ? -1 : 1, npes,
                                   NULL, 0, &teams[i]) == 0,
          "split");
  in_threads(coll_work);
}

static void split_work(int id) { // different parents may be split at once
  for (int r = 0; r < 50; r++) {
    shmem_team_t child;
    EXPECT(shmem_team_split_strided(teams[id], 0, 1, npes, NULL, 0, &child) == 0, "split");
    EXPECT(shmem_team_n_pes(child) == npes, "n_pes");
    EXPECT(shmem_team_sync(child) == 0, "sync");
    shmem_ctx_t c;
    EXPECT(shmem_team_create_ctx(child, 0, &c) == 0, "ctx");
    shmem_ctx_destroy(c);
    shmem_team_destroy(child);
  }
}
static void splits(void) {
  in_threads(split_work);
  for (int i = 0; i < THREADS; i++) shmem_team_destroy(teams[i]);
}

static void query_work(int id) {
  for (int r = 0; r < 200; r++) {
    int on = 0, level = -1;
    shmem_query_initialized(&on);
    shmem_query_thread(&level);
    EXPECT(on && level == SHMEM_THREAD_MULTIPLE, "%d %d", on, level);
    EXPECT(shmem_my_pe() == me && shmem_n_pes() == npes, "thread %d", id);
    EXPECT(shmem_addr_accessible(&counter, me) == 1, "counter");
    EXPECT(shmem_ptr(&counter, (me + r) % npes) == NULL ||
               shmem_team_translate_pe(SHMEM_TEAM_WORLD, me, SHMEM_TEAM_WORLD) == me,
           "translate");
  }
}
static void queries(void) {
  in_threads(query_work);
}

// Threads take turns by the library's lock: PEs by lock, threads of one PE by a mutex, since a lock
// is not for two threads.
static long lock, guarded;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void lock_work(int id) {
  (void)id;
  for (int r = 0; r < 40; r++) {
    pthread_mutex_lock(&mutex);
    shmem_set_lock(&lock);
    shmem_long_p(&guarded, shmem_long_g(&guarded, 0) + 1, 0);
    shmem_clear_lock(&lock);
    pthread_mutex_unlock(&mutex);
  }
}
static void locks(void) {
  guarded = 0;
  in_threads(lock_work);
  CHECK(shmem_long_g(&guarded, 0) == 40L * THREADS * npes, "%ld", guarded);
  shmem_barrier_all();
}

static const struct pe_test tests[] = {{"RMA", rma},
                                       {"AMO", amo},
                                       {"contexts", contexts},
                                       {"a shareable context", shareable},
                                       {"signals and waits", signals_and_waits},
                                       {"a thread that waits", blocked},
                                       {"collectives of several teams", collectives},
                                       {"splits of several teams", splits},
                                       {"queries", queries},
                                       {"locks", locks}};

int main(void) {
  int provided = -1;
  if (shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) != 0) return 1;
  if (provided != SHMEM_THREAD_MULTIPLE) {
    fprintf(stderr, "level %d is provided\n", provided);
    shmem_global_exit(1);
  }
  const struct pe_list all = PE_LIST("", tests);
  if (pe_run_tests("threads", &all, 1)) shmem_global_exit(1);
  shmem_finalize();
  return 0;
}

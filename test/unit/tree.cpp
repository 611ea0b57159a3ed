// SPDX-License-Identifier: MIT
// How processes that no launcher started meet: each is a fork of this one, and writes how its start
// ended into shared memory.
#include "../../lib/bootstrap/tree.hpp"
#include "../../lib/log.hpp"
#include "../../lib/thread.hpp"
#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <functional>
#include <netinet/in.h>
#include <random>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

void shmem::fatal(const char *, ...) {
  abort();
}
int shmem::start_thread(pthread_t *thread, void *(*run)(void *), void *argument, size_t) {
  return pthread_create(thread, nullptr, run, argument);
}

using namespace shmem::bootstrap;

namespace {

constexpr int most = 256;
// SHMEM_BOOTSTRAP_TIMEOUT of a test's jobs, shorter where a PE is missing. On a busy machine 40 of
// 70 processes once came after more than 4 s (2026-11-30).
double limit;

struct End {
  int state; // 0: none, 1: right, 2: failed
  char error[240];
} * ends;

struct Job {
  Id id;
  int n;
  pid_t pids[most] = {};
};

pid_t start(std::function<void()> run) {
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    alarm(90);
    run();
    _exit(0);
  }
  return pid;
}

int descriptors() {
  int n = 0;
  DIR *dir = opendir("/proc/self/fd");
  while (readdir(dir)) n++;
  closedir(dir);
  return n;
}

// Each id is made by a process of its own, so that the threads that serve the ids are none of this
// process, which forks: a sanitizer's allocator may keep a lock for ever in a fork of a process
// that starts or ends a thread (gcc 12, 2026-11-27).
std::vector<int> roots; // a socket to each

void serve_root(int socket, const char *interfaces) {
  const int before = descriptors();
  Id id;
  std::string error;
  if (!make_id(interfaces, 0, nullptr, limit, &id, &error)) abort();
  char over;
  if (write(socket, &id, sizeof id) != sizeof id || read(socket, &over, 1) != 0) abort();
  // The thread ends, and its sockets with it, when PE 0 has left.
  bool left = true;
  for (int tries = 0; left && tries < 200; tries++)
    if ((left = descriptors() > before)) usleep(10000);
  if (write(socket, &left, 1) != 1) abort();
}

Id new_id(const char *interfaces = nullptr) {
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const pid_t between = start([&] { // wait_all need not know the root
    close(pair[0]);
    start([&] { alarm(120), serve_root(pair[1], interfaces); });
  });
  assert_int_equal(waitpid(between, nullptr, 0), between);
  close(pair[1]);
  roots.push_back(pair[0]);
  Id id;
  assert_int_equal(read(pair[0], &id, sizeof id), sizeof id);
  return id;
}

// A rank's bytes in a round: other lengths and other bytes.
std::string gift(int rank, int round) {
  return std::string(size_t(rank * 7 + round) % 50, char('a' + round)) + std::to_string(rank);
}

void finish(int slot, const std::string &error) {
  ends[slot].state = error.empty() ? 1 : 2;
  snprintf(ends[slot].error, sizeof ends[slot].error, "%s", error.c_str());
  _exit(0);
}

// A PE: joins, and passes bytes three times.
void run_pe(const Id &id, int rank, int n, int slot) {
  Tree tree(id, rank, n, nullptr, limit, false);
  int state;
  while ((state = tree.join(100)) == 0) {
  }
  for (int round = 0; state == 1 && round < 3; round++) {
    tree.begin_gather(gift(rank, round));
    while ((state = tree.gathered(100)) == 0) {
    }
    for (int i = 0; state == 1 && i < n; i++)
      if (tree.all()[size_t(i)] != gift(i, round)) finish(slot, "other bytes have come");
  }
  const std::string error = state < 0 ? tree.error() : "";
  tree.leave();
  finish(slot, error);
}

void start_pe(Job *job, int rank) {
  job->pids[rank] = start([=, id = job->id, n = job->n] { run_pe(id, rank, n, rank); });
}
void wait_all() {
  int status;
  while (wait(&status) > 0)
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
      fail_msg("a process ended by signal %d", WTERMSIG(status));
}
void expect_right(const Job &job) {
  for (int r = 0; r < job.n; r++)
    if (ends[r].state != 1)
      fail_msg("rank %d of %d: %s", r, job.n, ends[r].state ? ends[r].error : "no end");
}
void expect_line(int n, int but, const char *what, int first = 0) {
  for (int r = 0; r < n; r++) {
    const End &end = ends[first + r];
    if (r != but && (end.state != 2 || !strstr(end.error, what)))
      fail_msg("rank %d of %d: \"%s\", want \"%s\"", r, n, end.error, what);
  }
}

int before(void **) {
  limit = 60;
  memset(ends, 0, most * sizeof *ends);
  return 0;
}
int end_roots(bool check) {
  int left = 0;
  for (int socket : roots) {
    bool one = true;
    shutdown(socket, SHUT_WR);
    if (check && (read(socket, &one, 1) != 1 || one)) left++;
    close(socket);
  }
  roots.clear();
  return left ? -1 : 0;
}
int nothing_left(void **) {
  return end_roots(true);
}
// A root whose job has failed listens for 10 s more.
int after_failure(void **) {
  return end_roots(false);
}

void sizes(void **) {
  for (int n : {1, 2, 3, 4, 8, 33, 34, 64, 200}) {
    memset(ends, 0, most * sizeof *ends);
    Job job{new_id(), n};
    for (int r = 0; r < n; r++) start_pe(&job, r);
    wait_all();
    expect_right(job);
  }
}

void any_order(void **) {
  std::mt19937 random(1);
  for (int round = 0; round < 5; round++) {
    memset(ends, 0, most * sizeof *ends);
    Job job{new_id(), 70};
    std::vector<int> order(size_t(job.n), 0);
    for (int r = 0; r < job.n; r++) order[size_t(r)] = r;
    std::shuffle(order.begin(), order.end(), random);
    for (int r : order) start_pe(&job, r);
    wait_all();
    expect_right(job);
  }
}

// A process that makes an id and forks its PEs, while those that are there connect.
void forks_of_the_root(void **) {
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
  for (int round = 0; round < 10; round++) {
    memset(ends, 0, most * sizeof *ends);
    Job job{{}, 40};
    start([&] {
      Id id;
      std::string error;
      if (!make_id(nullptr, 0, nullptr, limit, &id, &error)) abort();
      job.id = id;
      for (int r = 0; r < job.n; r++) start_pe(&job, r);
      wait_all();
    });
    wait_all();
    expect_right(job);
  }
#endif
}

void two_jobs(void **) {
  Job a{new_id(), 5}, b{new_id(), 5};
  for (int r = 0; r < 5; r++) {
    start_pe(&a, r);
    start([=] { run_pe(b.id, r, 5, 100 + r); });
  }
  wait_all();
  expect_right(a);
  for (int r = 0; r < 5; r++) assert_int_equal(ends[100 + r].state, 1);
}

void late(void **) {
  Job job{new_id(), 8};
  for (int r = 0; r < 8; r++) {
    if (r == 2) usleep(1500000);
    start_pe(&job, 7 - r);
  }
  wait_all();
  expect_right(job);
}

// Three jobs wait beside each other.
void one_never_comes(void **) {
  limit = 12;
  constexpr int n = 40, missing[] = {0, 3, 33};
  for (int j = 0; j < 3; j++) {
    const Id id = new_id();
    for (int r = 0; r < n; r++)
      if (r != missing[j]) start([=] { run_pe(id, r, n, j * n + r); });
  }
  wait_all();
  for (int j = 0; j < 3; j++) {
    char want[80];
    snprintf(want, sizeof want, "rank %d has not come within %g seconds (SHMEM_BOOTSTRAP_TIMEOUT)",
             missing[j], limit);
    expect_line(n, missing[j], want, j * n);
  }
}

// At any time of the start: the others hear of it at once, or all had started. A PE that has not
// connected yet is waited for, so three jobs run beside each other.
void killed(void **) {
  limit = 4;
  std::mt19937 random(2);
  constexpr int n = 36, jobs = 3;
  for (int round = 0; round < 10; round++) {
    memset(ends, 0, most * sizeof *ends);
    for (int j = 0; j < jobs; j++) {
      Job job{new_id(), n};
      const auto victim = random() % n, pause = random() % 30000;
      start([=]() mutable {
        for (int r = 0; r < n; r++) job.pids[r] = start([=] { run_pe(job.id, r, n, j * n + r); });
        usleep(unsigned(pause));
        kill(job.pids[victim], SIGKILL);
        wait_all();
      });
    }
    const int64_t from = now();
    wait_all();
    assert_true(now() - from < 14'000'000'000);
    for (int j = 0; j < jobs; j++) {
      int right = 0, failed = 0;
      for (int r = j * n; r < (j + 1) * n; r++)
        right += ends[r].state == 1, failed += ends[r].state == 2;
      // A PE that has passed its bytes on may have ended well before another hears of the death.
      if (right + failed < n - 1) fail_msg("round %d: %d and %d", round, right, failed);
    }
  }
}

// A PE ends when its last bytes for the start are out. The end comes with these bytes; a later
// gather then waits, and the end is heard of.
void ends_with_last_bytes(void **) {
  Job job{new_id(), 2};
  start([=] {
    Tree tree(job.id, 0, 2, nullptr, limit, false);
    while (tree.join(100) == 0) {
    }
    tree.begin_gather("0");
    while (tree.gathered(100) == 0) {
    }
    finish(0, tree.error());
  });
  start([=] {
    Tree tree(job.id, 1, 2, nullptr, limit, false);
    while (tree.join(100) == 0) {
    }
    tree.begin_gather("1");
    int state = tree.gathered(0);
    usleep(300000); // rank 0 gathers, and ends
    if (state == 0) state = tree.gathered(1000);
    if (state != 1) finish(1, "the bytes have not come");
    tree.started();
    tree.begin_gather("1");
    if (tree.gathered(1000) != 0) finish(1, "a gather that cannot end: " + tree.error());
    const auto end = tree.heard();
    finish(1, end && end->pe == 0 ? "" : "the end of rank 0 was not heard of");
  });
  wait_all();
  expect_right(job);
}

void the_root_ends(void **) {
  int ends_of[2];
  assert_int_equal(pipe(ends_of), 0);
  const pid_t root = start([&] {
    Id id;
    std::string error;
    if (!make_id(nullptr, 0, nullptr, limit, &id, &error)) abort();
    if (write(ends_of[1], &id, sizeof id) != sizeof id) abort();
    pause();
  });
  Job job{{}, 4};
  close(ends_of[1]);
  assert_int_equal(read(ends_of[0], &job.id, sizeof job.id), sizeof job.id);
  close(ends_of[0]);
  for (int r = 0; r < 3; r++) start_pe(&job, r);
  usleep(200000);
  kill(root, SIGKILL);
  wait_all();
  expect_line(3, -1, "the process that made the unique id has ended while the job started");
}

void used_up(void **) {
  Job job{new_id(), 2};
  start_pe(&job, 0), start_pe(&job, 1);
  wait_all();
  expect_right(job);
  start_pe(&job, 0), start_pe(&job, 1);
  wait_all();
  expect_line(2, -1, "the process that made the unique id, at ");
}

void other_bits(void **) {
  Job job{new_id(), 2};
  Job wrong = job;
  wrong.id.secret[3] ^= 1;
  start_pe(&wrong, 0), start_pe(&wrong, 1);
  wait_all();
  expect_line(2, -1, "another job's id, or one that is used up");
  memset(ends, 0, most * sizeof *ends);
  start_pe(&job, 0), start_pe(&job, 1); // which are not hindered
  wait_all();
  expect_right(job);
}

void wrong_ranks(void **) {
  struct {
    int rank, n;
    const char *line;
  } const cases[] = {
      {3, 3, "rank 3 of 3 PEs: ranks are 0 to 2"},
      {-1, 3, "rank -1 of 3 PEs: ranks are 0 to 2"},
      {0, 0, "rank 0 of 0 PEs: ranks are 0 to 0"},
      {2, 4, "that it has "},
      {1, 3, "two processes say that they are rank 1"},
  };
  for (const auto &c : cases) {
    memset(ends, 0, most * sizeof *ends);
    Job job{new_id(), 3};
    start_pe(&job, 0), start_pe(&job, 1);
    start([&] { run_pe(job.id, c.rank, c.n, 2); });
    wait_all();
    expect_line(3, -1, c.line);
  }
}

// Connections that say nothing, and that say something else.
void strangers(void **) {
  Job job{new_id(), 4};
  sockaddr_in to{};
  to.sin_family = AF_INET, to.sin_port = htons(job.id.where.port);
  assert_int_equal(job.id.where.packed[0], 4); // an IPv4 address comes first
  memcpy(&to.sin_addr, job.id.where.packed + 1, 4);
  start([&] {
    int fds[300];
    for (int i = 0; i < 10000; i++) {
      int &fd = fds[i % 300];
      if (i >= 300) close(fd);
      fd = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(fd, reinterpret_cast<sockaddr *>(&to), sizeof to) < 0) _exit(0); // it has closed
      char garbage[400];
      memset(garbage, i, sizeof garbage);
      if (i % 3) send(fd, garbage, size_t(i) % sizeof garbage, MSG_NOSIGNAL);
    }
  });
  for (int r = 0; r < 4; r++) usleep(50000), start_pe(&job, r);
  wait_all();
  expect_right(job);
}

void interfaces(void **) {
  Id id;
  std::string error;
  assert_false(make_id("nosuch0", 0, nullptr, limit, &id, &error));
  assert_string_equal(error.c_str(),
                      "SHMEM_BOOTSTRAP_INTERFACE = \"nosuch0\": no interface of this "
                      "name or address is up");
  id = new_id("nosuch0,127.0.0.1");
  assert_int_equal(id.where.n, 5);
  char text[32];
  snprintf(text, sizeof text, "127.0.0.1:%d", id.where.port);
  assert_string_equal(id.where.text().c_str(), text);
  Job job{id, 3};
  for (int r = 0; r < 3; r++) start_pe(&job, r);
  wait_all();
  expect_right(job);
}

// By OpenSSL 3.0: openssl mac -macopt hexkey:000102030405060708090a0b0c0d0e0f -macopt size:16
// -in FILE SIPHASH, of the bytes 0, 1, 2, ...
void hashes(void **) {
  struct {
    size_t n;
    Tag tag;
  } const cases[] = {
      {0,
       {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 2,
        0x93}},
      {1,
       {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc,
        0x45}},
      {15,
       {0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3,
        0xd9}},
      {63,
       {0x51, 0x50, 0xd1, 0x77, 0x2f, 0x50, 0x83, 0x4a, 0x50, 0x3e, 0x06, 0x9a, 0x97, 0x3f, 0xbd,
        0x7c}},
  };
  Secret key;
  uint8_t bytes[63];
  for (size_t i = 0; i < 16; i++) key[i] = uint8_t(i);
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = uint8_t(i);
  for (const auto &c : cases) assert_true(same(keyed_hash(key, bytes, c.n), c.tag));
  assert_false(same(cases[0].tag, cases[1].tag));
}

} // namespace

#define TEST(f) cmocka_unit_test_setup_teardown(f, before, nothing_left)
#define FAILING(f) cmocka_unit_test_setup_teardown(f, before, after_failure)

int main() {
  ends = static_cast<End *>(mmap(nullptr, most * sizeof *ends, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const CMUnitTest tests[] = {
      TEST(the_root_ends),      FAILING(ends_with_last_bytes),
      cmocka_unit_test(hashes), TEST(sizes),
      TEST(any_order),          TEST(forks_of_the_root),
      TEST(two_jobs),           TEST(late),
      FAILING(killed),          TEST(used_up),
      TEST(interfaces),         TEST(strangers),
      TEST(other_bits),         FAILING(wrong_ranks),
      FAILING(one_never_comes),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: MIT
#include "rendezvous.hpp"
#include "descriptors.hpp"
#include "log.hpp"
#include "thread.hpp"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace shmem::rendezvous {

namespace {

constexpr uint64_t magic = 0x73686d656d6a6e03; // "shmemjn" and the version of these messages

struct Hello {
  uint64_t magic;
  int local, pid;
};
struct Verdict {
  enum Result : int { welcome, not_this_user, other_version, taken } what;
  int number; // the user, or the process that has this PE's place
  char text[112];
};

constexpr int strangers = 16; // connections without a hello at a time

// The leader's. Each array has an element for each PE of the node; those of connections have some
// more for strangers.
struct Door {
  int n, listener = -1, stop = -1;
  pthread_t thread;
  Verdict answer{};
  size_t bytes;
  int fds[shared];
  std::unique_ptr<std::atomic<int>[]> pid; // of PEs that have come
  std::unique_ptr<int[]> process;          // pidfds
  std::unique_ptr<int[]> local;            // of each connection, -1 for a stranger's
  std::unique_ptr<bool[]> up;              // this connection's PE needs it no more
  std::unique_ptr<pollfd[]> polled;        // the listener, stop, the connections
  int connections = 0, come = 0;
  std::atomic<int> ended{-1};
};
std::unique_ptr<Door> door; // while PEs meet

int leader = -1; // another PE's connection to the leader

int own_process() {
  return int(syscall(SYS_pidfd_open, getpid(), 0));
}

socklen_t name_of(const bootstrap::Place &place, sockaddr_un *name) {
  name->sun_family = AF_UNIX;
  const int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "shmem-%016" PRIx64 "-%d",
                         bootstrap::job_number(), place.pes[0]);
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + size_t(n));
}

void refuse(int fd, Verdict::Result what, int number) {
  const Verdict a{what, number, {}};
  send(fd, &a, sizeof a, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void forget(int i) {
  close(door->polled[2 + i].fd);
  const int last = --door->connections;
  door->polled[2 + i] = door->polled[2 + last];
  door->local[i] = door->local[last];
  door->up[i] = door->up[last];
}

void admit() {
  const int fd = accept4(door->listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    if (errno == EMFILE || errno == ENFILE)
      fatal("shmem_init: this process, the first of %d PEs on its node, has no descriptor left for "
            "another PE: raise the limit of open files (ulimit -n)",
            door->n);
    return;
  }
  ucred theirs{};
  socklen_t size = sizeof theirs;
  getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &theirs, &size);
  int waiting = 0;
  for (int i = 0; i < door->connections; i++) waiting += door->local[i] < 0;
  if (theirs.uid != getuid() && theirs.uid != geteuid()) {
    refuse(fd, Verdict::not_this_user, int(getuid()));
    close(fd);
  } else if (waiting == strangers) {
    close(fd);
  } else {
    const int i = door->connections++;
    door->polled[2 + i] = {fd, POLLIN, 0};
    door->local[i] = -1;
    door->up[i] = false;
  }
}

// Sends each PE the descriptors of the next two processes, which it will watch.
void introduce() {
  for (int i = 0; i < door->connections; i++) {
    if (door->local[i] < 0) continue;
    int fds[2], n = 0;
    bool there[2] = {};
    for (int k = 0; k < 2; k++) {
      const int of = door->process[(door->local[i] + 1 + k) % door->n];
      if ((there[k] = of >= 0)) fds[n++] = of;
    }
    send_descriptors(door->polled[2 + i].fd, there, sizeof there, fds, n);
  }
}

void greet(int i) {
  Hello hello{};
  int fds[most_passed];
  const int fd = door->polled[2 + i].fd, local = [&] {
    const ssize_t got = receive_descriptors(fd, &hello, sizeof hello, fds);
    const bool right = got == sizeof hello && hello.magic == magic;
    return right && hello.local > 0 && hello.local < door->n ? hello.local : -1;
  }();
  const int taken = local < 0 ? 0 : door->pid[local].load();
  if (local < 0 || taken) {
    refuse(fd, taken ? Verdict::taken : Verdict::other_version, taken);
    for (int f : fds)
      if (f >= 0) close(f);
    return forget(i);
  }
  door->local[i] = local;
  door->process[local] = fds[0];
  door->pid[local] = hello.pid;
  send_descriptors(fd, &door->answer, sizeof door->answer, door->fds, shared);
  if (++door->come == door->n - 1) {
    close(door->listener);
    door->polled[0].fd = door->listener = -1;
    introduce();
  }
}

void *serve(void *) {
  door->polled[0] = {door->listener, POLLIN, 0};
  door->polled[1] = {door->stop, POLLIN, 0};
  while (door->come < door->n - 1 || !door->polled[1].revents) {
    if (poll(door->polled.get(), 2 + nfds_t(door->connections), -1) < 0) continue;
    for (int i = door->connections - 1; i >= 0; i--) {
      if (!door->polled[2 + i].revents) continue;
      if (door->local[i] < 0) {
        greet(i);
        continue;
      }
      char done;
      if (recv(door->polled[2 + i].fd, &done, 1, MSG_DONTWAIT) == 1) {
        door->up[i] = true;
        continue;
      }
      if (!door->up[i]) door->ended = door->local[i];
      forget(i);
    }
    if (door->polled[0].revents) admit();
  }
  while (door->connections) forget(0);
  return nullptr;
}

// Half a second at most, in short sleeps: the leader may be about to come.
bool connect_to(const sockaddr_un &name, socklen_t bytes) {
  for (int slept = 0, nap = 100; slept < 500000; slept += nap, nap = std::min(nap * 2, 5000)) {
    leader = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (leader < 0) fatal("shmem_init: a socket to the node's first PE: %s", strerror(errno));
    if (connect(leader, reinterpret_cast<const sockaddr *>(&name), bytes) == 0) return true;
    close(leader);
    leader = -1;
    usleep(useconds_t(nap));
  }
  return false;
}

} // namespace

void lead(const bootstrap::Place &place, const void *welcome, size_t bytes, const int *fds) {
  const size_t n = size_t(unsigned(place.n_local)); // gcc 12 warns of negative sizes
  door = std::make_unique<Door>();
  door->n = place.n_local;
  memcpy(door->answer.text, welcome, std::min(bytes, sizeof door->answer.text));
  std::copy_n(fds, shared, door->fds);
  door->pid = std::make_unique<std::atomic<int>[]>(n);
  door->process = std::make_unique<int[]>(n);
  door->local = std::make_unique<int[]>(n + strangers);
  door->up = std::make_unique<bool[]>(n + strangers);
  door->polled = std::make_unique<pollfd[]>(2 + n + strangers);
  door->pid[0] = getpid();
  door->process[0] = own_process();
  sockaddr_un name{};
  const socklen_t length = name_of(place, &name);
  door->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  door->stop = eventfd(0, EFD_CLOEXEC);
  if (door->listener < 0 || door->stop < 0)
    fatal("shmem_init: a socket for the node's PEs: %s", strerror(errno));
  if (bind(door->listener, reinterpret_cast<sockaddr *>(&name), length) < 0) {
    if (errno == EADDRINUSE)
      fatal("shmem_init: another process is PE %d of this job: a PE started two programs at once",
            place.me);
    fatal("shmem_init: a socket for the node's PEs: %s", strerror(errno));
  }
  if (listen(door->listener, std::min(door->n + strangers, 4096)) < 0)
    fatal("shmem_init: a socket for the node's PEs: %s", strerror(errno));
  if (const int error = start_thread(&door->thread, serve))
    fatal("shmem_init: the thread that meets the node's PEs: %s", strerror(error));
}

bool follow(const bootstrap::Place &place, void *welcome, size_t bytes, int *fds) {
  static bool said;
  sockaddr_un name{};
  const socklen_t length = name_of(place, &name);
  if (leader < 0) {
    if (!connect_to(name, length)) return false;
    said = false;
  }
  if (!said) {
    const Hello hello{magic, place.local, getpid()};
    const int process = own_process();
    said = send_descriptors(leader, &hello, sizeof hello, &process, process >= 0);
    if (process >= 0) close(process);
  }
  pollfd p{leader, POLLIN, 0};
  if (poll(&p, 1, 500) <= 0) return false;
  Verdict answer{};
  int got[most_passed];
  const ssize_t length_got = receive_descriptors(leader, &answer, sizeof answer, got);
  if (length_got <= 0) { // that leader is gone; perhaps a next one comes
    close(leader);
    leader = -1;
    usleep(1000);
    return false;
  }
  if (answer.what == Verdict::not_this_user)
    fatal("shmem_init: the node's first PE runs as user %d, this one as user %d: the PEs of a node "
          "must run as one user",
          answer.number, int(getuid()));
  if (answer.what == Verdict::taken)
    fatal("shmem_init: process %d is PE %d of this job already: a PE started two programs at once",
          answer.number, place.me);
  if (answer.what != Verdict::welcome || length_got != sizeof answer)
    fatal("shmem_init: the node's first PE runs another version of this library");
  for (int i = 0; i < shared; i++)
    if ((fds[i] = got[i]) < 0)
      fatal(
          "shmem_init: the descriptors of the node's symmetric memory have not come: is the limit "
          "of open files (ulimit -n) reached?");
  memcpy(welcome, answer.text, std::min(bytes, sizeof answer.text));
  return true;
}

bool has_come(int local) {
  return door && door->pid[local];
}

int ended() {
  if (door) return door->ended;
  if (leader < 0) return -1;
  pollfd p{leader, POLLRDHUP, 0}; // also with an introduction that is not read yet
  return poll(&p, 1, 0) > 0 ? 0 : -1;
}

void end(int *next) {
  next[0] = next[1] = -1;
  if (door) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(door->stop, &one, sizeof one);
    pthread_join(door->thread, nullptr);
    close(door->stop);
    for (int i = 0; i < door->n; i++)
      if (i == 1 || i == 2)
        next[i - 1] = door->process[i];
      else if (door->process[i] >= 0)
        close(door->process[i]);
    door.reset();
  } else if (leader >= 0) {
    bool there[2] = {};
    int fds[most_passed];
    pollfd p{leader, POLLIN, 0};
    // Sent when the last PE came. A leader that has died since has sent nothing.
    if (poll(&p, 1, 10000) == 1 && receive_descriptors(leader, there, sizeof there, fds) > 0) {
      int taken = 0;
      for (int k = 0; k < 2; k++)
        if (there[k]) next[k] = fds[taken++];
    }
    [[maybe_unused]] const ssize_t n = send(leader, "", 1, MSG_NOSIGNAL);
    close(leader);
    leader = -1;
  }
}

} // namespace shmem::rendezvous

// SPDX-License-Identifier: MIT
#include "descriptors.hpp"
#include "team.hpp"
#include <algorithm>
#include <cstring>
#include <sys/random.h>
#include <unistd.h>

namespace shmem {

namespace {

struct Message {
  iovec part;
  alignas(cmsghdr) char control[CMSG_SPACE(most_passed * sizeof(int))] = {};
  msghdr head{};
  Message(void *data, size_t bytes) : part{data, bytes} {
    head.msg_iov = &part, head.msg_iovlen = 1;
    head.msg_control = control, head.msg_controllen = sizeof control;
  }
};

// The socket of a member, and the number in its messages by which the others know it.
struct Address {
  uint64_t secret;
  socklen_t bytes;
  sockaddr_un name;
};
struct Letter {
  uint64_t secret;
};

// False when there is no message. A message of a stranger is thrown away.
bool receive(int at, const std::vector<Address> &all, std::vector<int> &result) {
  Letter letter{};
  int fds[most_passed];
  if (receive_descriptors(at, &letter, sizeof letter, fds) < 0) return false;
  for (size_t i = 0; i < all.size() && letter.secret; i++)
    if (all[i].secret == letter.secret && result[i] < 0) std::swap(result[i], fds[0]);
  for (int fd : fds)
    if (fd >= 0) close(fd);
  return true;
}

} // namespace

bool send_descriptors(int socket, const void *data, size_t bytes, const int *fds, int n,
                      const sockaddr_un *to, socklen_t to_bytes) {
  Message m(const_cast<void *>(data), bytes);
  m.head.msg_name = const_cast<sockaddr_un *>(to), m.head.msg_namelen = to_bytes;
  const size_t length = size_t(n) * sizeof *fds;
  m.head.msg_controllen = n ? CMSG_SPACE(length) : 0;
  if (cmsghdr *const c = CMSG_FIRSTHDR(&m.head)) {
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(length);
    memcpy(CMSG_DATA(c), fds, length);
  }
  return sendmsg(socket, &m.head, MSG_DONTWAIT | MSG_NOSIGNAL) == ssize_t(bytes);
}

ssize_t receive_descriptors(int socket, void *data, size_t bytes, int *fds) {
  Message m(data, bytes);
  std::fill_n(fds, most_passed, -1);
  const ssize_t got = recvmsg(socket, &m.head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return got;
  for (cmsghdr *c = CMSG_FIRSTHDR(&m.head); c; c = CMSG_NXTHDR(&m.head, c))
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
      memcpy(fds, CMSG_DATA(c), std::min(c->cmsg_len - CMSG_LEN(0), most_passed * sizeof *fds));
  return got;
}

// The sockets live for the time of the exchange. The kernel gives their names.
std::vector<int> exchange_descriptors(Team &team, int mine) {
  const int n = team.n;
  std::vector<int> fds(size_t(n), -1);
  std::vector<Address> all(size_t(n), Address{});
  const int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  Address me{0, sizeof me.name, {}};
  me.name.sun_family = AF_UNIX;
  const bool open =
      s >= 0 && bind(s, reinterpret_cast<sockaddr *>(&me.name), sizeof me.name.sun_family) == 0 &&
      getsockname(s, reinterpret_cast<sockaddr *>(&me.name), &me.bytes) == 0 &&
      getrandom(&me.secret, sizeof me.secret, 0) == sizeof me.secret;
  if (!open) me.secret = 0;
  exchange_value(team, me, [&](int i, const Address &a) { all[size_t(i)] = a; });
  const Letter letter{me.secret};
  // Linux lets ten messages wait at a socket (net.unix.max_dgram_qlen).
  for (int k = 1, next; k < n; k = next) {
    next = std::min(k + 8, n);
    for (int i = k; i < next; i++) {
      const int member = (team.me + i) % n;
      const Address &to = all[size_t(member)];
      if (open && mine >= 0 && to.secret && local_of(team.pe(member)) >= 0)
        send_descriptors(s, &letter, sizeof letter, &mine, 1, &to.name, to.bytes);
    }
    sync(team);
    while (open && receive(s, all, fds)) {
    }
    sync(team);
  }
  if (s >= 0) close(s);
  return fds;
}

} // namespace shmem

// SPDX-License-Identifier: MIT
#include "link.hpp"
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace shmem::bootstrap {

namespace {

constexpr uint64_t magic = 0x73686d656d627301; // "shmembs" and the version of these messages

// The side that listens speaks first.
struct Challenge {
  uint64_t magic;
  Number number;
};

// The hash that one side sends. It covers the side's letter, so the other side cannot send it back.
Tag proof(const Secret &secret, char side, const Number &number, const void *bytes, size_t n) {
  std::string all(1, side);
  all.append(reinterpret_cast<const char *>(number.data()), number.size());
  all.append(static_cast<const char *>(bytes), n);
  return keyed_hash(secret, all.data(), all.size());
}

struct Endpoint {
  sockaddr_storage address{};
  socklen_t bytes = 0;
};
Endpoint endpoint(const uint8_t *address, size_t bytes, uint16_t port) {
  Endpoint e;
  if (bytes == 4) {
    sockaddr_in in{};
    in.sin_family = AF_INET, in.sin_port = htons(port);
    memcpy(&in.sin_addr, address, 4);
    memcpy(&e.address, &in, e.bytes = sizeof in);
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6, in.sin6_port = htons(port);
    memcpy(&in.sin6_addr, address, 16);
    memcpy(&e.address, &in, e.bytes = sizeof in);
  }
  return e;
}

// f(address, bytes) for each.
template <class F> void each_address(const Where &where, F f) {
  for (size_t at = 0; at < std::min(size_t(where.n), sizeof where.packed);) {
    const size_t bytes = where.packed[at++];
    if ((bytes != 4 && bytes != 16) || at + bytes > sizeof where.packed) return;
    f(where.packed + at, bytes);
    at += bytes;
  }
}

struct Interface {
  std::string name, text; // of the interface, and of its address
  uint8_t address[16];
  size_t bytes;
  bool inside; // this machine's alone
};
std::vector<Interface> addresses() {
  std::vector<Interface> all;
  ifaddrs *list = nullptr;
  if (getifaddrs(&list) < 0) return all;
  for (const ifaddrs *i = list; i; i = i->ifa_next) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !(i->ifa_flags & IFF_RUNNING)) continue;
    Interface f{i->ifa_name, {}, {}, 0, (i->ifa_flags & IFF_LOOPBACK) != 0};
    char text[INET6_ADDRSTRLEN];
    if (i->ifa_addr->sa_family == AF_INET) {
      sockaddr_in in;
      memcpy(&in, i->ifa_addr, sizeof in);
      memcpy(f.address, &in.sin_addr, f.bytes = 4);
      inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
    } else if (i->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 in;
      memcpy(&in, i->ifa_addr, sizeof in);
      if (IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr)) continue; // means nothing on another machine
      memcpy(f.address, &in.sin6_addr, f.bytes = 16);
      inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
    } else {
      continue;
    }
    f.text = text;
    // Bridges of containers have the same address on every machine.
    f.inside |= f.name.starts_with("docker") || f.name.starts_with("virbr");
    all.push_back(f);
  }
  freeifaddrs(list);
  return all;
}

bool listed(const std::string &list, const std::string &name) {
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    if (list.compare(at, end - at, name) == 0 && end - at == name.size()) return true;
    at = end + 1;
  }
  return false;
}

int new_socket(int family) {
  return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

// A socket that listens at this address; *port 0 becomes the one that it got. -1 and errno.
int listen_at(const Interface &f, uint16_t *port) {
  const int fd = new_socket(f.bytes == 4 ? AF_INET : AF_INET6);
  if (fd < 0) return -1;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (f.bytes == 16) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  Endpoint e = endpoint(f.address, f.bytes, *port);
  sockaddr_storage mine{};
  socklen_t bytes = sizeof mine;
  if (bind(fd, reinterpret_cast<sockaddr *>(&e.address), e.bytes) < 0 || listen(fd, 4096) < 0 ||
      getsockname(fd, reinterpret_cast<sockaddr *>(&mine), &bytes) < 0) {
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  in_port_t got; // at the same place in both
  memcpy(&got, reinterpret_cast<char *>(&mine) + offsetof(sockaddr_in, sin_port), sizeof got);
  *port = ntohs(got);
  return fd;
}

} // namespace

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

std::string Where::text() const {
  std::string all;
  each_address(*this, [&](const uint8_t *address, size_t bytes) {
    char text[INET6_ADDRSTRLEN];
    inet_ntop(bytes == 4 ? AF_INET : AF_INET6, address, text, sizeof text);
    if (!all.empty()) all += ", ";
    if (bytes == 16) all += '[';
    all += text;
    if (bytes == 16) all += ']';
    all += ':';
    all += std::to_string(port);
  });
  return all.empty() ? "no address" : all;
}

bool Listener::open(const char *interfaces, uint16_t port, std::string *error) {
  std::vector<Interface> all = addresses(), chosen;
  const std::string list = interfaces ? interfaces : "";
  if (list == "*") chosen = {{"*", "*", {}, 4, false}, {"*", "*", {}, 16, false}};
  for (int inside = 0; inside < 2 && chosen.empty(); inside++)
    for (const Interface &f : all)
      if (list.empty() ? f.inside == bool(inside) : listed(list, f.name) || listed(list, f.text))
        chosen.push_back(f);
  if (chosen.empty()) {
    *error = list.empty() ? "this machine has no network interface that is up, not even lo"
                          : "SHMEM_BOOTSTRAP_INTERFACE = \"" + list +
                                "\": no interface of this name or address is up";
    return false;
  }
  // One port at all addresses: another process may have the first one's at the second.
  int failed = 0;
  for (int tries = 0; tries < 20 && sockets.empty(); tries++) {
    where = {}, where.port = port;
    for (const Interface &f : chosen) {
      if (where.n + 1 + f.bytes > sizeof where.packed) break;
      const int fd = listen_at(f, &where.port);
      if (fd < 0) {
        failed = errno;
        if (failed == EADDRINUSE) {
          close();
          break;
        }
        continue; // an address that is not ready yet, as IPv6's may be
      }
      sockets.push_back(fd);
      where.packed[where.n] = uint8_t(f.bytes);
      memcpy(where.packed + where.n + 1, f.address, f.bytes);
      where.n = uint8_t(where.n + 1 + f.bytes);
    }
    if (port) break;
  }
  if (sockets.empty())
    *error = "a socket that listens at port " + std::to_string(port) + ": " + strerror(failed);
  return !sockets.empty();
}

void Listener::close() {
  for (int fd : sockets) ::close(fd);
  sockets.clear();
}

Link::Link(Link &&from) noexcept
    : fd_(std::exchange(from.fd_, -1)), in_(std::move(from.in_)), out_(std::move(from.out_)),
      taken_(std::exchange(from.taken_, 0)), broken_(from.broken_) {}
Link &Link::operator=(Link &&from) noexcept {
  std::swap(fd_, from.fd_), std::swap(in_, from.in_), std::swap(out_, from.out_);
  std::swap(taken_, from.taken_), std::swap(broken_, from.broken_);
  return *this;
}
void Link::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Link::send_raw(const void *data, size_t bytes) {
  out_.append(static_cast<const char *>(data), bytes);
}
void Link::send(FrameKind kind, const void *data, size_t bytes) {
  const Head head{kind, uint32_t(bytes)};
  send_raw(&head, sizeof head);
  send_raw(data, bytes);
}

bool Link::move(size_t most) {
  size_t sent = 0;
  while (sent < out_.size() && !broken_) {
    const ssize_t n = ::send(fd_, out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
    if (n > 0) sent += size_t(n);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) broken_ = true;
    if (n < 0) break;
  }
  out_.erase(0, sent);
  if (taken_) in_.erase(0, std::exchange(taken_, 0));
  bool gone = false;
  char part[16384];
  while (in_.size() < most) {
    const ssize_t n = recv(fd_, part, std::min(sizeof part, most - in_.size()), 0);
    if (n > 0) {
      in_.append(part, size_t(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    gone = n == 0 || errno != EAGAIN;
    break;
  }
  broken_ |= gone;
  return !broken_;
}
bool Link::take_raw(void *to, size_t bytes) {
  if (in_.size() - taken_ < bytes) return false;
  memcpy(to, in_.data() + taken_, bytes);
  taken_ += bytes;
  return true;
}
bool Link::has_frame() const {
  Head head;
  if (in_.size() - taken_ < sizeof head) return false;
  memcpy(&head, in_.data() + taken_, sizeof head);
  return in_.size() - taken_ - sizeof head >= head.bytes;
}
bool Link::take(Frame *frame, size_t most) {
  Head head;
  if (in_.size() - taken_ < sizeof head) return false;
  memcpy(&head, in_.data() + taken_, sizeof head);
  if (head.bytes > most) {
    broken_ = true;
    in_.clear(), taken_ = 0;
    return false;
  }
  if (in_.size() - taken_ - sizeof head < head.bytes) return false;
  frame->kind = head.kind;
  frame->data.assign(in_, taken_ + sizeof head, head.bytes);
  taken_ += sizeof head + head.bytes;
  return true;
}

// The side that listens.

// A process of the job sends its introduction within one round trip. A connection that is silent
// for longer can be closed, so thousands of them neither hold up the job nor take all descriptors.
constexpr size_t most_strangers = 512;
constexpr int64_t patience = 5'000'000'000, short_patience = 100'000'000;

struct Greeting {
  uint64_t magic;
  Introduction hello;
  Tag tag;
};

void accept_all(const Listener &listener, std::vector<Stranger> *strangers) {
  const int64_t t = now();
  std::erase_if(*strangers, [&](const Stranger &s) { return t - s.since > patience; });
  for (int at : listener.sockets)
    for (;;) {
      if (strangers->size() >= most_strangers) {
        if (t - strangers->front().since < short_patience) return;
        strangers->erase(strangers->begin());
      }
      const int fd = accept4(at, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) break;
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      strangers->push_back({Link(fd), random_number(), t});
      const Challenge c{magic, strangers->back().number};
      strangers->back().link.send_raw(&c, sizeof c);
      strangers->back().link.move(sizeof(Greeting));
    }
}

Met meet(Stranger *stranger, const Secret &secret, Introduction *hello) {
  const bool there = stranger->link.move(sizeof(Greeting));
  Greeting g;
  if (!stranger->link.take_raw(&g, sizeof g)) return there ? Met::waits : Met::wrong;
  if (g.magic != magic ||
      !same(g.tag, proof(secret, 'C', stranger->number, &g.hello, sizeof g.hello)))
    return Met::wrong;
  *hello = g.hello;
  hello->version[sizeof hello->version - 1] = 0;
  return Met::right;
}

void answer(Link *link, const Secret &secret, const Number &number, FrameKind kind,
            const void *data, size_t bytes) {
  const Tag tag = proof(secret, 'S', number, data, bytes);
  std::string all(reinterpret_cast<const char *>(tag.data()), tag.size());
  all.append(static_cast<const char *>(data), bytes);
  link->send(kind, all);
}

// The side that connects.

void Caller::begin(const Where &where, const Secret &secret, const Introduction &hello) {
  tries_.clear();
  hello_ = hello, secret_ = secret;
  hello_.number = random_number();
  reason_ = "no address";
  each_address(where, [&](const uint8_t *address, size_t bytes) {
    const Endpoint e = endpoint(address, bytes, where.port);
    Link link(new_socket(bytes == 4 ? AF_INET : AF_INET6));
    const int on = 1;
    if (link.open()) setsockopt(link.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!link.open() ||
        (connect(link.fd(), reinterpret_cast<const sockaddr *>(&e.address), e.bytes) < 0 &&
         errno != EINPROGRESS))
      reason_ = strerror(errno);
    else
      tries_.push_back({std::move(link)});
  });
}

void Caller::poll_for(std::vector<pollfd> *fds) const {
  for (const Try &t : tries_)
    fds->push_back({t.link.fd(), short(t.connected ? t.link.events() : POLLOUT), 0});
}

Met Caller::move(Link *link, Frame *first) {
  for (size_t i = 0; i < tries_.size();) {
    Try &t = tries_[i];
    const auto drop = [&](const char *why) {
      reason_ = why;
      tries_.erase(tries_.begin() + ptrdiff_t(i));
    };
    if (!t.connected) {
      pollfd p{t.link.fd(), POLLOUT, 0};
      if (poll(&p, 1, 0) <= 0) {
        i++;
        continue;
      }
      int error = 0;
      socklen_t bytes = sizeof error;
      getsockopt(t.link.fd(), SOL_SOCKET, SO_ERROR, &error, &bytes);
      if (error) {
        drop(strerror(error));
        continue;
      }
      t.connected = true;
    }
    const bool there = t.link.move();
    Challenge c;
    const bool others =
        std::any_of(tries_.begin(), tries_.end(), [](auto &o) { return o.greeted; });
    if (!others && t.link.take_raw(&c, sizeof c)) {
      if (c.magic != magic) {
        drop("a process that is none of this job listens there");
        continue;
      }
      Greeting g{magic, hello_, {}};
      g.tag = proof(secret_, 'C', c.number, &g.hello, sizeof g.hello);
      t.link.send_raw(&g, sizeof g);
      t.greeted = now();
      t.link.move();
    }
    if (t.greeted && t.link.take(first, 1024)) {
      Tag tag;
      if (first->data.size() < tag.size()) {
        drop("a process that is none of this job listens there");
        continue;
      }
      memcpy(tag.data(), first->data.data(), tag.size());
      first->data.erase(0, tag.size());
      if (!same(tag, proof(secret_, 'S', hello_.number, first->data.data(), first->data.size()))) {
        drop("a process that is none of this job listens there");
        continue;
      }
      *link = std::move(t.link);
      tries_.clear();
      return Met::right;
    }
    if (t.greeted && now() - t.greeted > patience) {
      drop("the process that listens there does not answer");
      continue;
    }
    if (!there) {
      drop("the process that listens there does not take this one for one of its job: another "
           "job's id, or one that is used up");
      continue;
    }
    i++;
  }
  return tries_.empty() ? Met::wrong : Met::waits;
}

} // namespace shmem::bootstrap

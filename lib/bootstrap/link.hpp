// SPDX-License-Identifier: MIT
// TCP between the processes of a job that no launcher started: where a process listens, how another
// one proves that it belongs to the job, and frames of bytes. Nothing here waits for the other
// side: sockets do not block, and their owner polls them.
#pragma once
#include "secret.hpp"
#include <cstdint>
#include <poll.h>
#include <string>
#include <vector>

namespace shmem::bootstrap {

// The addresses of a process that listens: one port, at several interfaces. They fit into a unique
// id.
struct Where {
  uint16_t port;
  uint8_t n;          // bytes of `packed` in use
  uint8_t packed[89]; // of each address: 4 or 16, then so many bytes in network order
  std::string text() const;
};
static_assert(sizeof(Where) == 92);

// The sockets of a process that listens.
struct Listener {
  std::vector<int> sockets;
  Where where{};
  // interfaces: names or addresses with commas between; or empty: all that are up, but for those of
  // this machine alone, unless there is no other; or "*": all. port 0: any. False: error says why.
  bool open(const char *interfaces, uint16_t port, std::string *error);
  void close();
};

// The request of a process that connects.
enum class Wish : int32_t { start, parent };
struct Introduction {
  Number number;
  Wish wish;
  int32_t rank, n;
  uint64_t process; // a number of this process, to know it again when it asks twice
  Where where;      // it listens for its children there; port 0 if it has none
  char version[20]; // of the library
};

// Kinds of frames. A frame begins with a Head, which counts the bytes behind it.
enum class FrameKind : uint32_t { hello, accepted, parent, again, failed, gather, all, ended, bye };
struct Head {
  FrameKind kind;
  uint32_t bytes;
};
struct Frame {
  FrameKind kind{};
  std::string data;
};

// A connection. The side that listens sends a number, the other side an Introduction with a keyed
// hash of that number, and the first answer has a keyed hash of the Introduction's number.
class Link {
  int fd_ = -1;
  std::string in_, out_;
  size_t taken_ = 0; // of in_
  bool broken_ = false;

public:
  Link() = default;
  explicit Link(int fd) : fd_(fd) {}
  Link(Link &&from) noexcept;
  Link &operator=(Link &&from) noexcept;
  ~Link() { close(); }
  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close();
  // For poll: what this link waits for.
  short events() const { return short(POLLIN | (out_.empty() ? 0 : POLLOUT)); }
  // Sends what the socket takes and keeps the rest.
  void send(FrameKind kind, const void *data, size_t bytes);
  void send(FrameKind kind, const std::string &text) { send(kind, text.data(), text.size()); }
  void send_raw(const void *data, size_t bytes);
  // Sends and receives without waiting, and buffers up to `most` received bytes. False when the
  // other side is gone; bytes that arrived before can still be taken.
  bool move(size_t most = SIZE_MAX);
  // The first bytes that are not taken yet, if so many have come.
  bool take_raw(void *to, size_t bytes);
  // The next whole frame of up to `most` bytes; a larger one breaks the link.
  bool take(Frame *frame, size_t most);
  bool has_frame() const;
  bool empty_out() const { return out_.empty(); }
};

// The side that listens: a connection of which nothing is known yet.
struct Stranger {
  Link link;
  Number number; // that was sent
  int64_t since; // in ns
};
// Takes connections that wait. A stranger that has said nothing for some time gives way, at once
// where there are many.
void accept_all(const Listener &listener, std::vector<Stranger> *strangers);
// The state of a stranger.
enum class Met : uint8_t { waits, right, wrong };
Met meet(Stranger *stranger, const Secret &secret, Introduction *hello);
// The first answer to an Introduction.
void answer(Link *link, const Secret &secret, const Number &number, FrameKind kind,
            const void *data, size_t bytes);

// The side that connects: to all addresses at once. It greets one at a time, so that the other side
// meets it once.
class Caller {
  struct Try {
    Link link;
    bool connected = false;
    int64_t greeted = 0; // when
  };
  std::vector<Try> tries_;
  Introduction hello_{};
  Secret secret_{};
  std::string reason_;

public:
  void begin(const Where &where, const Secret &secret, const Introduction &hello);
  void poll_for(std::vector<pollfd> *fds) const;
  // waits, right: *link and its first frame are there; wrong: no address answers, reason() says
  // why.
  Met move(Link *link, Frame *first);
  const std::string &reason() const { return reason_; }
};

int64_t now(); // in ns

} // namespace shmem::bootstrap

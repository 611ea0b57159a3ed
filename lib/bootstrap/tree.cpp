// SPDX-License-Identifier: MIT
#include "tree.hpp"
#include "built.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <utility>

namespace shmem::bootstrap {

namespace {

// How long a process tries to connect while no process listens: the maker of the id may be busy,
// but exists.
constexpr int64_t patience = 3'000'000'000;
constexpr size_t most_bytes = size_t(1) << 30;

uint64_t new_process() {
  uint64_t p;
  const Number n = random_number();
  memcpy(&p, n.data(), sizeof p);
  return p;
}

// Bytes of PEs, one after the other.
struct RankBytes {
  int32_t rank;
  uint32_t bytes;
};
void append(std::string *to, int rank, const std::string &bytes) {
  const RankBytes e{rank, uint32_t(bytes.size())};
  to->append(reinterpret_cast<const char *>(&e), sizeof e);
  *to += bytes;
}

JobEnd end_in(const Frame &f) {
  JobEnd end{root_ended, 1, false};
  if (f.data.size() == sizeof end) memcpy(&end, f.data.data(), sizeof end);
  return end;
}

std::string name_of(int rank) {
  return "rank " + std::to_string(rank);
}

} // namespace

Tree::Tree(const Id &id, int rank, int n, const char *interfaces, double timeout, bool patient)
    : id_(id), rank_(rank), n_(n), patient_(patient), timeout_(timeout), process_(new_process()) {
  // A wrong rank goes to the root all the same, so that all hear of it.
  if (rank >= 0 && rank < n && int64_t(rank) * children + 1 < n) {
    if (!listener_.open(interfaces, 0, &error_)) return;
    below_.resize(size_t(std::min(children, n - first_child())));
  }
  call();
}

Introduction Tree::hello(Wish wish) const {
  Introduction h{};
  h.wish = wish, h.rank = rank_, h.n = n_, h.process = process_, h.where = listener_.where;
  strncpy(h.version, SHMEM_LIBRARY_VERSION, sizeof h.version - 1);
  return h;
}
void Tree::call() {
  again_at_ = 0;
  caller_.begin(state_ == calling ? parent_where_ : id_.where, id_.secret,
                hello(state_ == calling ? Wish::parent : Wish::start));
}

void Tree::fail(const std::string &why) {
  if (!error_.empty()) return;
  error_ = why;
  const auto tell = [&](Link &l) {
    if (l.open()) l.send(FrameKind::failed, error_), l.move();
  };
  tell(root_), tell(parent_);
  for (Below &c : below_) tell(c.link);
}

// What has failed in a PE is an error of all that have not started. A PE that has started already,
// because that one's bytes came before, ends with the job.
void Tree::hear_failure(const std::string &why, int rank) {
  if (!started_) fail(why);
  gone(rank);
}

void Tree::hear_root() {
  const bool there = root_.move();
  Frame f;
  while (root_.take(&f, 1024)) {
    if (f.kind == FrameKind::failed) hear_failure(f.data, root_ended);
    if (f.kind == FrameKind::bye) return root_.close();
    if (f.kind == FrameKind::parent && state_ == waiting && f.data.size() == sizeof(Where)) {
      memcpy(&parent_where_, f.data.data(), sizeof parent_where_);
      state_ = calling;
      call();
    }
  }
  if (there || !root_.open()) return;
  root_.close();
  gone(root_ended);
}

void Tree::hear_parent() {
  const bool there = parent_.move();
  Frame f;
  while (parent_.take(&f, most_bytes)) {
    if (f.kind == FrameKind::failed) hear_failure(f.data, parent_of(rank_));
    if (f.kind == FrameKind::all) complete(f.data);
    if (f.kind == FrameKind::ended) pass_end(end_in(f), &parent_);
    if (f.kind == FrameKind::bye) return parent_.close();
  }
  if (there || !parent_.open()) return;
  parent_.close();
  gone(parent_of(rank_));
}

void Tree::hear_child(size_t i) {
  Link &l = below_[i].link;
  const bool there = l.move();
  Frame f;
  while (l.take(&f, most_bytes)) {
    if (f.kind == FrameKind::failed) hear_failure(f.data, first_child() + int(i));
    if (f.kind == FrameKind::gather) below_[i].gathered = std::move(f.data);
    if (f.kind == FrameKind::ended) pass_end(end_in(f), &l);
    if (f.kind == FrameKind::bye) return l.close();
  }
  if (there || !l.open()) return;
  l.close();
  gone(first_child() + int(i));
}

void Tree::greet_children() {
  accept_all(listener_, &strangers_);
  for (size_t i = 0; i < strangers_.size();) {
    Stranger &s = strangers_[i];
    Introduction h{};
    const Met met = meet(&s, id_.secret, &h);
    if (met == Met::waits) {
      i++;
      continue;
    }
    const int at = h.rank - first_child();
    if (met == Met::right && h.wish == Wish::parent && at >= 0 && at < int(below_.size()) &&
        !below_[size_t(at)].link.open()) {
      Link &l = below_[size_t(at)].link = std::move(s.link);
      const FrameKind kind = error_.empty() ? FrameKind::accepted : FrameKind::failed;
      answer(&l, id_.secret, h.number, kind, error_.data(), error_.size());
      l.move();
    }
    strangers_.erase(strangers_.begin() + ptrdiff_t(i));
  }
  if (std::all_of(below_.begin(), below_.end(), [](const Below &c) { return c.link.open(); })) {
    listener_.close();
    strangers_.clear();
  }
}

// Sends the bytes of this PE and of all below it, once all have given theirs.
void Tree::pass_up() {
  if (state_ != joined || !mine_ || sent_up_) return;
  for (const Below &c : below_)
    if (!c.gathered) return;
  std::string together;
  append(&together, rank_, *mine_);
  for (Below &c : below_) together += *c.gathered, c.gathered.reset();
  sent_up_ = true;
  if (rank_ == 0) return complete(together);
  parent_.send(FrameKind::gather, together);
  parent_.move();
}

void Tree::complete(const std::string &everything) {
  for (Below &c : below_) c.link.send(FrameKind::all, everything), c.link.move();
  all_.assign(size_t(n_), {});
  for (size_t at = 0; at + sizeof(RankBytes) <= everything.size();) {
    RankBytes e;
    memcpy(&e, everything.data() + at, sizeof e);
    at += sizeof e;
    if (e.rank >= 0 && e.rank < n_ && at + e.bytes <= everything.size())
      all_[size_t(e.rank)].assign(everything, at, e.bytes);
    at += e.bytes;
  }
  complete_ = true;
}

void Tree::pass_end(const JobEnd &end, const Link *from) {
  if (end_ && (end_->said || !end.said)) return;
  end_ = end;
  const auto tell = [&](Link &l) {
    if (l.open() && &l != from) l.send(FrameKind::ended, &end, sizeof end), l.move();
  };
  tell(parent_);
  for (Below &c : below_) tell(c.link);
}
void Tree::gone(int rank) {
  if (started_) return pass_end({rank, 1, false}, nullptr);
  // It may have ended because the start has failed, which this PE is about to hear.
  if (!gone_) gone_ = rank, gone_since_ = now();
}
// A PE may have ended after its last bytes came. From now on its end is the job's, not an error.
void Tree::started() {
  started_ = true;
  if (gone_) gone(*std::exchange(gone_, std::nullopt));
}
void Tree::report(const JobEnd &end) const {
  std::string frame;
  const Head head{FrameKind::ended, sizeof end};
  frame.append(reinterpret_cast<const char *>(&head), sizeof head);
  frame.append(reinterpret_cast<const char *>(&end), sizeof end);
  const auto tell = [&](const Link &l) {
    if (l.open()) ::send(l.fd(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  };
  tell(parent_);
  for (const Below &c : below_) tell(c.link);
}

void Tree::on_time() {
  if (gone_ && now() - gone_since_ > 500'000'000)
    fail((*gone_ == root_ended ? "the process that made the unique id" : name_of(*gone_)) +
         " has ended while the job started");
  // The root tells all after the same time, with the ranks that are missing; this is for a root
  // that stands still.
  if (double(now() - since_) < (timeout_ + 5) * 1e9) return;
  char limit[80];
  snprintf(limit, sizeof limit, " for more than %g seconds (SHMEM_BOOTSTRAP_TIMEOUT)", timeout_);
  fail((state_ == asking    ? "nobody has answered at " + id_.where.text()
        : state_ == waiting ? name_of(parent_of(rank_)) + " has not come"
        : state_ == calling ? name_of(parent_of(rank_)) + " has not answered"
                            : "other ranks have not come") +
       limit);
}

void Tree::turn(int ms) {
  std::vector<pollfd> fds;
  add_to(&fds);
  const int64_t t = now();
  const bool pauses = again_at_ > t;
  // Bytes that have been read already do not wake poll.
  if (root_.has_frame() || parent_.has_frame() ||
      std::any_of(below_.begin(), below_.end(), [](const Below &c) { return c.link.has_frame(); }))
    ms = 0;
  poll(fds.data(), fds.size(), pauses ? std::min(ms, int((again_at_ - t) / 1000000) + 1) : ms);
  if (!listener_.sockets.empty()) greet_children();
  if (root_.open()) hear_root();
  if (parent_.open()) hear_parent();
  for (size_t i = 0; i < below_.size(); i++)
    if (below_[i].link.open()) hear_child(i);
  if (again_at_ && now() >= again_at_) call();
  if (again_at_ || (state_ != asking && state_ != calling)) return;

  Frame first;
  Link link;
  const Met met = caller_.move(&link, &first);
  if (met == Met::waits) return;
  if (met == Met::wrong) {
    if (now() - since_ < patience || (patient_ && state_ == asking)) // up to the time of on_time

      again_at_ = now() + 50'000'000;
    else
      fail((state_ == asking ? "the process that made the unique id, at " + id_.where.text()
                             : name_of(parent_of(rank_))) +
           ": " + caller_.reason());
    return;
  }
  if (first.kind == FrameKind::failed) {
    link.close();
    return fail(first.data);
  }
  if (state_ == calling) {
    parent_ = std::move(link);
    state_ = joined;
    root_.send(FrameKind::accepted, {});
    while (root_.open() && !root_.empty_out() && root_.move()) {
    }
    root_.close();
  } else if (first.kind == FrameKind::again) {
    again_at_ = now() + 100'000'000;
  } else {
    root_ = std::move(link);
    state_ = rank_ == 0 ? joined : waiting;
  }
}

int Tree::join(int ms) {
  for (const int64_t end = now() + int64_t(ms) * 1000000;;) {
    if (!error_.empty()) return -1;
    if (state_ == joined) return 1;
    const int64_t left = end - now();
    if (left <= 0) return 0;
    turn(int(left / 1000000) + 1);
    on_time();
  }
}

int Tree::gathered(int ms) {
  for (const int64_t end = now() + int64_t(ms) * 1000000;;) {
    if (!error_.empty()) return -1;
    pass_up();
    if (complete_) {
      complete_ = sent_up_ = false;
      mine_.reset();
      // The children's bytes are sent now: this process may never call again.
      for (Below &c : below_)
        while (c.link.open() && !c.link.empty_out()) {
          pollfd p{c.link.fd(), c.link.events(), 0};
          poll(&p, 1, 100);
          if (!c.link.move()) break;
        }
      return 1;
    }
    const int64_t left = end - now();
    if (left <= 0) return 0;
    turn(int(left / 1000000) + 1);
    on_time();
  }
}

void Tree::add_to(std::vector<pollfd> *fds) const {
  for (int fd : listener_.sockets) fds->push_back({fd, POLLIN, 0});
  for (const auto &s : strangers_) fds->push_back({s.link.fd(), s.link.events(), 0});
  const auto add = [&](const Link &l) {
    if (l.open()) fds->push_back({l.fd(), l.events(), 0});
  };
  add(root_), add(parent_);
  for (const Below &c : below_) add(c.link);
  caller_.poll_for(fds);
}

std::optional<JobEnd> Tree::heard() {
  turn(0);
  return end_;
}

void Tree::leave() {
  const auto bye = [](Link &l) {
    if (l.open()) l.send(FrameKind::bye, {}), l.move();
    l.close();
  };
  bye(parent_), bye(root_);
  for (Below &c : below_) bye(c.link);
  listener_.close();
}

} // namespace shmem::bootstrap

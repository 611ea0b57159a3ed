// SPDX-License-Identifier: MIT
#include "root.hpp"
#include "../thread.hpp"
#include "built.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <list>
#include <map>
#include <mutex>
#include <sys/socket.h>
#include <unistd.h>

namespace shmem::bootstrap {

namespace {

constexpr char id_magic[8] = {'s', 'h', 'm', 'e', 'm', 'i', 'd', '1'};

// The number of PEs that may wait at the root until their parents have come. Other PEs ask again,
// which keeps the root's descriptors few when thousands start.
constexpr size_t most_waiting = 400;

constexpr int64_t late_ns = 10'000'000'000;

class Root {
  struct Pe {
    bool come = false;
    uint64_t process = 0;
    Where where{};
  };
  struct AtRoot {
    Link link;
    bool told = false; // where its parent listens
  };
  const Id id_;
  const double timeout_;
  Listener listener_;
  std::vector<Stranger> strangers_;
  std::vector<Pe> pes_;
  std::map<int, AtRoot> waiting_; // by rank
  Link first_;                    // PE 0, as long as the job runs
  std::vector<Link> leaving_;     // have their last word, which may not have gone yet
  int first_rank_ = -1, come_ = 0, joined_ = 0;
  int64_t since_ = 0; // the first PE came
  int64_t failed_at_ = 0;
  std::string failed_;

  void fail(const std::string &why) {
    if (!failed_.empty()) return;
    failed_ = why, failed_at_ = now();
    for (auto &[rank, w] : waiting_) {
      w.link.send(FrameKind::failed, failed_);
      leaving_.push_back(std::move(w.link));
    }
    waiting_.clear();
    if (first_.open()) first_.send(FrameKind::failed, failed_);
  }
  std::string wrong(const Introduction &h) const {
    const std::string name = "rank " + std::to_string(h.rank);
    if (strcmp(h.version, SHMEM_LIBRARY_VERSION) != 0)
      return name + " runs libshmem " + h.version +
             ", the process that made the unique id " SHMEM_LIBRARY_VERSION;
    if (h.n < 1 || h.rank < 0 || h.rank >= h.n)
      return name + " of " + std::to_string(h.n) + " PEs: ranks are 0 to " +
             std::to_string(std::max(h.n, 1) - 1);
    if (!pes_.empty() && size_t(h.n) != pes_.size())
      return name + " says that the job has " + std::to_string(h.n) + " PEs, rank " +
             std::to_string(first_rank_) + " that it has " + std::to_string(pes_.size());
    if (!pes_.empty() && pes_[size_t(h.rank)].come && pes_[size_t(h.rank)].process != h.process)
      return "two processes say that they are rank " + std::to_string(h.rank);
    return {};
  }
  void tell_parent(int rank, AtRoot *w) {
    const Where &where = pes_[size_t(parent_of(rank))].where;
    w->link.send(FrameKind::parent, &where, sizeof where);
    w->told = true;
  }
  void greet(Stranger *s, const Introduction &h) {
    if (failed_.empty())
      if (const std::string why = wrong(h); !why.empty()) fail(why);
    const auto reply = [&](FrameKind kind, const std::string &text) {
      answer(&s->link, id_.secret, h.number, kind, text.data(), text.size());
    };
    if (!failed_.empty()) {
      reply(FrameKind::failed, failed_);
      leaving_.push_back(std::move(s->link));
      return;
    }
    if (pes_.empty()) pes_.resize(size_t(h.n)), first_rank_ = h.rank, since_ = now();
    Pe &pe = pes_[size_t(h.rank)];
    const bool is_new = !pe.come;
    come_ += is_new;
    pe = {true, h.process, h.where};
    if (h.rank == 0) {
      reply(FrameKind::accepted, {});
      first_ = std::move(s->link);
      joined_ += is_new;
    } else if (waiting_.size() >= most_waiting) {
      reply(FrameKind::again, {});
      leaving_.push_back(std::move(s->link));
    } else {
      reply(FrameKind::accepted, {});
      AtRoot &w = waiting_[h.rank] = {std::move(s->link)};
      if (pes_[size_t(parent_of(h.rank))].come) tell_parent(h.rank, &w);
    }
    if (!is_new) return;
    const int from = h.rank * children + 1;
    for (auto w = waiting_.lower_bound(from); w != waiting_.end() && w->first < from + children;
         ++w)
      if (!w->second.told) tell_parent(w->first, &w->second);
  }
  // A PE that waits, or is on its way to its parent.
  bool still_waits(int rank, AtRoot *w) {
    const bool there = w->link.move(4096);
    Frame f;
    while (w->link.take(&f, 1024)) {
      if (f.kind == FrameKind::accepted) {
        joined_++;
        return false;
      }
      if (f.kind == FrameKind::failed) {
        fail(f.data);
        return true; // which has dropped it
      }
    }
    if (!there) {
      fail("rank " + std::to_string(rank) + " has ended while the job started");
      return true;
    }
    return true;
  }
  std::string missing() const {
    std::string ranks;
    int more = 0, named = 0;
    for (size_t i = 0; i < pes_.size(); i++) {
      if (pes_[i].come) continue;
      if (named++ < 8)
        ranks += (ranks.empty() ? "" : ", ") + std::to_string(i);
      else
        more++;
    }
    if (ranks.empty()) return "all ranks have come, but not all have reached their parents";
    return "rank " + ranks + (more ? " and " + std::to_string(more) + " more" : "") +
           (named > 1 ? " have" : " has") + " not come";
  }
  int nap() const {
    if (!strangers_.empty()) return 50;
    if (!leaving_.empty()) return 50;
    return (since_ && !done()) || !failed_.empty() ? 250 : -1;
  }
  bool done() const { return !pes_.empty() && joined_ == int(pes_.size()); }

public:
  Root(const Id &id, double timeout, Listener &&listener)
      : id_(id), timeout_(timeout), listener_(std::move(listener)) {}

  void serve(std::unique_lock<std::mutex> *held) {
    std::vector<pollfd> fds;
    for (;;) {
      fds.clear();
      for (int fd : listener_.sockets) fds.push_back({fd, POLLIN, 0});
      for (const auto &s : strangers_) fds.push_back({s.link.fd(), s.link.events(), 0});
      for (const auto &w : waiting_) fds.push_back({w.second.link.fd(), w.second.link.events(), 0});
      for (const auto &l : leaving_) fds.push_back({l.fd(), l.events(), 0});
      if (first_.open()) fds.push_back({first_.fd(), first_.events(), 0});
      if (fds.empty()) return; // the job is over
      const int ms = nap();
      held->unlock();
      poll(fds.data(), fds.size(), ms);
      held->lock();
      accept_all(listener_, &strangers_);
      for (size_t i = 0; i < strangers_.size();) {
        Introduction h{};
        const Met met = meet(&strangers_[i], id_.secret, &h);
        if (met == Met::right && h.wish == Wish::start) greet(&strangers_[i], h);
        if (met == Met::waits)
          i++;
        else
          strangers_.erase(strangers_.begin() + ptrdiff_t(i));
      }
      // Before those that wait: when PE 0 has left, all have joined, and their last words are here.
      bool first_left = false;
      if (first_.open()) {
        first_left = !first_.move(4096);
        Frame f;
        while (first_.take(&f, 1024)) {
          if (f.kind == FrameKind::failed) fail(f.data);
          first_left |= f.kind == FrameKind::bye;
        }
        if (first_left) first_.close();
      }
      for (auto w = waiting_.begin(); w != waiting_.end();) {
        const bool before = failed_.empty();
        const bool waits = still_waits(w->first, &w->second);
        if (before && !failed_.empty()) break; // all are gone
        w = waits ? std::next(w) : waiting_.erase(w);
      }
      if (first_left && !done()) fail("rank 0 has ended while the job started");
      // The other side closes when it has read its last word.
      std::erase_if(leaving_, [](Link &l) { return !l.move(4096); });
      if (since_ && failed_.empty() && !done() && double(now() - since_) > timeout_ * 1e9) {
        char limit[64];
        snprintf(limit, sizeof limit, " within %g seconds (SHMEM_BOOTSTRAP_TIMEOUT)", timeout_);
        fail(missing() + limit);
      }
      if (done()) listener_.close(), strangers_.clear();
      // PEs that come after a failure hear of it, for some time.
      if (!failed_.empty() && now() - failed_at_ > late_ns) listener_.close();
    }
  }
  // Called in the child of a fork, where no thread serves any more.
  void close_all() {
    listener_.close(), first_.close();
    for (auto &s : strangers_) s.link.close();
    for (auto &w : waiting_) w.second.link.close();
    for (auto &l : leaving_) l.close();
  }
  // For a process that ends as it should, by the thread that ends it.
  void say_bye() const {
    const Head bye{FrameKind::bye, 0};
    if (first_.open()) send(first_.fd(), &bye, sizeof bye, MSG_NOSIGNAL);
  }
};

// Held by a thread of a root whenever it does not wait, so that a fork finds every root as it is
// between two events. Without it a child could walk a list that is half changed.
std::mutex mutex;
std::list<Root> *roots; // never destroyed: threads use it to the end of the process

void *serve(void *root) {
  std::unique_lock held(mutex);
  static_cast<Root *>(root)->serve(&held);
  roots->remove_if([root](const Root &r) { return &r == root; });
  return nullptr;
}

void first_time() {
  roots = new std::list<Root>;
  // A child inherits the sockets but not the thread: a PE that connects to it would wait for ever.
  pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); },
                 [] {
                   for (Root &r : *roots) r.close_all();
                   roots = new std::list<Root>;
                   mutex.unlock();
                 });
  atexit([] {
    const std::lock_guard guard(mutex);
    for (const Root &r : *roots) r.say_bye();
  });
}

} // namespace

bool Id::right() const {
  return memcmp(magic, id_magic, sizeof magic) == 0;
}

bool make_id(const char *interfaces, uint16_t port, const Secret *secret, double timeout, Id *id,
             std::string *error) {
  Listener listener;
  if (!listener.open(interfaces, port, error)) return false;
  *id = {};
  memcpy(id->magic, id_magic, sizeof id->magic);
  id->secret = secret ? *secret : random_number();
  id->where = listener.where;
  static std::once_flag once;
  std::call_once(once, first_time);
  const std::lock_guard guard(mutex);
  roots->emplace_back(*id, timeout, std::move(listener));
  pthread_t thread;
  if (const int failed = start_thread(&thread, serve, &roots->back())) {
    roots->back().close_all();
    roots->pop_back();
    *error = std::string("the thread that listens for the PEs of a unique id: ") + strerror(failed);
    return false;
  }
  pthread_detach(thread);
  return true;
}

} // namespace shmem::bootstrap

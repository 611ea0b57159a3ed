// SPDX-License-Identifier: MIT
// The PEs of a job that was started by a unique id, joined to a tree by TCP: each has a parent, and
// up to `children` children. Init passes its bytes there, and the connections that stay open tell
// of the death of a PE on another node.
#pragma once
#include "../bootstrap.hpp"
#include "root.hpp"
#include <optional>

namespace shmem::bootstrap {

class Tree {
  enum State { asking, waiting, calling, joined };
  struct Below {
    Link link;
    std::optional<std::string> gathered;
  };
  const Id id_;
  const int rank_, n_;
  const bool patient_; // the root may not listen yet
  const int64_t since_ = now();
  const double timeout_;
  const uint64_t process_;
  State state_ = asking;
  int64_t again_at_ = 0;
  Where parent_where_{};
  Listener listener_;
  std::vector<Stranger> strangers_;
  Caller caller_;
  Link root_, parent_;
  std::vector<Below> below_; // by number
  std::optional<std::string> mine_;
  std::vector<std::string> all_;
  bool sent_up_ = false, complete_ = false, started_ = false;
  std::string error_;
  std::optional<JobEnd> end_;
  std::optional<int> gone_; // a PE that has ended in the start, or root_ended
  int64_t gone_since_ = 0;

  int first_child() const { return rank_ * children + 1; }
  Introduction hello(Wish wish) const;
  void call();
  void fail(const std::string &why);
  void hear_failure(const std::string &why, int rank);
  void turn(int ms);
  void hear_root();
  void hear_parent();
  void hear_child(size_t i);
  void greet_children();
  void pass_up();
  void complete(const std::string &everything);
  void gone(int rank);
  void pass_end(const JobEnd &end, const Link *from);
  void on_time();

public:
  // patient: tries until the time is over, though no process listens.
  Tree(const Id &id, int rank, int n, const char *interfaces, double timeout, bool patient);
  // Each goes on for up to ms: 1 done, 0 not yet, -1 failed, and error() says why.
  int join(int ms);
  // Gathers the bytes of all PEs, by rank.
  void begin_gather(std::string mine) { mine_ = std::move(mine); }
  int gathered(int ms);
  const std::vector<std::string> &all() const { return all_; }
  const std::string &error() const { return error_; }

  // From now on a connection that ends tells of a death.
  void started();
  // The watch polls these descriptors, and calls heard() when one of them is ready.
  void add_to(std::vector<pollfd> *fds) const;
  std::optional<JobEnd> heard();
  // Tells the others that the job ends. Any thread may call it, once, as this PE's last step.
  void report(const JobEnd &end) const;
  void leave();
};

} // namespace shmem::bootstrap

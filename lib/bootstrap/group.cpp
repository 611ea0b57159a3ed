// SPDX-License-Identifier: MIT
#include "group.hpp"
#include "../bootstrap.hpp"
#include "../env.hpp"
#include "../log.hpp"
#include "../memory/segment.hpp"
#include "../net.hpp"
#include "../state.hpp"
#include "built.h"
#include "tree.hpp"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace shmem::bootstrap {

namespace {

// The first data that a process shows the others. Processes of one user on one machine that see the
// same network interfaces are on one node.
struct Identity {
  char version[20]; // with callbacks no other check comes before
  char boot[40];    // a random number of the running kernel
  uint64_t network; // namespace: the names of sockets are its own
  uint32_t user;
  int32_t rank, n;
  Number number;
  char host[64];
  bool on_machine(const Identity &other) const { return !strcmp(boot, other.boot); }
  bool near(const Identity &other) const {
    return on_machine(other) && network == other.network && user == other.user;
  }
};

std::unique_ptr<Tree> tree; // null with callbacks
Callbacks callbacks;
std::vector<Identity> all;
Place place;
std::vector<std::string> told;

bool by_callbacks(const std::string &mine, std::string *error) {
  const auto allgather = [&](const void *from, void *to, size_t bytes) {
    const int status = callbacks.allgather(callbacks.context, from, to, bytes);
    if (status)
      *error = "allgather, the program's function, gives " + std::to_string(status) + " for " +
               std::to_string(bytes) + " bytes";
    return !status;
  };
  const size_t n = size_t(self.n);
  std::vector<uint64_t> sizes(n);
  const uint64_t size = mine.size();
  if (!allgather(&size, sizes.data(), sizeof size)) return false;
  const size_t room = *std::max_element(sizes.begin(), sizes.end());
  std::string from = mine, to(n * room, 0);
  from.resize(room);
  if (room && !allgather(from.data(), to.data(), room)) return false;
  told.resize(n);
  for (size_t i = 0; i < n; i++) told[i] = to.substr(i * room, size_t(sizes[i]));
  return true;
}

// The bytes of all ranks, in `told`.
bool gather(const std::string &mine, std::string *error) {
  if (!tree) return by_callbacks(mine, error);
  tree->begin_gather(mine);
  int state;
  while ((state = tree->gathered(500)) == 0) {
  }
  if (state < 0) *error = tree->error();
  told = state > 0 ? tree->all() : told;
  return state > 0;
}

template <class T> std::string bytes_of(const T &t) {
  return std::string(reinterpret_cast<const char *>(&t), sizeof t);
}
// A T of each rank; false where a rank has another number of bytes.
template <class T> bool take(std::vector<T> *to) {
  to->resize(told.size());
  for (size_t i = 0; i < told.size(); i++) {
    if (told[i].size() != sizeof(T)) return false;
    memcpy(&(*to)[i], told[i].data(), sizeof(T));
  }
  return true;
}

Identity identity(int rank, int n) {
  Identity me{};
  strncpy(me.version, SHMEM_LIBRARY_VERSION, sizeof me.version - 1);
  if (const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC); fd >= 0) {
    [[maybe_unused]] const ssize_t got = read(fd, me.boot, sizeof me.boot - 1);
    close(fd);
  }
  gethostname(me.host, sizeof me.host - 1);
  // Without /proc a machine is known by its name.
  if (!*me.boot) memcpy(me.boot, me.host, sizeof me.boot - 1);
  struct stat s;
  if (stat("/proc/self/ns/net", &s) == 0) me.network = uint64_t(s.st_ino);
  me.user = getuid(), me.rank = rank, me.n = n, me.number = random_number();
  return me;
}

// The first PE of a node listens at this name for a moment, and the others try to connect. A
// security module, say, may forbid such sockets.
socklen_t door_of(const Identity &first, sockaddr_un *name) {
  name->sun_family = AF_UNIX;
  char hex[33];
  for (size_t i = 0; i < 16; i++) snprintf(hex + 2 * i, 3, "%02x", first.number[i]);
  const int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "shmem-try-%s", hex);
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + size_t(n));
}
struct TrialSocket {
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ~TrialSocket() {
    if (fd >= 0) close(fd);
  }
  bool listen_as(const Identity &me) const {
    sockaddr_un name{};
    const socklen_t bytes = door_of(me, &name);
    return fd >= 0 && bind(fd, reinterpret_cast<sockaddr *>(&name), bytes) == 0 &&
           listen(fd, 4096) == 0;
  }
  bool reaches(const Identity &first) const {
    sockaddr_un name{};
    const socklen_t bytes = door_of(first, &name);
    return fd >= 0 && connect(fd, reinterpret_cast<sockaddr *>(&name), bytes) == 0;
  }
};

// The first rank of each rank's node.
std::vector<int> firsts_of(const std::vector<Identity> &ids) {
  std::vector<int> first(ids.size());
  for (size_t i = 0; i < ids.size(); i++) {
    size_t k = 0;
    while (!ids[k].near(ids[i])) k++;
    first[i] = int(k);
  }
  return first;
}

std::string what_differs() {
  const Identity &first = all[0];
  for (size_t i = 0; i < all.size(); i++) {
    const std::string name = "rank " + std::to_string(i);
    if (strcmp(all[i].version, first.version) != 0)
      return name + " runs libshmem " + all[i].version + ", rank 0 " + first.version;
    if (all[i].rank != int(i))
      return "the program's allgather has rank " + std::to_string(all[i].rank) + " at " +
             std::to_string(i);
    if (all[i].n != first.n)
      return name + " says that the job has " + std::to_string(all[i].n) +
             " PEs, rank 0 that it has " + std::to_string(first.n);
  }
  return {};
}

// first: of each rank, the first rank of its node
Place place_of(int rank, const std::vector<int> &first) {
  const int n = int(first.size());
  Place p = {.me = rank, .n = n, .machine = 0, .pes = {}};
  for (int i = 0; i < n; i++) {
    if (first[size_t(i)] == first[size_t(rank)]) {
      if (i == rank) p.local = int(p.pes.size());
      p.pes.push_back(i);
    } else if (p.elsewhere < 0) {
      p.elsewhere = i;
    }
    p.machine += all[size_t(i)].on_machine(all[size_t(rank)]);
  }
  p.n_local = int(p.pes.size());
  return p;
}

bool place_all(int rank, int n, std::string obstacle, std::string *error) {
  TrialSocket door;
  const Identity me = identity(rank, n);
  const bool listens = door.listen_as(me);
  if (!gather(bytes_of(me), error)) return false;
  if (!take(&all)) {
    *error = "ranks tell other numbers of bytes of themselves: they run different versions of this "
             "library";
    return false;
  }
  if (*error = what_differs(); !error->empty()) return false;
  std::vector<int> first = firsts_of(all);
  const Identity &leader = all[size_t(first[size_t(rank)])];
  const bool reached = first[size_t(rank)] == rank ? listens : TrialSocket().reaches(leader);
  place = place_of(rank, first);
  // A rank that could not go on tells all others why, while all can still return an error.
  if (obstacle.empty())
    obstacle = segment::obstacle(self.env.p2p == Env::network ? alone(place) : place);
  if (!gather((reached ? "1" : "0") + obstacle, error)) return false;
  for (size_t i = 0; i < told.size(); i++) {
    if (told[i].size() > 1) {
      *error = "rank " + std::to_string(i) + ": " + told[i].substr(1);
      return false;
    }
    if (told[i] != "1") first[i] = int(i);
  }
  place = place_of(rank, first);
  if (!net::built && place.n_local < n) {
    const Identity &other = all[size_t(place.elsewhere)];
    *error = "ranks " + std::to_string(rank) + " and " + std::to_string(place.elsewhere) + " are " +
             (all[size_t(rank)].on_machine(other)
                  ? "on one machine, but do not reach each other's sockets (another network "
                    "namespace or user)"
                  : std::string("on different machines, ") + all[size_t(rank)].host + " and " +
                        other.host) +
             ": this build is for one node, see shmem_network(7)";
    return false;
  }
  return true;
}

} // namespace

// The other functions that init calls.
namespace by_group {

static uint64_t number() {
  uint64_t n;
  memcpy(&n, all[0].number.data(), sizeof n);
  return n;
}

static std::string shown_bytes;
static size_t shown_first;

static void show(const void *p, size_t bytes, const void *rest, size_t rest_bytes) {
  shown_first = bytes;
  shown_bytes.assign(static_cast<const char *>(p), bytes);
  shown_bytes.append(static_cast<const char *>(rest), rest_bytes);
  if (tree) tree->begin_gather(shown_bytes);
}
static bool shown() {
  if (!tree) {
    std::string error;
    if (!by_callbacks(shown_bytes, &error)) fatal("shmemx_init_attr: %s", error.c_str());
    return true;
  }
  const int state = tree->gathered(500);
  if (state < 0) fatal("shmemx_init_attr: %s", tree->error().c_str());
  if (state > 0) told = tree->all();
  return state > 0;
}
static void take_part(int pe, size_t from, void *p, size_t bytes) {
  const std::string &t = told[size_t(pe)];
  if (t.size() < from + bytes)
    fatal("PE %d, on %s, tells %zu bytes of itself, this PE, on %s, %zu: nodes have different "
          "versions of this library",
          pe, all[size_t(pe)].host, t.size(), all[size_t(place.me)].host, from + bytes);
  memcpy(p, t.data() + from, bytes);
}
static void seen(void *to, size_t bytes, int n) {
  for (int pe = 0; pe < n; pe++)
    take_part(pe, 0, static_cast<char *>(to) + size_t(pe) * bytes, bytes);
}
static void seen_rest(int pe, void *p, size_t bytes) {
  take_part(pe, shown_first, p, bytes);
}
static Host host_of(int pe) {
  Host h{};
  snprintf(h.name, sizeof h.name, "%s", all[size_t(pe)].host);
  return h;
}
static void poll_for(std::vector<pollfd> *fds) {
  if (tree) tree->add_to(fds);
}
static std::optional<JobEnd> heard() {
  return tree ? tree->heard() : std::nullopt;
}
static void report(const JobEnd &end) {
  if (tree) tree->report(end);
}
static std::optional<JobEnd> ended(bool (*come)(int pe)) {
  const auto end = heard();
  return end && !(end->pe >= 0 && come(end->pe)) ? end : std::nullopt;
}
// It has a connection to what has ended.
static int teller(const JobEnd &end) {
  return end.pe == root_ended ? 0 : end.pe == 0 ? 1 : parent_of(end.pe);
}
static void leave() {
  if (tree) tree->leave();
}

} // namespace by_group

const Means group = {
    [] { return place; }, by_group::number,  by_group::show,  by_group::shown,    by_group::seen,
    by_group::seen_rest,  by_group::host_of, by_group::ended, by_group::poll_for, by_group::heard,
    by_group::report,     by_group::teller,  by_group::leave,
};

bool join_group(int rank, int n, const Id *id, bool patient, const Callbacks *given,
                const std::string &obstacle, std::string *error) {
  const double timeout = self.env.bootstrap_timeout;
  tree.reset();
  if (id) {
    tree = std::make_unique<Tree>(*id, rank, n, self.env.bootstrap_interface, timeout, patient);
    int state;
    while ((state = tree->join(500)) == 0) {
    }
    if (state < 0) *error = tree->error();
    if (state < 0) return false;
  } else {
    callbacks = *given;
  }
  self.n = n; // for by_callbacks
  if (!place_all(rank, n, obstacle, error)) {
    self.n = 0;
    if (tree) tree->leave();
    return false;
  }
  if (tree) tree->started();
  means = &group;
  return true;
}

} // namespace shmem::bootstrap

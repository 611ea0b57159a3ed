// SPDX-License-Identifier: MIT
// A job that variables describe: SHMEM_BOOTSTRAP=env, or torchrun's.
#include "variables.hpp"
#include "../bootstrap.hpp"
#include "../env.hpp"
#include "../log.hpp"
#include "../state.hpp"
#include "group.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <string>

namespace shmem::bootstrap {

namespace {

// A secret from a text, so that the text itself need not have 16 bytes.
Secret secret_of(const std::string &text) {
  return keyed_hash(Secret{'s', 'h', 'm', 'e', 'm'}, text.data(), text.size());
}

// The addresses of the name at which PE 0 listens.
bool where_of(const std::string &host, const char *port, Where *where, std::string *error) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int status = getaddrinfo(host.c_str(), port, &hints, &list)) {
    *error = "the host \"" + host + "\": " + gai_strerror(status);
    return false;
  }
  *where = {};
  where->port = uint16_t(atoi(port));
  for (const addrinfo *a = list; a; a = a->ai_next) {
    const bool four = a->ai_family == AF_INET;
    if (!four && a->ai_family != AF_INET6) continue;
    const size_t bytes = four ? 4 : 16;
    if (where->n + 1 + bytes > sizeof where->packed) break;
    where->packed[where->n] = uint8_t(bytes);
    memcpy(where->packed + where->n + 1,
           four ? static_cast<const void *>(&reinterpret_cast<sockaddr_in *>(a->ai_addr)->sin_addr)
                : &reinterpret_cast<sockaddr_in6 *>(a->ai_addr)->sin6_addr,
           bytes);
    where->n = uint8_t(where->n + 1 + bytes);
  }
  freeaddrinfo(list);
  return true;
}

// PE 0 listens, and all meet there.
void join_at(int rank, int n, const std::string &host, const char *port,
             const std::string &secret) {
  const char *mode = self.env.bootstrap;
  std::string error;
  Id id{};
  id.secret = secret_of(secret);
  if (!where_of(host, port, &id.where, &error))
    fatal("shmem_init: SHMEM_BOOTSTRAP=%s: %s", mode, error.c_str());
  if (rank == 0) {
    const char *at = *self.env.bootstrap_interface ? self.env.bootstrap_interface : "*";
    Id own;
    if (!make_id(at, id.where.port, &id.secret, self.env.bootstrap_timeout, &own, &error))
      fatal("shmem_init: SHMEM_BOOTSTRAP=%s: %s: SHMEM_ROOT names another port", mode,
            error.c_str());
  }
  if (!join_group(rank, n, &id, true, nullptr, {}, &error))
    fatal("shmem_init: SHMEM_BOOTSTRAP=%s: %s", mode, error.c_str());
}

// The number of a variable of torchrun's, or -1.
int number_of(const char *name) {
  const char *text = getenv(name);
  char *end;
  const long n = text && *text ? strtol(text, &end, 10) : -1;
  return n >= 0 && n <= max_pes && !*end ? int(n) : -1;
}

void join_by_env() {
  const std::string root = self.env.bootstrap_root;
  const size_t colon = root.rfind(':');
  if (self.env.job_rank < 0 || self.env.job_size < 1 || colon == std::string::npos ||
      !*self.env.bootstrap_secret)
    fatal("shmem_init: SHMEM_BOOTSTRAP=env needs SHMEM_RANK, SHMEM_SIZE, SHMEM_ROOT=HOST:PORT and "
          "SHMEM_SECRET: they are \"%s\", \"%s\", \"%s\" and %s",
          env_text("RANK") ? env_text("RANK") : "", env_text("SIZE") ? env_text("SIZE") : "",
          self.env.bootstrap_root, *self.env.bootstrap_secret ? "set" : "not set");
  join_at(self.env.job_rank, self.env.job_size, root.substr(0, colon), root.c_str() + colon + 1,
          self.env.bootstrap_secret);
}

void join_by_torchrun() {
  const int rank = number_of("RANK"), n = number_of("WORLD_SIZE"), port = number_of("MASTER_PORT");
  const char *host = getenv("MASTER_ADDR");
  if (rank < 0 || n < 1 || !host || (port < 0 && !*self.env.bootstrap_root))
    fatal(
        "shmem_init: SHMEM_BOOTSTRAP=torchrun needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, "
        "as torchrun sets them");
  // Another run, or the same after a restart, has another secret and another port.
  std::string run = std::string(host) + ":" + std::to_string(port);
  for (const char *name : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"})
    if (const char *text = getenv(name)) run += std::string("/") + text;
  const std::string root = self.env.bootstrap_root;
  const size_t colon = root.rfind(':');
  if (colon != std::string::npos)
    return join_at(rank, n, root.substr(0, colon), root.c_str() + colon + 1,
                   run + self.env.bootstrap_secret);
  const Secret hash = secret_of(run);
  char own[8]; // torchrun's own port is in use; these are below those that systems give out
  snprintf(own, sizeof own, "%d", 20000 + (hash[0] | hash[1] << 8) % 12000);
  join_at(rank, n, host, own, run + self.env.bootstrap_secret);
}

} // namespace

void choose_means() {
  if (means != &launcher) return; // shmemx_init_attr has chosen
  const std::string mode = self.env.bootstrap;
  if (mode == "env") return join_by_env();
  if (mode == "torchrun") return join_by_torchrun();
  if (!mode.empty())
    fatal("SHMEM_BOOTSTRAP = \"%s\": expected env, torchrun or nothing", self.env.bootstrap);
  if (launched() || self.env.quiet) return;
  for (const auto &[rank, size, advice] : other_launchers)
    if (number_of(size) > 1 && number_of(rank) == 0)
      say("%s and %s = %d are set, but no launcher that this library knows has started this "
          "process: it is a job of one PE. %s; or the program calls shmemx_init_attr",
          rank, size, number_of(size), advice);
}

} // namespace shmem::bootstrap

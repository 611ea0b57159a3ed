// SPDX-License-Identifier: MIT
// Starting without a launcher: by a unique id, by the program's own functions, by variables.
#include "start.hpp"
#include "bootstrap.hpp"
#include "bootstrap/group.hpp"
#include "env.hpp"
#include "init.hpp"
#include "log.hpp"
#include "state.hpp"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <shmemx.h>
#include <string>

namespace shmem {

namespace {

using namespace bootstrap;

thread_local std::string last_error;

[[gnu::format(printf, 2, 3)]] int failed(int code, const char *format, ...) {
  char line[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  last_error = line;
  return code;
}

// A secret from a text, so that the text itself need not have 16 bytes.
Secret secret_of(const std::string &text) {
  return keyed_hash(Secret{'s', 'h', 'm', 'e', 'm'}, text.data(), text.size());
}

// Where PE 0 listens: the addresses of a name.
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
  if (!join_group(rank, n, &id, true, nullptr, &error))
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

void choose_way() {
  if (means != &launcher) return; // shmemx_init_attr has chosen
  const std::string mode = self.env.bootstrap;
  if (mode == "env") return join_by_env();
  if (mode == "torchrun") return join_by_torchrun();
  if (!mode.empty())
    fatal("SHMEM_BOOTSTRAP = \"%s\": expected env, torchrun or nothing", self.env.bootstrap);
  if (!launched() && number_of("WORLD_SIZE") > 1 && number_of("RANK") == 0 && !self.env.quiet)
    say("RANK and WORLD_SIZE = %d are set, but no launcher that this library knows has started "
        "this "
        "process: it is a job of one PE. SHMEM_BOOTSTRAP=torchrun takes these variables; a program "
        "can call shmemx_init_attr",
        number_of("WORLD_SIZE"));
}

std::optional<int> device_of_attributes;

namespace {

bool read_variables() {
  char message[256];
  if (read_env(&self.env, message, sizeof message)) return true;
  last_error = message;
  return false;
}

int init_attr(unsigned flags, const shmemx_init_attr_t *attr) {
  constexpr const char *fn = "shmemx_init_attr";
  if (flags) return failed(SHMEMX_ERROR_ARGUMENT, "%s: flags = %#x: must be 0", fn, flags);
  if (!attr) return failed(SHMEMX_ERROR_ARGUMENT, "%s: attr is NULL", fn);
  if (attr->size != sizeof *attr)
    return failed(SHMEMX_ERROR_ARGUMENT,
                  "%s: attr->size = %zu, but this library's is %zu: SHMEMX_INIT_ATTR_INITIALIZER "
                  "sets it",
                  fn, attr->size, sizeof *attr);
  if (attr->thread_level < SHMEM_THREAD_SINGLE || attr->thread_level > SHMEM_THREAD_MULTIPLE)
    return failed(SHMEMX_ERROR_ARGUMENT, "%s: thread_level = %d: not a thread level", fn,
                  attr->thread_level);
  if (attr->device < -1)
    return failed(SHMEMX_ERROR_ARGUMENT, "%s: device = %d: expected -1 or the number of a GPU", fn,
                  attr->device);
  if (!attr->uniqueid == !attr->allgather || !attr->allgather != !attr->barrier)
    return failed(SHMEMX_ERROR_ARGUMENT,
                  "%s: expected either uniqueid, or both allgather and barrier", fn);
  if (self.inits) {
    if (attr->rank != self.me || attr->n != self.n)
      return failed(SHMEMX_ERROR_STATE, "%s: rank = %d of n = %d: this process is PE %d of %d", fn,
                    attr->rank, attr->n, self.me, self.n);
  } else if (self.job) {
    return failed(
        SHMEMX_ERROR_STATE,
        "%s: this process has left a job by shmem_finalize: only shmem_init brings it back", fn);
  } else {
    Id id{};
    if (attr->uniqueid) memcpy(&id, attr->uniqueid, sizeof id);
    if (attr->uniqueid && !id.right())
      return failed(SHMEMX_ERROR_ARGUMENT,
                    "%s: uniqueid is not from shmemx_get_uniqueid of this version", fn);
    if (!read_variables()) return SHMEMX_ERROR_START;
    const Callbacks own = {attr->allgather, attr->barrier, attr->context};
    std::string error;
    if (!join_group(attr->rank, attr->n, attr->uniqueid ? &id : nullptr, false,
                    attr->uniqueid ? nullptr : &own, &error))
      return failed(SHMEMX_ERROR_START, "%s: rank = %d of n = %d: %s", fn, attr->rank, attr->n,
                    error.c_str());
    if (attr->device >= 0) device_of_attributes = attr->device;
  }
  int provided;
  return api::init_thread(fn, attr->thread_level, &provided) ? SHMEMX_ERROR_START : 0;
}

int get_uniqueid(shmemx_uniqueid_t *uniqueid) {
  constexpr const char *fn = "shmemx_get_uniqueid";
  static_assert(sizeof *uniqueid == sizeof(Id));
  if (!uniqueid) return failed(SHMEMX_ERROR_ARGUMENT, "%s: uniqueid is NULL", fn);
  // These are not self.env's: this process need not be a PE.
  Env env{};
  char message[256];
  if (!read_env(&env, message, sizeof message))
    return failed(SHMEMX_ERROR_START, "%s: %s", fn, message);
  Id id;
  std::string error;
  if (!make_id(env.bootstrap_interface, 0, nullptr, env.bootstrap_timeout, &id, &error))
    return failed(SHMEMX_ERROR_START, "%s: %s", fn, error.c_str());
  memcpy(uniqueid, &id, sizeof id);
  return 0;
}

} // namespace
} // namespace shmem

extern "C" [[gnu::visibility("default")]] int shmemx_get_uniqueid(shmemx_uniqueid_t *uniqueid) {
  return shmem::get_uniqueid(uniqueid);
}
extern "C" [[gnu::visibility("default")]] int shmemx_init_attr(unsigned flags,
                                                               const shmemx_init_attr_t *attr) {
  return shmem::init_attr(flags, attr);
}
extern "C" [[gnu::visibility("default")]] const char *shmemx_error_string() {
  return shmem::last_error.c_str();
}

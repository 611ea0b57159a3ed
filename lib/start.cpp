// SPDX-License-Identifier: MIT
// Starting without a launcher: the calls by a unique id and by functions of the program.
#include "bootstrap.hpp"
#include "bootstrap/group.hpp"
#include "env.hpp"
#include "gpu/choice.hpp"
#include "init.hpp"
#include "log.hpp"
#include "state.hpp"
#include <cstdarg>
#include <cstdio>
#include <cstring>
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
  if (attr->device < SHMEMX_DEVICE_CURRENT)
    return failed(SHMEMX_ERROR_ARGUMENT,
                  "%s: device = %d: expected the number of a GPU, SHMEMX_DEVICE_ANY or "
                  "SHMEMX_DEVICE_CURRENT",
                  fn, attr->device);
  if (attr->n > max_pes)
    return failed(SHMEMX_ERROR_ARGUMENT, "%s: n = %d: this build takes at most %d PEs", fn, attr->n,
                  max_pes);
  if (!attr->uniqueid == !attr->allgather || !attr->allgather != !attr->barrier)
    return failed(SHMEMX_ERROR_ARGUMENT,
                  "%s: expected either uniqueid, or both allgather and barrier", fn);
  if (self.inits) {
    if (attr->rank != self.me || attr->n != self.n)
      return failed(SHMEMX_ERROR_STATE, "%s: rank = %d of n = %d: this process is PE %d of %d", fn,
                    attr->rank, attr->n, self.me, self.n);
  } else if (self.job) {
    return failed(SHMEMX_ERROR_STATE,
                  "%s: this process was in a job of a launcher: only shmem_init brings it back",
                  fn);
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
                    attr->uniqueid ? nullptr : &own, gpu::obstacle(attr->device), &error))
      return failed(SHMEMX_ERROR_START, "%s: rank = %d of n = %d: %s", fn, attr->rank, attr->n,
                    error.c_str());
    device_of_attributes =
        attr->device == SHMEMX_DEVICE_CURRENT ? Env::gpu::current : Env::gpu(attr->device);
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

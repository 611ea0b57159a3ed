// SPDX-License-Identifier: MIT
// The messages of inline routines, out of their way.
#include "log.hpp"
#include "signal.hpp"

namespace shmem::api {

void bad_cmp(const char *fn, int cmp) {
  fatal("%s: cmp = %d: not a SHMEM_CMP_ constant", fn, cmp);
}

void bad_signal(const char *fn, int sig_op) {
  fatal("%s: sig_op = %d: neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD", fn, sig_op);
}

} // namespace shmem::api

void shmem::check_stride(const char *fn, const char *arg, ptrdiff_t stride, size_t least) {
  if (stride < 1 || size_t(stride) < least)
    fatal("%s: %s = %td: a stride is at least %zu", fn, arg, stride, least ? least : 1);
}

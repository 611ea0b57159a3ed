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

void shmem::check_strided(const char *fn, const char *arg, const void *other, ptrdiff_t dst,
                          ptrdiff_t sst, size_t least, size_t n) {
  check_pointer(fn, arg, other, n);
  if (least < 1) least = 1;
  if (dst < 1 || size_t(dst) < least)
    fatal("%s: dst = %td: a stride is at least %zu here", fn, dst, least);
  if (sst < 1 || size_t(sst) < least)
    fatal("%s: sst = %td: a stride is at least %zu here", fn, sst, least);
}

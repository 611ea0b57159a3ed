// SPDX-License-Identifier: MIT
#include "address.hpp"
#include "memory/buffer.hpp"
#include "memory/heap.hpp"
#include "signal.hpp"
#include <algorithm>

namespace shmem {

const Region *region(const void *p) {
  for (const Region *r : {&self.heap, &self.data, &self.device})
    if (r->has(p)) return r;
  return buffer::find(p);
}

namespace {

[[noreturn, gnu::cold]] void not_symmetric(const char *fn, const char *arg, const void *p) {
  if (!p) fatal("%s: %s = NULL: not a symmetric address", fn, arg);
  // An easy mistake: the address of another PE's object.
  const int local = std::max(holder(self.device, p), holder(self.heap, p));
  if (local >= 0)
    fatal("%s: %s = %p: not a symmetric address, but where this PE sees the heap of PE %d "
          "(shmem_ptr): pass this PE's own "
          "address of the object, and the PE's number",
          fn, arg, p, self.pe_of(local));
  fatal("%s: %s = %p: not a symmetric address: it is neither from shmem_malloc, nor a global or "
        "static variable of the program, nor in a registered buffer",
        fn, arg, p);
}

} // namespace

void check_symmetric(const char *fn, const char *arg, const void *p, size_t bytes, size_t align) {
  if (bytes == 0) return;
  const Region *r = region(p);
  if (!r) not_symmetric(fn, arg, p);
  if (r == &self.heap || r == &self.device) {
    size_t room = heap_room(p);
    if (!room)
      fatal("%s: %s = %p: on the symmetric heap, but not in an allocated block: freed?", fn, arg,
            p);
    if (bytes > room)
      fatal("%s: %s = %p: %zu bytes from there, but its block on the symmetric heap ends after %zu",
            fn, arg, p, bytes, room);
  } else if (!r->has(p, bytes)) {
    fatal("%s: %s = %p: %zu bytes from there reach past the end of the %s", fn, arg, p, bytes,
          r == &self.data ? "static data" : "registered buffer");
  }
  if (uintptr_t(p) % align) fatal("%s: %s = %p: not aligned to %zu bytes", fn, arg, p, align);
}

void check_arrays(const char *fn, const void *dest, size_t dest_bytes, const void *source,
                  size_t source_bytes, size_t align, bool in_place) {
  check_symmetric(fn, "dest", dest, dest_bytes, align);
  check_symmetric(fn, "source", source, source_bytes, align);
  auto d = uintptr_t(dest), s = uintptr_t(source);
  if (in_place && d == s) return;
  if (dest_bytes && source_bytes && d < s + source_bytes && s < d + dest_bytes)
    fatal("%s: dest = %p: overlaps source = %p", fn, dest, source);
}

void check_pointer(const char *fn, const char *arg, const void *p, size_t n) {
  if (!p && n) fatal("%s: %s = NULL: no buffer, though the length is not 0", fn, arg);
}

void check_block(const char *fn, const Block2d &b, size_t unit) {
  const struct {
    const char *name;
    ptrdiff_t stride;
    size_t least;
  } strides[] = {{"dest_block", b.dest_block, 1},
                 {"dest_row", b.dest_row, b.bytes / unit},
                 {"source_block", b.source_block, 1},
                 {"source_row", b.source_row, b.bytes / unit}};
  for (const auto &[name, stride, least] : strides) {
    const ptrdiff_t elements = stride / ptrdiff_t(unit);
    if (elements < 1 || size_t(elements) < least)
      fatal("%s: %s = %td: a stride is at least %zu here", fn, name, elements,
            std::max<size_t>(least, 1));
  }
}

size_t check_uneven(const char *fn, const Uneven &u) {
  const struct {
    const char *name;
    const void *p;
  } arrays[] = {{"recv_counts", u.recv_counts},
                {"recv_offsets", u.recv_offsets},
                {"counts", u.counts},
                {"offsets", u.offsets}};
  for (const auto &[name, p] : arrays)
    if (!p) fatal("%s: %s = NULL: no array of a number for each PE", fn, name);
  size_t bytes;
  if (u.unit == 0) fatal("%s: unit_bytes = 0: a unit has at least 1 byte", fn);
  if (__builtin_mul_overflow(u.capacity, u.unit, &bytes))
    fatal("%s: capacity = %zu: no memory has as many units of %zu bytes", fn, u.capacity, u.unit);
  return bytes;
}

static std::optional<void *> in(const Region &r, const void *p, int pe) {
  const int local = local_of(pe);
  return local < 0 ? std::nullopt : std::optional(r.at(p, local));
}

void not_mapped(const char *fn, int pe) {
  fatal("%s: PE %d is on another node, which this routine does not reach yet", fn, pe);
}

std::optional<void *> slow_address(const Access &a) {
  check_ready(a.fn);
  const bool pe_ok = unsigned(a.pe) < unsigned(self.n);
  if (self.data.has(a.p) && pe_ok && !self.check) // static data: the usual case here
    return in(self.data, a.p, a.pe);
  if (!pe_ok) fatal("%s: pe = %d: the program has PEs 0 to %d", a.fn, a.pe, self.n - 1);
  if (a.bytes == 0) return const_cast<void *>(a.p); // of length 0, any address is allowed, NULL too
  if (self.check) {
    check_symmetric(a.fn, a.arg, a.p, a.bytes, a.align);
    const bool two = a.other != no_other;
    if (two) check_pointer(a.fn, *a.arg == 'd' ? "source" : "dest", a.other, a.bytes);
    if (two && a.pe == self.me) {
      auto p = uintptr_t(a.p), q = uintptr_t(a.other);
      if (p < q + a.bytes && q < p + a.bytes)
        fatal("%s: %s = %p: source and dest overlap on this PE", a.fn, a.arg, a.p);
    }
  }
  const Region *r = region(a.p);
  if (!r) not_symmetric(a.fn, a.arg, a.p);
  buffer::check_at(a.fn, a.arg, a.p, *r, a.pe);
  if (a.atomic) buffer::check_atomic(a.fn, a.arg, a.p, a.pe);
  return in(*r, a.p, a.pe);
}

void check_strided(const char *fn, const char *arg, const void *other, ptrdiff_t dst, ptrdiff_t sst,
                   size_t least, size_t n) {
  check_pointer(fn, arg, other, n);
  if (least < 1) least = 1;
  if (dst < 1 || size_t(dst) < least)
    fatal("%s: dst = %td: a stride is at least %zu here", fn, dst, least);
  if (sst < 1 || size_t(sst) < least)
    fatal("%s: sst = %td: a stride is at least %zu here", fn, sst, least);
}

void api::bad_cmp(const char *fn, int cmp) {
  fatal("%s: cmp = %d: not a SHMEM_CMP_ constant", fn, cmp);
}

void api::bad_signal(const char *fn, int sig_op) {
  fatal("%s: sig_op = %d: neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD", fn, sig_op);
}

} // namespace shmem

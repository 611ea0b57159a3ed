// SPDX-License-Identifier: MIT
// Copies and fills. As on a GPU, memory that HIP does not know has been read, or written, when a
// call returns.
#include "internal.hpp"
#include <cstring>

namespace hip_cpu {

using impl::done, impl::find, impl::runtime, impl::submit, impl::work;

namespace {

// A copy of rows.
struct RowCopy {
  char *to;
  const char *from;
  size_t to_pitch, from_pitch, width, height;
  bool to_known, from_known;

  // An aligned word goes in one store, as an engine of a GPU does it: memmove stores 8 bytes twice,
  // and 2 one by one.
  template <class W> bool word(size_t row) const {
    char *d = to + row * to_pitch;
    if (width != sizeof(W) || uintptr_t(d) % sizeof(W)) return false;
    W w;
    memcpy(&w, from + row * from_pitch, sizeof w);
    __atomic_store_n(reinterpret_cast<W *>(d), w, __ATOMIC_RELAXED);
    return true;
  }
  void run() const {
    for (size_t row = 0; row < height; row++)
      if (!word<uint64_t>(row) && !word<uint32_t>(row) && !word<uint16_t>(row))
        memmove(to + row * to_pitch, from + row * from_pitch, width);
  }
};

// Known memory must hold all of it. Under the lock.
bool inside(const void *p, size_t bytes, bool *known) {
  auto *entry = find(p);
  if (!entry) return true;
  *known = true;
  return bytes <= entry->second.bytes - (uintptr_t(p) - entry->first);
}

hipError_t copy(RowCopy c, hipMemcpyKind kind, hipStream_t stream, bool wait) {
  if (c.width == 0 || c.height == 0) return hipSuccess;
  if (!c.to || !c.from) return hipErrorInvalidValue;
  if (kind < hipMemcpyHostToHost || kind > hipMemcpyDefault) return hipErrorInvalidMemcpyDirection;
  if (c.to_pitch < c.width || c.from_pitch < c.width) return hipErrorInvalidPitchValue;
  {
    std::lock_guard guard(runtime().mutex);
    if (!inside(c.to, (c.height - 1) * c.to_pitch + c.width, &c.to_known) ||
        !inside(c.from, (c.height - 1) * c.from_pitch + c.width, &c.from_known))
      return hipErrorInvalidValue;
  }
  if (impl::capturing(stream)) return submit(stream, work([c] { c.run(); }), false);
  if (wait || !c.to_known) return submit(stream, work([c] { c.run(); }), true);
  if (c.from_known) return submit(stream, work([c] { c.run(); }), false);
  std::vector<char> taken(c.width * c.height);
  RowCopy{taken.data(), c.from, c.width, c.from_pitch, c.width, c.height, true, true}.run();
  return submit(stream, work([c, taken = std::move(taken)] {
                  RowCopy from = c;
                  from.from = taken.data();
                  from.from_pitch = c.width;
                  from.run();
                }),
                false);
}

RowCopy row(void *to, const void *from, size_t bytes) {
  return {static_cast<char *>(to),
          static_cast<const char *>(from),
          bytes,
          bytes,
          bytes,
          1,
          false,
          false};
}

hipError_t fill(void *to, int byte, size_t bytes, hipStream_t stream, bool wait) {
  if (bytes == 0) return hipSuccess;
  if (!to) return hipErrorInvalidValue;
  bool known = false;
  {
    std::lock_guard guard(runtime().mutex);
    if (!inside(to, bytes, &known)) return hipErrorInvalidValue;
  }
  return submit(stream, work([=] { memset(to, byte, bytes); }), wait && !impl::capturing(stream));
}

} // namespace

inline namespace names {

hipError_t hipMemcpy(void *to, const void *from, size_t bytes, hipMemcpyKind kind) {
  HIP_ENTER_UNLESS_CAPTURING();
  return done(copy(row(to, from, bytes), kind, nullptr, true));
}
hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream) {
  HIP_ENTER();
  return done(copy(row(to, from, bytes), kind, stream, false));
}
hipError_t hipMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                       size_t height, hipMemcpyKind kind) {
  HIP_ENTER_UNLESS_CAPTURING();
  return done(copy({static_cast<char *>(to), static_cast<const char *>(from), to_pitch, from_pitch,
                    width, height, false, false},
                   kind, nullptr, true));
}
hipError_t hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                            size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream) {
  HIP_ENTER();
  return done(copy({static_cast<char *>(to), static_cast<const char *>(from), to_pitch, from_pitch,
                    width, height, false, false},
                   kind, stream, false));
}

hipError_t hipMemset(void *to, int byte, size_t bytes) {
  HIP_ENTER_UNLESS_CAPTURING();
  return done(fill(to, byte, bytes, nullptr, true));
}
hipError_t hipMemsetAsync(void *to, int byte, size_t bytes, hipStream_t stream) {
  HIP_ENTER();
  return done(fill(to, byte, bytes, stream, false));
}

hipError_t hipGetSymbolAddress(void **p, const void *symbol) {
  HIP_ENTER();
  if (!p) return done(hipErrorInvalidValue);
  if (!symbol) return done(hipErrorInvalidSymbol);
  *p = const_cast<void *>(symbol);
  return hipSuccess;
}
hipError_t hipMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                             hipMemcpyKind kind) {
  HIP_ENTER_UNLESS_CAPTURING();
  if (!symbol) return done(hipErrorInvalidSymbol);
  if (kind == hipMemcpyDeviceToHost || kind == hipMemcpyHostToHost)
    return done(hipErrorInvalidMemcpyDirection);
  return done(copy(row(static_cast<char *>(const_cast<void *>(symbol)) + offset, from, bytes), kind,
                   nullptr, true));
}
hipError_t hipMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
                               hipMemcpyKind kind) {
  HIP_ENTER_UNLESS_CAPTURING();
  if (!symbol) return done(hipErrorInvalidSymbol);
  if (kind == hipMemcpyHostToDevice || kind == hipMemcpyHostToHost)
    return done(hipErrorInvalidMemcpyDirection);
  return done(
      copy(row(to, static_cast<const char *>(symbol) + offset, bytes), kind, nullptr, true));
}

} // namespace names
} // namespace hip_cpu

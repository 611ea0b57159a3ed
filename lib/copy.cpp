// SPDX-License-Identifier: MIT
#include "copy.hpp"
#include "gpu.hpp"
#include <cstdio>
#if defined __x86_64__
#include <emmintrin.h>
#endif

namespace shmem {

size_t stream_threshold() {
#if defined __x86_64__
  // What memcpy of glibc takes for the cache is several times too large on virtual machines (256
  // MiB where the kernel shows 32), and it streams only from 3/4 of that.
  unsigned long kib = 0;
  if (FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re")) {
    if (fscanf(f, "%luK", &kib) != 1) kib = 0;
    fclose(f);
  }
  return kib ? kib * 1024 / 2 : 16 << 20;
#else
  return ~size_t(0); // memcpy knows best
#endif
}

// 16 to 128 MiB on an EPYC, 2026-11: 13.2 to 15.3 GB/s, memcpy 8.1 to 11.1.
void copy_stream(void *dest, const void *source, size_t n) {
  if (self.far) { // every copy comes here
    if (gpu::is_far(dest) || gpu::is_far(source)) return gpu::copy(dest, source, n);
    static const size_t least = stream_threshold();
    if (n < least) return void(memcpy(dest, source, n));
  }
#if defined __x86_64__
  auto *d = static_cast<char *>(dest);
  auto *s = static_cast<const char *>(source);
  size_t head = -uintptr_t(d) & 63;
  memcpy(d, s, head);
  size_t at = head;
  for (; at + 64 <= n; at += 64)
    for (int i = 0; i < 64; i += 16)
      _mm_stream_si128(reinterpret_cast<__m128i *>(d + at + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i *>(s + at + i)));
  _mm_sfence(); // streaming stores are not ordered with the store of a flag that follows
  memcpy(d + at, s + at, n - at);
#else
  memcpy(dest, source, n);
#endif
}

} // namespace shmem

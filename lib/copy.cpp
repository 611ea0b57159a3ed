// SPDX-License-Identifier: MIT
#include "copy.hpp"
#include "gpu/copy.hpp"
#include "gpu/heap.hpp"
#include <cstdio>
#if defined __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace shmem {

namespace {

using byte = unsigned char;
struct Bytes16 {
  uint64_t word[2];
};

// Copies one word, whatever its alignment, and moves on. The barrier keeps the compiler from
// joining such stores, and from turning a loop of them into memcpy.
template <class W> [[gnu::always_inline]] inline void step(byte *&d, const byte *&s) {
  W word;
  memcpy(&word, s, sizeof word);
  memcpy(d, &word, sizeof word);
  asm volatile("" ::: "memory");
  d += sizeof word;
  s += sizeof word;
}
// Less than 16 bytes. Each word is aligned if dest starts on a multiple of 8.
[[gnu::always_inline]] inline void step_down(byte *&d, const byte *&s, size_t n) {
  if (n & 8) step<uint64_t>(d, s);
  if (n & 4) step<uint32_t>(d, s);
  if (n & 2) step<uint16_t>(d, s);
  if (n & 1) step<uint8_t>(d, s);
}
// Less than 8 bytes. Each word is aligned if dest ends on a multiple of 8.
[[gnu::always_inline]] inline void step_up(byte *&d, const byte *&s, size_t n) {
  if (n & 1) step<uint8_t>(d, s);
  if (n & 2) step<uint16_t>(d, s);
  if (n & 4) step<uint32_t>(d, s);
}
// More than 8 bytes to a multiple of 8, by words of Wide; the last ones are halved.
template <class Wide>
[[gnu::always_inline]] inline void step_wide(byte *d, const byte *s, size_t n) {
  size_t left = (n - 1) & ~size_t(7);
  n -= left; // the last word
  for (; left >= 4 * sizeof(Wide); left -= 4 * sizeof(Wide))
    for (int i = 0; i < 4; i++) step<Wide>(d, s);
  for (; left >= sizeof(Wide); left -= sizeof(Wide)) step<Wide>(d, s);
  if (left & sizeof(Bytes16)) step<Bytes16>(d, s);
  if (left & 8) step<uint64_t>(d, s);
  step_down(d, s, n);
}

#if defined __x86_64__

// The processor's features; a test takes some of them away.
struct {
  bool lines, words, strings;
} can = [] {
  const bool words = __builtin_cpu_supports("avx");
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
  return decltype(can){false, words, false}; // sanitizers see none of these instructions
#else
  // Processors without VBMI2 lower their clock for words of 64 bytes.
  const bool lines = __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("bmi2");
  unsigned a, b, c, d;
  constexpr unsigned erms = 1 << 9;
  return decltype(can){lines, words, __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & erms};
#endif
}();

// One instruction for count bytes. Its stores come in any order, but before all later ones (SDM 3A,
// 8.2.4.1). It is slow to an address inside a line.
[[gnu::always_inline]] inline void string(byte *&d, const byte *&s, size_t count) {
  asm volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(count)::"memory");
}

// ns on an EPYC (Zen 5, 2026-11), within its caches: memcpy / by lines / by words of 32 / by
// string: 64 B 2.7, 1.6, 2.7, -; 1 KiB 5.3, 5.3, 7.7, 13; 4 KiB 26, 15, 24, 27; 8 KiB 49, 30, 57,
// 49; 16 KiB 93, 59, 103, 92; 32 KiB 183, 290, 259, 182.
constexpr size_t string_of_lines = 24 << 10, string_of_words = 8 << 10;

// More than 8 bytes, by whole lines, and by masked stores for the rest on both sides.
[[gnu::noinline, gnu::target("avx512bw,bmi2")]] void by_lines(byte *d, const byte *s, size_t n) {
  constexpr size_t line = 64; // of x86's caches
  const auto some = [&](size_t bytes) __attribute__((target("avx512bw,bmi2"), always_inline)) {
    const __mmask64 mask = _bzhi_u64(~uint64_t(0), bytes);
    _mm512_mask_storeu_epi8(d, mask, _mm512_maskz_loadu_epi8(mask, s));
    asm volatile("" ::: "memory");
    d += bytes;
    s += bytes;
  };
  const size_t last = ((uintptr_t(d) + n - 1) & 7) + 1; // bytes of the last aligned word
  size_t left = n - last;
  if (left > line) { // a word of 8 bytes must not be split
    const size_t head = -uintptr_t(d) & (left < 512 ? 7 : line - 1);
    if (head) some(head), left -= head;
    if (left >= string_of_lines && can.strings) string(d, s, left & ~(line - 1)), left &= line - 1;
#pragma GCC unroll 1
    for (; left > 4 * line; left -= 4 * line)
      for (int i = 0; i < 4; i++) step<__m512i_u>(d, s);
#pragma GCC unroll 1
    for (; left > line; left -= line) step<__m512i_u>(d, s);
  }
  some(left);
  if (last == 8) return step<uint64_t>(d, s);
  step_down(d, s, last);
}

// More than 8 bytes to a multiple of 8.
[[gnu::noinline, gnu::target("avx")]] void by_words(byte *d, const byte *s, size_t n) {
  if (n >= string_of_words && can.strings) {
    for (; uintptr_t(d) & 63; n -= 8) step<uint64_t>(d, s);
    const size_t count = (n - 1) & ~size_t(7);
    string(d, s, count);
    return step_down(d, s, n - count);
  }
  if (n >= 512)
    for (; uintptr_t(d) & 31; n -= 8) step<uint64_t>(d, s);
  step_wide<__m256i_u>(d, s, n);
}

#endif

} // namespace

void copy_once(void *dest, const void *source, size_t n) {
  auto *d = static_cast<byte *>(dest);
  auto *s = static_cast<const byte *>(source);
  if (n <= 8) {
    if ((n & (n - 1)) == 0) return step_down(d, s, n);
    const size_t head = -uintptr_t(d) & 3; // 3, 5, 6, 7
    step_up(d, s, head);
    return step_down(d, s, n - head);
  }
#if defined __x86_64__
  if (can.lines) return by_lines(d, s, n);
#endif
  const size_t head = -uintptr_t(d) & 7;
  step_up(d, s, head);
  n -= head;
  if (n <= 8) return step_down(d, s, n);
#if defined __x86_64__
  if (can.words) return by_words(d, s, n);
#endif
  step_wide<Bytes16>(d, s, n);
}

size_t stream_threshold() {
#if defined __x86_64__
  // On virtual machines glibc's memcpy takes the cache for several times too large (256 MiB where
  // the kernel shows 32), and streams only from 3/4 of that on.
  unsigned long kib = 0;
  if (FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re")) {
    if (fscanf(f, "%luK", &kib) != 1) kib = 0;
    fclose(f);
  }
  return kib ? kib * 1024 / 2 : 16 << 20;
#else
  return ~size_t(0);
#endif
}

// 16 to 128 MiB on an EPYC, 2026-11: 13.2 to 15.3 GB/s, memcpy 8.1 to 11.1.
void copy_stream(void *dest, const void *source, size_t n) {
  if (self.device_only) { // every copy comes here
    if (gpu::is_device_only(dest, source)) return gpu::copy(dest, source, n);
    static const size_t least = stream_threshold();
    if (n < least) return copy_once(dest, source, n);
  }
#if defined __x86_64__
  auto *d = static_cast<byte *>(dest);
  auto *s = static_cast<const byte *>(source);
  size_t at = -uintptr_t(d) & 63;
  copy_once(d, s, at);
  for (; at + 64 < n; at += 64)
    for (int i = 0; i < 64; i += 16)
      _mm_stream_si128(reinterpret_cast<__m128i *>(d + at + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i *>(s + at + i)));
  _mm_sfence(); // streaming stores are not ordered with the last word, nor with a flag behind it
  copy_once(d + at, s + at, n - at);
#else
  copy_once(dest, source, n);
#endif
}

} // namespace shmem

// SPDX-License-Identifier: MIT
// The lines of an L1 and an L2, and the waves and GPUs that see them.
#include "driver.hpp"
#include "memory.hpp"
#include <algorithm>
#include <sys/mman.h>

namespace amdgpu {
namespace {

constexpr size_t l1_lines = 256; // 16 KiB of gfx90a, 32 KiB of gfx942

size_t l1_line() {
  return gfx90a() ? 64 : 128;
}

// Words of memory stay whole, as an access of the host's own does.
template <bool to_memory> void copy_words(void *to, const void *from, size_t bytes) {
  auto *t = static_cast<uint8_t *>(to);
  auto *f = static_cast<const uint8_t *>(from);
  while (bytes) {
    const uintptr_t at = to_memory ? uintptr_t(t) : uintptr_t(f);
    const size_t n = at % 8 == 0 && bytes >= 8   ? 8
                     : at % 4 == 0 && bytes >= 4 ? 4
                     : at % 2 == 0 && bytes >= 2 ? 2
                                                 : 1;
    switch (n) {
    case 8:
      copy<8>(t, f);
      break;
    case 4:
      copy<4>(t, f);
      break;
    case 2:
      copy<2>(t, f);
      break;
    default:
      copy<1>(t, f);
    }
    t += n, f += n, bytes -= n;
  }
}
uint64_t mask_of(size_t at, size_t bytes) {
  return (bytes >= 64 ? ~uint64_t(0) : (uint64_t(1) << bytes) - 1) << at;
}
// f(address, bytes, the place in what is copied) for each line's part.
template <class F> void each_line(uint64_t address, size_t bytes, size_t line, F f) {
  for (size_t done = 0; done < bytes;) {
    const size_t n = std::min(bytes - done, line - size_t(address + done) % line);
    f(address + done, n, done);
    done += n;
  }
}
uint8_t *memory_at(uint64_t address) {
  return reinterpret_cast<uint8_t *>(address);
}

// On gfx90a a GPU's own coarse-grained memory is cached, and probed when others write.
bool is_probed(unsigned node, bool coarse) {
  return strict_seed() && gfx90a() && node && coarse;
}
uint64_t probed_bytes(uint64_t bytes) {
  return bytes + 4096;
}

} // namespace

uint64_t bytes_in_file(unsigned node, bool coarse, uint64_t bytes) {
  return bytes + (is_probed(node, coarse) ? probed_bytes(bytes) : 0);
}
uint8_t *map_probed(unsigned node, bool coarse, uint64_t bytes, int fd, int64_t place) {
  if (!is_probed(node, coarse)) return nullptr;
  void *p = mmap(nullptr, probed_bytes(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                 fd, place + int64_t(bytes));
  if (p == MAP_FAILED)
    stop(nullptr, "no address space for what probes say of %zu bytes", size_t(bytes));
  return static_cast<uint8_t *>(p);
}
void unmap_probed(uint8_t *probed, uint64_t bytes) {
  if (probed) munmap(probed, probed_bytes(bytes));
}

// By the driver's choice of the memory type (MTYPE): on gfx90a CC and UC for fine-grained memory,
// RW for coarse-grained memory of this GPU and NC for others'; on gfx942 RW for this GPU's, NC for
// the others', both also where it is fine-grained, and UC for the host's. Where a GPU has several
// L2s (an MI300X that is not partitioned), none of them is told of what the others do.
Keep L2::keep_of(uint64_t address) {
  if (address - known_from_ < known_to_ - known_from_ && version_ == memory_version())
    return known_;
  version_ = memory_version();
  const Range range = range_of(memory_at(address));
  known_from_ = reinterpret_cast<uint64_t>(range.begin), known_to_ = known_from_ + range.bytes;
  if (!range.bytes)
    known_ = Keep::nothing;
  else if (gfx90a())
    known_ = !range.coarse ? Keep::nothing : range.node == node_ ? Keep::written : Keep::lines;
  else
    known_ = !range.node                        ? Keep::nothing
             : range.node == node_ && !several_ ? Keep::written
                                                : Keep::lines;
  known_own_ = range.node == node_;
  known_probed_ = range.probed;
  return known_;
}

namespace {
// While it lives no other L2 compares or changes the bytes behind that word. An L2 whose process
// has been killed is not waited for.
class Taken {
  uint32_t *word_;

public:
  explicit Taken(uint32_t *word) : word_(word) {
    for (int i = 0; word_ && i < 1 << 22 && __atomic_exchange_n(word_, 1, __ATOMIC_ACQUIRE); i++) {
    }
  }
  ~Taken() {
    if (word_) __atomic_store_n(word_, 0, __ATOMIC_RELEASE);
  }
  Taken(const Taken &) = delete;
  Taken &operator=(const Taken &) = delete;
};
} // namespace

void L2::know(uint64_t at, Line &line, Keep keep) {
  line.keep = keep;
  if (!known_probed_) return;
  const uint64_t bytes = known_to_ - known_from_;
  line.probed = known_probed_ + (at - known_from_);
  line.taken = reinterpret_cast<uint32_t *>(known_probed_ + bytes);
}
void L2::touch(Line &line, uint64_t bytes) {
  line.dirty |= bytes;
  for (; line.probed && bytes; bytes &= bytes - 1) {
    const int i = std::countr_zero(bytes);
    line.seen[i] = __atomic_load_n(line.probed + i, __ATOMIC_ACQUIRE);
  }
}
// A write of another GPU takes a line away, and what was dirty has gone to memory before that.
void L2::probe(Line &line) {
  if (!line.probed || line.keep != Keep::written) return;
  for (uint64_t left = line.dirty; left; left &= left - 1) {
    const int i = std::countr_zero(left);
    if (line.seen[i] != __atomic_load_n(line.probed + i, __ATOMIC_ACQUIRE))
      line.dirty &= ~(uint64_t(1) << i);
  }
}

void L2::fill(uint64_t at, Line &line) {
  if (line.filled) return;
  alignas(8) uint8_t now[size];
  copy_words<false>(now, memory_at(at), size);
  for (size_t i = 0; i < size; i++)
    if (!(line.dirty >> i & 1)) line.data[i] = now[i];
  line.filled = line.keep == Keep::lines; // others' writes take away a line of its own GPU's
}
void L2::clean(uint64_t at, Line &line) {
  if (!line.dirty) return;
  const Taken taken(line.taken);
  probe(line);
  for (size_t i = 0; i < size;) {
    size_t n = 0;
    while (i + n < size && line.dirty >> (i + n) & 1) n++;
    if (n) copy_words<true>(memory_at(at + i), line.data + i, n);
    for (size_t k = 0; k < n && line.probed && line.keep == Keep::lines; k++)
      __atomic_fetch_add(line.probed + i + k, 1, __ATOMIC_RELEASE);
    i += n + 1;
  }
  line.dirty = 0;
}

void L2::read(uint64_t address, void *to, size_t bytes, bool fresh) {
  const Keep keep = keep_of(address);
  each_line(address, bytes, size, [&](uint64_t a, size_t n, size_t done) {
    uint8_t *out = static_cast<uint8_t *>(to) + done;
    const uint64_t at = a / size * size;
    const auto found = keep == Keep::nothing ? lines_.end() : lines_.find(at);
    if (found == lines_.end() && (keep != Keep::lines || fresh))
      return copy_words<false>(out, memory_at(a), n);
    Line &line = found == lines_.end() ? lines_[at] : found->second;
    know(at, line, keep);
    if (fresh) line.filled = false;
    probe(line);
    fill(at, line);
    memcpy(out, line.data + a % size, n);
  });
}

void L2::write(uint64_t address, const void *from, size_t bytes, bool through) {
  const Keep keep = keep_of(address);
  each_line(address, bytes, size, [&](uint64_t a, size_t n, size_t done) {
    const uint8_t *in = static_cast<const uint8_t *>(from) + done;
    if (keep == Keep::nothing) return copy_words<true>(memory_at(a), in, n);
    const uint64_t at = a / size * size;
    Line &line = lines_[at];
    know(at, line, keep);
    memcpy(line.data + a % size, in, n);
    touch(line, mask_of(a % size, n));
    if (!through && !random_.one_in(early_)) return;
    clean(at, line);
    if (!line.filled) lines_.erase(at);
  });
}

void *L2::word(uint64_t address, size_t bytes, bool system) {
  const Keep keep = keep_of(address);
  if (keep == Keep::nothing) return nullptr;
  const uint64_t at = address / size * size;
  // One for all GPUs, or for all dies of this one, is done where the memory is.
  if (system || (several_ && known_own_)) {
    const auto line = lines_.find(at);
    if (line != lines_.end()) clean(at, line->second), lines_.erase(line);
    return nullptr;
  }
  Line &line = lines_[at];
  know(at, line, keep);
  probe(line);
  fill(at, line);
  touch(line, mask_of(address % size, bytes));
  return line.data + address % size;
}

template <class F> void L2::take(F gone) { // writes back all for which it is said, and lets them go
  for (auto at = lines_.begin(); at != lines_.end();) {
    const bool goes = gone(at->first, at->second);
    if (goes) clean(at->first, at->second);
    at = goes ? lines_.erase(at) : std::next(at);
  }
}
void L2::write_back() {
  take([this](uint64_t at, Line &line) {
    clean(at, line);
    return !line.filled;
  });
}
void L2::invalidate() {
  take([](uint64_t, Line &line) { return line.keep == Keep::lines; });
}
void L2::forget(uint64_t begin, size_t bytes) {
  take([&](uint64_t at, Line &) { return at - begin < bytes; });
}

// Scopes of accesses. gfx90a: glc passes the L1. gfx942: sc1 does, for this GPU, and with sc0 for
// all.
bool L2::reaches(uint8_t bits) const {
  return !gfx90a() && bits & 2 && (bits & 1 || several_);
}
void late_changed(Wave &w, uint64_t address, const void *now, size_t bytes) {
  each_line(address, bytes, l1_line(), [&](uint64_t a, size_t n, size_t done) {
    const auto line = w.late->cu.l1.find(a / l1_line());
    if (line != w.late->cu.l1.end())
      memcpy(line->second.data() + a % l1_line(), static_cast<const uint8_t *>(now) + done, n);
  });
}
void late_read(Wave &w, uint8_t bits, uint64_t address, void *to, size_t bytes) {
  Cu &cu = w.late->cu;
  if (gfx90a() ? bits & 1 : bits & 2) {
    cu.l2.read(address, to, bytes, cu.l2.reaches(bits));
    return late_changed(w, address, to, bytes); // what is seen once does not go back
  }
  each_line(address, bytes, l1_line(), [&](uint64_t a, size_t n, size_t done) {
    auto line = cu.l1.find(a / l1_line());
    if (line == cu.l1.end()) {
      std::array<uint8_t, 128> fresh;
      cu.l2.read(a / l1_line() * l1_line(), fresh.data(), l1_line(), false);
      if (cu.l1.size() >= l1_lines) cu.l1.erase(cu.l1.begin());
      line = cu.l1.emplace(a / l1_line(), fresh).first;
    }
    memcpy(static_cast<uint8_t *>(to) + done, line->second.data() + a % l1_line(), n);
  });
}
void late_write(Wave &w, uint8_t bits, uint64_t address, const void *from, size_t bytes) {
  late_changed(w, address, from, bytes);
  L2 &l2 = w.late->cu.l2;
  l2.write(address, from, bytes, l2.reaches(bits));
}
void *late_word(Wave &w, uint8_t bits, uint64_t address, size_t bytes) {
  return w.late->cu.l2.word(address, bytes, !gfx90a() && bits & 2);
}
// Of memory that does not change while the kernel runs, by a cache that begins empty.
void late_scalar(Wave &w, uint64_t address, void *to, size_t bytes) {
  w.late->cu.l2.read(address, to, bytes, false);
}

} // namespace amdgpu

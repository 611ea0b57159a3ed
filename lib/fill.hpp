// SPDX-License-Identifier: MIT
// Filling memory on a stream, see stream.hpp.
#pragma once
#include "stream.hpp"

namespace shmem {

namespace stream {

void fill(const char *fn, void *dest, uint64_t bits, size_t unit, size_t n, Stream stream);
void iota(const char *fn, ElementType type, void *dest, uint64_t first, uint64_t step, size_t unit,
          size_t n, Stream stream);
void random(const char *fn, ElementType type, void *dest, size_t unit, size_t n, uint64_t seed,
            uint64_t first, Stream stream);
int broadcast_value(const char *fn, shmem_team_t team, void *dest, uint64_t bits, size_t unit,
                    size_t n, int root, Stream stream);

} // namespace stream

namespace on_stream {

template <class T> inline void fill(const char *fn, T *dest, T value, size_t n, Stream s) {
  stream::fill(fn, dest, stream::bits(value), sizeof(T), n, s);
}
template <class T> inline void iota(const char *fn, T *dest, T first, T step, size_t n, Stream s) {
  stream::iota(fn, type_of<Element<Sum, T>>, dest, stream::bits(first), stream::bits(step),
               sizeof(T), n, s);
}
template <class T>
inline void random(const char *fn, T *dest, size_t n, uint64_t seed, uint64_t first, Stream s) {
  stream::random(fn, type_of<Element<Sum, T>>, dest, sizeof(T), n, seed, first, s);
}
template <class T>
inline int broadcast_value(const char *fn, shmem_team_t team, T *dest, T value, size_t n, int root,
                           Stream s) {
  return stream::broadcast_value(fn, team, dest, stream::bits(value), sizeof(T), n, root, s);
}

} // namespace on_stream
} // namespace shmem

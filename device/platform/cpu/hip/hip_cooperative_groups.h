// SPDX-License-Identifier: MIT
// Groups of threads: a block, and tiles of it up to a wave. A tile's operation is one of its wave:
// it waits for all lanes of the wave that have not ended. Groups of a grid and of the threads that
// have come (coalesced_threads) are missing: no thread here knows which others have come.
#pragma once
#include "hip_runtime.h"

namespace cooperative_groups {

class thread_group {
public:
  unsigned size() const {
    const unsigned all = blockDim.x * blockDim.y * blockDim.z;
    return tile ? std::min(tile, all - number() / tile * tile) : all;
  }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const { return tile ? number() % tile : number(); }
  void sync() const {
    if (tile)
      __syncwarp();
    else
      __syncthreads();
  }

protected:
  explicit thread_group(unsigned tile) : tile(tile) {}
  static unsigned number() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  unsigned tile; // 0: the block

  friend thread_group tiled_partition(const thread_group &parent, unsigned size);
};

class thread_block : public thread_group {
public:
  static dim3 group_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
  static dim3 thread_index() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }

private:
  thread_block() : thread_group(0) {}
  friend thread_block this_thread_block();
};
inline thread_block this_thread_block() {
  return {};
}

template <unsigned n, class Parent = void> class thread_block_tile : public thread_group {
  static_assert(n && n <= unsigned(warpSize) && !(n & (n - 1)), "a power of two, up to a wave");

public:
  static constexpr unsigned size() { return n; } // of a block's last tile, too
  static constexpr unsigned num_threads() { return n; }
  unsigned meta_group_rank() const { return number() / n; }
  unsigned meta_group_size() const { return (blockDim.x * blockDim.y * blockDim.z + n - 1) / n; }
  template <class T> T shfl(T value, int from) const { return __shfl(value, from, n); }
  template <class T> T shfl_up(T value, unsigned delta) const { return __shfl_up(value, delta, n); }
  template <class T> T shfl_down(T value, unsigned delta) const {
    return __shfl_down(value, delta, n);
  }
  template <class T> T shfl_xor(T value, unsigned mask) const {
    return __shfl_xor(value, int(mask), n);
  }
  unsigned long long ballot(int vote) const {
    return __ballot(vote) >> (__lane_id() & -n) & (~0ull >> (64 - n));
  }
  int any(int vote) const { return ballot(vote) != 0; }
  int all(int vote) const { return ballot(!vote) == 0; }

private:
  thread_block_tile() : thread_group(n) {}
  template <unsigned m, class P> friend thread_block_tile<m, P> tiled_partition(const P &parent);
};
template <unsigned n, class Parent>
thread_block_tile<n, Parent> tiled_partition(const Parent & /*parent*/) {
  return {};
}
inline thread_group tiled_partition(const thread_group & /*parent*/, unsigned size) {
  return thread_group(size);
}

template <class Group> void sync(const Group &group) {
  group.sync();
}

} // namespace cooperative_groups

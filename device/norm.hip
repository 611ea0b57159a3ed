// SPDX-License-Identifier: MIT
// The library's all-reduce with RMSNorm.
#include "rows.hpp"

#include "module.hpp"
#include <cmath>

namespace shmem::rows {

namespace {

struct Finish {
  RmsNorm norm;
  // Each operation is named, because compilers otherwise choose which of them to fuse.
  template <class Row> SHMEM_D_ void operator()(size_t, Row &r) const {
    using T = typename Row::Element;
    constexpr int most = int(sizeof r.v / sizeof r.v[0]);
    Pack w[most] = {}; // on its way meanwhile
    r.each([&](int k, unsigned column, float(&)[Row::lanes]) {
      if (norm.weight)
        w[k] = arch::load_global(
            reinterpret_cast<const Pack *>(static_cast<const T *>(norm.weight) + column));
    });
    const float squares = r.sum([](float sum, float v, unsigned) { return fmaf(v, v, sum); });
    const float factor = 1 / sqrtf(squares / float(r.columns) + norm.eps);
    r.each([&](int k, unsigned, float(&v)[Row::lanes]) {
      const Lanes<T> weight = device::unpack<T>(w[k]);
      SHMEM_UNROLL_
      for (int e = 0; e < Row::lanes; e++)
        v[e] = v[e] * factor * (norm.offset + (norm.weight ? weight.v[e] : 1));
    });
  }
};

} // namespace

hipError_t norm(const RowsCall &call, hipStream_t stream, const void *finish) {
  const Finish with{*static_cast<const RmsNorm *>(finish)};
  switch (call.type) {
  case SHMEMX_F32:
    return launch<float>(call, stream, with);
  case SHMEMX_F16:
    return launch<Half>(call, stream, with);
  default:
    return launch<Bfloat16>(call, stream, with);
  }
}

hipError_t residents(int device, unsigned *blocks) {
  constexpr int K = short_deep;
  Residents r{device::max_threads, arch::launch_bytes<Exchange<K>>};
  const auto look = [&](auto element) {
    r.look(all_reduce<CollectiveAlgorithm::direct, decltype(element), K, Finish>);
    r.look(all_reduce<CollectiveAlgorithm::phases, decltype(element), K, Finish>);
  };
  look(float{}), look(Half{}), look(Bfloat16{});
  return r.on(device, blocks);
}

} // namespace shmem::rows

// SPDX-License-Identifier: MIT
// A PyTorch extension: the sum over all PEs of a tensor that is there already, in place, without a
// copy, on the current stream. torch_extension.py builds and uses it.
#include <c10/cuda/CUDAStream.h>
#include <shmem.h>
#include <shmemx.h>
#include <torch/extension.h>

namespace {

// Makes PyTorch's memory of a tensor and its views symmetric. All PEs call it in the same order,
// with tensors of the same size.
uint64_t make_symmetric(const at::Tensor &tensor) {
  const at::Storage &storage = tensor.storage();
  uint64_t handle = 0;
  shmemx_buffer_register(storage.mutable_data(), storage.nbytes(), &handle);
  return handle;
}

void sum_over_pes(const at::Tensor &tensor) {
  TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous(), "a tensor on a GPU and without gaps");
  shmemx_stream_t stream = c10::cuda::getCurrentCUDAStream().stream();
  const size_t n = size_t(tensor.numel());
  auto sum = [&](auto reduce, auto *p) {
    TORCH_CHECK(!reduce(SHMEM_TEAM_WORLD, p, p, n, stream), "the reduction failed");
  };
  switch (tensor.scalar_type()) {
  case at::kFloat:
    return sum(shmemx_float_sum_reduce_on_stream, tensor.data_ptr<float>());
  case at::kDouble:
    return sum(shmemx_double_sum_reduce_on_stream, tensor.data_ptr<double>());
  case at::kInt:
    return sum(shmemx_int32_sum_reduce_on_stream, tensor.data_ptr<int32_t>());
  case at::kLong:
    return sum(shmemx_int64_sum_reduce_on_stream, tensor.data_ptr<int64_t>());
  default:
    TORCH_CHECK(false, "float, double, int or long, not ", tensor.scalar_type());
  }
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("init", [] { shmem_init(); });
  m.def("finalize", [] { shmem_finalize(); });
  m.def("my_pe", [] { return shmem_my_pe(); });
  m.def("n_pes", [] { return shmem_n_pes(); });
  m.def("make_symmetric", make_symmetric);
  m.def("drop", [](uint64_t handle) { shmemx_buffer_unregister(handle); });
  m.def("sum_over_pes", sum_over_pes);
}

// SPDX-License-Identifier: MIT
// The messages of collectives: UCX's tagged ones, which both PEs expect. They travel between the
// memory of the two calls, without a copy here.
#include "ucx.hpp"

namespace shmem::net {

void Messages::send(int pe, uint64_t tag, const void *p, size_t bytes) {
  const std::lock_guard guard(lock);
  const ucp_request_param_t param = counted(&open);
  began(ucp_tag_send_nbx(endpoint(pe), p, bytes, tag, &param), &open, "a message to another node");
}

void Messages::receive(uint64_t tag, void *p, size_t bytes) {
  const std::lock_guard guard(lock);
  ucp_request_param_t param = counted(&open);
  param.cb.recv = [](void *request, ucs_status_t status, const ucp_tag_recv_info_t *, void *count) {
    done(request, status, count);
  };
  began(ucp_tag_recv_nbx(worker, p, bytes, tag, ~uint64_t(0), &param), &open,
        "a message from another node");
}

void Messages::wait() {
  wait_for([this] { return open.load(std::memory_order_acquire) != 0; });
}
Messages::~Messages() {
  wait();
}

} // namespace shmem::net

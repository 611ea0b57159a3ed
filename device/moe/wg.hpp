// SPDX-License-Identifier: MIT
// Dispatch and combine in a program's own kernels; see shmemx_moe(3). All threads of `blocks`
// workgroups make a call together, each with its index, from 0. The workgroups are all resident at
// once, of 256 to 512 threads each, and no other call on the object runs meanwhile. The kernel has
// workgroup_bytes of dynamic workgroup memory for a call, at its beginning. On return each
// workgroup sees what the call has stored, and may change tokens, ids, weights and rows.
#pragma once
#include "combine.hpp"
#include "dispatch.hpp"

namespace shmem::moe {

// The argument of a kernel that makes the calls.
inline Moe kernel_object(shmemx_moe_t moe) {
  Moe object;
  shmemx_moe_kernel_object(moe, sizeof object, &object);
  return object;
}

union WorkgroupShared {
  DispatchShared dispatch;
  CombineShared combine;
};
inline constexpr size_t workgroup_bytes = arch::launch_bytes<WorkgroupShared>;
inline constexpr unsigned least_threads = most_rows;

// Waits until all workgroups of the call have come. Each of them then loads what the others stored
// before. The last one to come starts the next meeting.
SHMEM_D_ void join(const MoeCall &c, unsigned blocks) {
  device::settle(Workgroup{});
  if (blocks > 1 && c.rank == 0) {
    unsigned *const came = &c.moe.signals->came, *const meetings = &c.moe.signals->meetings;
    const unsigned before = arch::load<Order::relaxed, Range::device>(meetings);
    arch::fence_release(); // orders the workgroup's stores, and that load, before the count
    if (arch::fetch_add<Order::relaxed, Range::device>(came, 1u) == blocks - 1) {
      arch::store<Order::relaxed, Range::device>(came, 0u);
      arch::fence_all(); // orders the others' counts and the store before the number of meetings
      arch::store<Order::relaxed, Range::device>(meetings, before + 1);
    } else {
      device::poll_until([&] { return arch::poll(meetings) != before; },
                         [&] {
                           device::fail(device::Report::wait_limit, c.fn, "blocks", meetings,
                                        sizeof *meetings, alignof(unsigned),
                                        arch::load_global(&c.moe.signals->pe[c.moe.me]),
                                        SHMEM_CMP_NE, before, before);
                         });
    }
  }
  arch::polled(); // the others' counts, before what they stored
  Workgroup{}.sync();
}
SHMEM_D_ void check_number(const MoeCall &c, const char *arg, unsigned v, unsigned least,
                           unsigned most) {
  if (v < least || v > most)
    device::fail(device::Report::bad_number, c.fn, arg, nullptr, least, 0,
                 arch::load_global(&c.moe.signals->pe[c.moe.me]), 0, most, v);
}
SHMEM_D_ MoeCall open_wg(const char *fn, const Moe &moe, unsigned n, unsigned blocks) {
  const MoeCall c = open(fn, moe);
  check_number(c, "threads", Workgroup{}.size(), least_threads, device::max_threads);
  check_number(c, "n_tokens", n, 0, moe.tokens);
  join(c, blocks); // the other workgroups are done with what the call changes
  return c;
}

// As shmemx_moe_dispatch_on_stream; expert_ids NULL: the routing of the last dispatch again.
SHMEM_D_ void dispatch_wg(const Moe &moe, const void *tokens, const void *scales,
                          const int *expert_ids, const float *weights, unsigned n_tokens,
                          unsigned index, unsigned blocks) {
  const char *const token = static_cast<const char *>(tokens);
  const char *const scale = static_cast<const char *>(scales);
  DispatchShared &shared = arch::workgroup_object<WorkgroupShared>().dispatch;
  const MoeCall c = open_wg("shmem::moe::dispatch_wg", moe, n_tokens, blocks);
  const bool routes = expert_ids, few = is_few(moe, n_tokens);
  const int *const ids = routes ? expert_ids : moe.id;
  const float *const weight = routes ? weights : moe.weight;
  const unsigned chunks = (n_tokens + chunk - 1) / chunk, batch = batch_of(n_tokens, few, blocks),
                 busy = blocks_for(n_tokens, batch, blocks); // workgroups that have tokens
  const Tokens all{token, scale, ids, weight, n_tokens, batch, routes};
  if (few) {
    if (index < busy) send_tokens<true>(c.fn, moe, shared, all, SomeBlocks{index, busy});
  } else {
    for (unsigned i = index; routes && i < chunks; i += blocks) {
      find_routes(c, shared, ids, weight, n_tokens, i);
      Workgroup{}.sync(); // the threads are done with the chunk
    }
    join(c, blocks);
    if (index == 0) enter_dispatch(c, shared, routes ? chunks : 0);
    join(c, blocks);
    if (index < busy) send_tokens<false>(c.fn, moe, shared, all, SomeBlocks{index, busy});
    join(c, blocks);
    if (index == 0) {
      c.tell(&MoeSignals::ended, [] { arch::fence_release(); }); // the tokens, before the flag
      finish(c, shared.totals, int(Workgroup{}.size()));
    }
  }
  join(c, blocks);
  if (moe.layout == SHMEMX_MOE_BY_PE) return;
  expand_rows(moe, shared.batch, most_tokens / 2, SomeBlocks{index, blocks});
  join(c, blocks);
}

// As shmemx_moe_combine_on_stream, or shmemx_moe_sum_on_stream if it is not `weighted`.
SHMEM_D_ void combine_wg(const Moe &moe, const void *rows, void *out, unsigned n_tokens,
                         bool weighted, unsigned index, unsigned blocks) {
  const char *const from = static_cast<const char *>(rows);
  char *const sums = static_cast<char *>(out);
  CombineShared &shared = arch::workgroup_object<WorkgroupShared>().combine;
  const MoeCall c = open_wg("shmem::moe::combine_wg", moe, n_tokens, blocks);
  const bool few = is_few(moe, n_tokens), with = weighted && moe.layout != SHMEMX_MOE_BY_PE;
  const unsigned batch = batch_of(n_tokens, few, blocks),
                 busy = blocks_for(n_tokens, batch, blocks), row = device::row_of(rows);
  const auto row_delta = [&] {
    return device::delta_in(row, unsigned(arch::load_global(&moe.signals->pe[c.rank]))) &
           ~device::tags;
  };
  const auto fence = [] { arch::fence_release(); }; // the rows, before the flag
  if (!few && index == 0) {
    c.tell(&MoeSignals::entered, fence);
    c.wait(&MoeSignals::entered);
  }
  if (!few) join(c, blocks);
  const RowSums all{from, sums, n_tokens, batch, with, few};
  const auto sum = [&](auto of) {
    if (index < busy)
      sum_rows<decltype(of)>(c, shared, all, row_delta, SomeBlocks{index, busy}, fence);
  };
  if (moe.type == SHMEMX_F16)
    sum(Half{});
  else if (moe.type == SHMEMX_BF16)
    sum(Bfloat16{});
  else
    sum(float{});
  if (!few) {
    join(c, blocks);
    if (index == 0) {
      c.tell(&MoeSignals::ended, fence); // the loads of all workgroups, before the flag
      c.end([] {});
    }
  }
  join(c, blocks);
}

} // namespace shmem::moe

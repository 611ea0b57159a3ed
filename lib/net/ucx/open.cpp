// SPDX-License-Identifier: MIT
// Brings the network up: checks the job, makes UCX's worker with the settings that have measured
// best, and exchanges addresses.
#include "ucx.hpp"
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <ucs/config/global_opts.h>

namespace shmem::net {

void check(const bootstrap::Place &place) {
  if (place.elsewhere < 0) return;
  if (place.n > max_remote_pes)
    fatal_all("%d PEs on several nodes: this build takes at most %d", place.n, max_remote_pes);
}

namespace {

// The loader takes the first libucp.so.0 that it finds, of any version.
void check_ucx() {
  const Version v = ucx_version();
  if (v.part[0] == UCP_API_MAJOR && v.part[1] >= UCP_API_MINOR) return;
  Dl_info from;
  fatal(
      "UCX %d.%d.%d is loaded, from %s, and this library was built with %d.%d: put that one, or a "
      "later, first in LD_LIBRARY_PATH",
      v.part[0], v.part[1], v.part[2],
      dladdr(reinterpret_cast<void *>(&ucp_get_version), &from) ? from.dli_fname : "?",
      UCP_API_MAJOR, UCP_API_MINOR);
}

void make_worker() {
  // UCX reports in lines of its own, from each PE, what the library reports in one. SHMEM_DEBUG
  // shows them.
  if (!getenv("UCX_LOG_LEVEL") && !self.env.debug) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
  check_ucx();
  ucp_config_t *config;
  must(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
  // Sets a variable that the user has not set. UCX 1.13 knows a transport's variables without the
  // prefix, 1.18 and 1.23 only with it; 1.13 and 1.18 take any name, and do not say which they
  // know.
  auto prefer = [&](const std::string &transport, const std::string &name, const char *value) {
    if (getenv(("UCX_" + transport + name).c_str())) return;
    for (const std::string &known : {name, transport + name})
      ucp_config_modify(config, known.c_str(), value);
  };
  // A connect that blocks would hold the lock, for two minutes where a firewall drops it (UCX 1.13,
  // 2026-11-23).
  prefer("TCP_", "CONN_NB", "y");
  // Over tcp UCX sends fragments of 8 KiB, and acknowledges those of puts one by one. A put of 1
  // MiB takes 652 us by those, 418 of 16 KiB, 289 of 32 KiB, and of 64 KiB 214, but 610 for one in
  // ten. A fragment holds the largest eager message with its headers: where UCX has to assemble it
  // from several, a put of 32 KiB takes 14 us for 12, and collectives up to 5% more (2 cores,
  // 2026-11-25).
  prefer("TCP_", "TX_SEG_SIZE", std::to_string(eager_bytes + (2 << 10)).c_str());
  // A copy by ROCm's engines may go to another address: where the host's buffer lies in a block
  // that was locked before, and is as long as it, UCX takes the block's beginning
  // (uct_rocm_copy_ep_zcopy of 1.18.1: 4 bytes before a put's data, which were its memory's type;
  // 2026-11-23). So the processor copies, and a network card as before.
  prefer("ROCM_COPY_", "D2H_THRESH", "inf");
  prefer("ROCM_COPY_", "H2D_THRESH", "inf");
  // With a handshake, which UCX uses over tcp from 16 KiB on, a sum of 256 KiB on 4 nodes of 2
  // PEs takes 0.8 ms, and 0.6 so; a broadcast 390 us, and 300 (2 cores, 2026-11-24).
  prefer("", "RNDV_THRESH", std::to_string(eager_bytes + 1).c_str());
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = size_t(self.n);
  auto made = [](ucs_status_t status) {
    if (status != UCS_OK)
      fatal("UCX has no network on %s: %s: %s choose it, and shmem_info shows what there is",
            bootstrap::host_of(self.me).name, ucs_status_string(status), ways().text);
  };
  made(ucp_init(&params, config, &context));
  ucp_config_release(config);
  ucp_worker_params_t w{};
  w.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  w.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  made(ucp_worker_create(context, &w, &worker));
  listen();
}

} // namespace

void open() {
  if (self.one_node()) return;
  peers = static_cast<Peer *>(calloc(size_t(self.n), sizeof(Peer)));
  if (!peers) fatal("no memory for %d peers", self.n);
  make_worker();
  register_regions();
  exchange_addresses();
  // A heap grows as far as memory goes on every node.
  self.heap.size = size_t(self.job->heap_pages) * page;
  heaps[0].open(self.heap, self.heap_kept);
}

// The worker takes its endpoints with it. Every PE has stopped: nobody misses them.
void close() {
  if (!worker) return;
  destroy_keys();
  ucp_worker_destroy(worker);
  unregister_regions();
  ucp_cleanup(context);
  free(peers);
  worker = nullptr, context = nullptr, peers = nullptr;
  forget_calls();
  begun.busy.clear();
  begun.n_busy = 0, unsent = 0, watched.failed = nullptr, watched.ends = false;
}

} // namespace shmem::net

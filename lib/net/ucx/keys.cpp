// SPDX-License-Identifier: MIT
// The keys by which UCX puts and gets in another PE's memory. A PE asks for them once, when it
// needs them: for those of all regions together, and for those of a buffer or a chunk.
#include "message.hpp"

namespace shmem::net {

namespace {

int keys_in(int region) {
  return region < Operation::regions ? int(Operation::regions) : 1;
}
// Of a buffer or a chunk; null for a region.
RemotePart *part(int pe, int region) {
  return region < Operation::regions ? nullptr : registered[region].remote + pe;
}
std::atomic<bool> &known(int pe, int region) {
  RemotePart *const p = part(pe, region);
  return p ? p->known : peers[pe].known;
}

} // namespace

const RemoteMemory &keys_of(int pe, int region) {
  if (!known(pe, region).load(std::memory_order_acquire)) [[unlikely]] {
    {
      const std::lock_guard guard(lock);
      send(endpoint(pe), KeyRequest{pe, region < Operation::regions ? 0 : region}, true);
    }
    wait_for([=] { return !known(pe, region).load(std::memory_order_acquire); });
  }
  RemotePart *const p = part(pe, region);
  return p ? *p : peers[pe].region[region];
}

static void on(const KeyRequest &r, MessageData data, ucp_ep_h from) {
  if (!from || data.bytes || r.region < 0 || r.region >= all_names || !registered[r.region].span ||
      (r.region && r.region < Operation::regions))
    return;
  static char packed[piece]; // under the lock
  size_t at = 0;
  KeyReply reply{r, {}, {}};
  for (int i = 0; i < keys_in(r.region); i++) {
    const Registered &memory = registered[r.region + i];
    reply.base[i] = memory.span->base;
    if (!memory.memory) continue;
    void *key;
    size_t n;
    must(ucp_rkey_pack(context, memory.memory, &key, &n), "ucp_rkey_pack");
    if (at + n > sizeof packed) fatal("a key of memory of %zu bytes: more than expected", n);
    memcpy(packed + at, key, n);
    reply.length[i] = uint32_t(n);
    at += n;
    ucp_rkey_buffer_release(key);
  }
  send(from, reply, false, packed, at);
}

static void on(const KeyReply &reply, MessageData data, ucp_ep_h) {
  const auto [pe, region] = reply.request;
  if (unsigned(pe) >= unsigned(self.n) || unsigned(region) >= unsigned(all_names) ||
      (region >= Operation::regions && !registered[region].remote) || known(pe, region))
    return; // two threads have asked
  for (int i = 0; i < keys_in(region); i++) {
    RemoteMemory &memory = region < Operation::regions ? peers[pe].region[i] : *part(pe, region);
    const size_t n = reply.length[i];
    if (n > data.bytes) fatal("keys of memory that are cut off");
    memory.base = reply.base[i];
    if (n) must(ucp_ep_rkey_unpack(peers[pe].ep, data.p, &memory.key), "ucp_ep_rkey_unpack");
    data.p += n, data.bytes -= n;
  }
  known(pe, region).store(true, std::memory_order_release);
}

static Handles<KeyRequest, KeyReply> handles;

} // namespace shmem::net

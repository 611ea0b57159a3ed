// SPDX-License-Identifier: MIT
// The network, as UCX shows it to a PE that is started here.
#include "network.hpp"
#include "info.hpp"
#include <arpa/inet.h>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>

namespace info {

namespace {

std::string version(unsigned major, unsigned minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

// The interface that has this address.
std::string interface_of(const sockaddr *address) {
  ifaddrs *all = nullptr;
  std::string name;
  if (getifaddrs(&all) != 0) return name;
  for (const ifaddrs *i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != address->sa_family) continue;
    const bool six = address->sa_family == AF_INET6;
    const size_t at = six ? offsetof(sockaddr_in6, sin6_addr) : offsetof(sockaddr_in, sin_addr);
    if (!memcmp(reinterpret_cast<const char *>(i->ifa_addr) + at,
                reinterpret_cast<const char *>(address) + at, six ? 16 : 4))
      name = i->ifa_name;
  }
  freeifaddrs(all);
  return name;
}

// The sockets of this process on which a peer may connect: UCX's, as it has no others.
std::vector<Listener> listeners() {
  std::vector<Listener> found;
  DIR *fds = opendir("/proc/self/fd");
  while (const dirent *entry = fds ? readdir(fds) : nullptr) {
    const int fd = atoi(entry->d_name);
    int listens = 0;
    socklen_t length = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || !listens) continue;
    sockaddr_storage address{};
    length = sizeof address;
    auto *const plain = reinterpret_cast<sockaddr *>(&address);
    char text[INET6_ADDRSTRLEN] = "";
    if (getsockname(fd, plain, &length) != 0) continue;
    if (address.ss_family == AF_INET)
      inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in *>(plain)->sin_addr, text, sizeof text);
    else if (address.ss_family == AF_INET6)
      inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6 *>(plain)->sin6_addr, text, sizeof text);
    else
      continue;
    found.push_back({text, interface_of(plain)});
  }
  if (fds) closedir(fds);
  return found;
}

// Time that UCX expects of a message of so many bytes, or 0.
double estimate(ucp_ep_h ep, size_t bytes) {
  ucp_ep_evaluate_perf_param_t param{};
  param.field_mask = UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE;
  param.message_size = bytes;
  ucp_ep_evaluate_perf_attr_t attr{};
  attr.field_mask = UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME;
  return ucp_ep_evaluate_perf(ep, &param, &attr) == UCS_OK ? attr.estimated_time : 0;
}

// By which transports an endpoint goes, which UCX tells from 1.14 on.
std::string transports([[maybe_unused]] ucp_ep_h ep) {
  std::string text;
#if UCP_API_VERSION >= UCP_VERSION(1, 14)
  ucp_transport_entry_t entries[16];
  ucp_ep_attr_t attr{};
  attr.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS;
  attr.transports = {entries, 16, sizeof entries[0]};
  if (ucp_ep_query(ep, &attr) != UCS_OK) return text;
  for (unsigned i = 0; i < attr.transports.num_entries; i++)
    text += (i ? ", " : "") + std::string(entries[i].transport_name) + "/" + entries[i].device_name;
#endif
  return text;
}

std::string memory_types(uint64_t mask) {
  std::string text = "host";
  if (mask & uint64_t(1) << UCS_MEMORY_TYPE_ROCM) text += ", rocm";
  if (mask & uint64_t(1) << UCS_MEMORY_TYPE_CUDA) text += ", cuda";
  return text;
}

// The step that UCX refuses, and why; or nothing.
std::string ask(Network &n) {
  ucp_config_t *config;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return std::string("its settings: ") + ucs_status_string(status);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_context_h context;
  status = ucp_init(&params, config, &context);
  if (status != UCS_OK) return std::string("no transport: ") + ucs_status_string(status);
  ucp_context_attr_t can{};
  can.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  if (ucp_context_query(context, &can) == UCS_OK) n.memory = memory_types(can.memory_types);
  ucp_worker_params_t how{};
  ucp_worker_h worker;
  status = ucp_worker_create(context, &how, &worker);
  if (status != UCS_OK) return std::string("no worker: ") + ucs_status_string(status);
  // As a PE tells it the others: without transports of this node alone.
  ucp_worker_attr_t own{};
  own.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
  own.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
  status = ucp_worker_query(worker, &own);
  if (status != UCS_OK) return std::string("no address: ") + ucs_status_string(status);
  n.address_bytes = own.address_length;
  n.listens = listeners();
  ucp_ep_params_t there{};
  there.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  there.address = own.address;
  ucp_ep_h ep;
  status = ucp_ep_create(worker, &there, &ep);
  if (status != UCS_OK) return std::string("no interface: ") + ucs_status_string(status);
  n.transports = transports(ep);
  n.small_seconds = estimate(ep, 8);
  if (const double seconds = estimate(ep, size_t(1) << 20); seconds > 0)
    n.bytes_per_second = double(size_t(1) << 20) / seconds;
  // As symmetric memory is.
  const size_t bytes = size_t(64) << 20;
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return std::string("64 MiB of memory: ") + strerror(errno);
  ucp_mem_map_params_t map{};
  map.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  map.address = p;
  map.length = bytes;
  ucp_mem_h memory;
  status = ucp_mem_map(context, &map, &memory);
  n.registers = status == UCS_OK;
  if (!n.registers) return std::string("64 MiB cannot be registered: ") + ucs_status_string(status);
  // The objects end with the process, as much of UCX does.
  return "";
}

} // namespace

Network look_at_network() {
  Network n;
  n.built_with = version(UCP_API_MAJOR, UCP_API_MINOR);
  const char *transports = getenv("UCX_TLS"), *interfaces = getenv("UCX_NET_DEVICES");
  n.allowed_transports = transports ? transports : "all";
  n.allowed_interfaces = interfaces ? interfaces : "all";
  // One line here says what UCX would log.
  if (!getenv("UCX_LOG_LEVEL")) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
  Dl_info from;
  unsigned major, minor, release;
  ucp_get_version(&major, &minor, &release);
  n.version = version(major, minor) + "." + std::to_string(release);
  if (dladdr(reinterpret_cast<void *>(&ucp_get_version), &from)) n.path = from.dli_fname;
  if (major != UCP_API_MAJOR || minor < UCP_API_MINOR)
    n.error = "older than the " + n.built_with + " that the library was built with";
  else
    n.error = ask(n);
  return n;
}

} // namespace info

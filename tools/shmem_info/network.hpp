// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace info {

struct Listener {
  std::string address, interface;
};
struct Network {
  std::string built_with;    // empty: built without one
  std::string version, path; // of the loaded library
  std::string allowed_transports, allowed_interfaces;
  std::string error; // why a PE cannot use it
  bool registers = true;
  std::string memory, transports;
  std::vector<Listener> listens;
  size_t address_bytes = 0;
  double small_seconds = 0, bytes_per_second = 0; // as UCX expects, or 0
};
Network look_at_network();

} // namespace info

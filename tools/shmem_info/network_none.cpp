// SPDX-License-Identifier: MIT
// Built without a network: -Ducx=enabled makes it network.cpp.
#include "network.hpp"

namespace info {

Network look_at_network() {
  return {};
}

} // namespace info

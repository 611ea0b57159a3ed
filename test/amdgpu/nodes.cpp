// SPDX-License-Identifier: MIT
// The description of the machine.
#include "clock.hpp"
#include "driver.hpp"
#include "machine.hpp"
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <iomanip>
#include <sstream>

namespace amdgpu {
namespace {

Nodes read() {
  std::string path;
  if (const char *named = getenv("AMDGPU_NODES")) {
    path = named;
  } else {
    Dl_info here;
    if (!dladdr(reinterpret_cast<void *>(&nodes), &here)) stop(nullptr, "where is this library?");
    path = here.dli_fname;
    path = path.substr(0, path.rfind('/') + 1) + AMDGPU_NODES_FILE;
  }
  std::ifstream file(path);
  if (!file) stop(nullptr, "AMDGPU_NODES: cannot read %s", path.c_str());
  Nodes n;
  std::string line, key;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    if (!(words >> key) || key[0] == '#') continue;
    words >> std::ws;
    unsigned long value = 0;
    if (key == "name" || key == "product") {
      std::getline(words, key == "name" ? n.name : n.product);
      continue;
    }
    if (key == "version") {
      words >> n.major >> n.minor >> n.stepping;
      continue;
    }
    if (!(words >> std::setbase(0) >> value))
      stop(nullptr, "%s: %s: not a number", path.c_str(), line.c_str());
    const auto is = [&](const char *name, auto &field) {
      if (key == name) field = std::remove_reference_t<decltype(field)>(value);
      return key == name;
    };
    if (!(is("gpus", n.gpus) || is("device", n.device) || is("units", n.units) ||
          is("engines", n.engines) || is("clock_mhz", n.clock_mhz) ||
          is("memory_mib", n.memory_mib) || is("memory_width", n.memory_width) ||
          is("memory_mhz", n.memory_mhz) || is("l1_kib", n.l1_kib) || is("l2_kib", n.l2_kib) ||
          is("xgmi", n.xgmi) || is("pcie", n.pcie) || is("xccs", n.xccs) ||
          is("partitions", n.partitions) || is("lds_kib", n.lds_kib) || is("sdma", n.sdma) ||
          is("open", n.open) || is("ipc", n.ipc) || is("pins", n.pins)))
      stop(nullptr, "%s: %s: unknown word", path.c_str(), line.c_str());
  }
  if (n.name != "gfx90a" && n.name != "gfx942" && n.name != "gfx950")
    stop(nullptr, "%s: name %s: only gfx90a, gfx942 and gfx950 are known", path.c_str(),
         n.name.c_str());
  if (time_asked()) n.units = unsigned(rates_of(n.name).units); // all that there are
  return n;
}

} // namespace

const Nodes &nodes() {
  static const Nodes &all = *new Nodes(read());
  return all;
}

} // namespace amdgpu

// SPDX-License-Identifier: MIT
// The machine as the kernel's files describe it: nodes, their memory and caches, the links between
// them.
#include "driver.hpp"
#include "kfd.hpp"
#include <cstdio>
#include <sstream>
#include <unistd.h>

namespace amdgpu {
namespace {

struct Text {
  std::ostringstream out;
  Text &operator()(const char *name, uint64_t value) {
    out << name << ' ' << value << '\n';
    return *this;
  }
};

std::string properties(unsigned node) {
  const Nodes &n = nodes();
  Text t;
  if (!node) {
    t("cpu_cores_count", uint64_t(sysconf(_SC_NPROCESSORS_ONLN)))("simd_count", 0);
    t("mem_banks_count", 1)("caches_count", 0)("io_links_count", n.gpus);
    return t.out.str();
  }
  t("cpu_cores_count", 0)("simd_count", 4 * n.units)("mem_banks_count", 1)("caches_count", 2);
  t("io_links_count", n.gpus)("max_waves_per_simd", 8)("lds_size_in_kb", n.lds_kib);
  t("wave_front_size", 64)("array_count", n.engines)("simd_arrays_per_engine", 1);
  t("cu_per_simd_array", (n.units + n.engines - 1) / n.engines)("simd_per_cu", 4);
  t("max_slots_scratch_cu", 32);
  t("gfx_target_version", n.major * 10000 + n.minor * 100 + n.stepping);
  t("vendor_id", 0x1002)("device_id", n.device)("location_id", location(node));
  t("num_sdma_engines", n.sdma)("num_sdma_queues_per_engine", n.sdma ? 8 : 0);
  t("drm_render_minor", 127 + node)("hive_id", 0x6d693235)("num_cp_queues", 24);
  t("max_engine_clk_fcompute", n.clock_mhz)("max_engine_clk_ccompute", 3000);
  t("local_mem_size", n.memory_mib << 20)("fw_version", 160)("unique_id", unique(node));
  // Queues are powers of two, doorbells have 64 bits, the GPU has the host's addresses.
  t("capability", 1 << 3 | 2 << 12 | 1 << 27)("num_xcc", n.xccs);
  return t.out.str();
}

std::string bank(unsigned node) {
  const Nodes &n = nodes();
  Text t;
  t("heap_type", node ? 1 : 0); // of a GPU, all of it is visible to the host
  t("size_in_bytes", node ? n.memory_mib << 20
                          : uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE)));
  t("flags", 0)("width", n.memory_width)("mem_clk_max", n.memory_mhz);
  return t.out.str();
}

std::string cache(unsigned level) {
  Text t;
  t("processor_id_low", 0)("level", level);
  t("size", level == 1 ? nodes().l1_kib : nodes().l2_kib)("cache_line_size", level == 1 ? 64 : 128);
  t("cache_lines_per_tag", 1)("association", 16)("latency", 0)("type",
                                                               1 | 1 << 3); // data, of a GPU
  return t.out.str() + "sibling_map 1\n";
}

std::string link(unsigned node, unsigned to) {
  const bool xgmi = node && to;
  Text t;
  t("type", xgmi ? 11 : 2)("version_major", 0)("version_minor", 0);
  t("node_from", node)("node_to", to)("weight", xgmi ? 15 : 20);
  t("min_latency", 0)("max_latency", 0);
  t("min_bandwidth", xgmi ? nodes().xgmi : nodes().pcie);
  t("max_bandwidth", xgmi ? nodes().xgmi : nodes().pcie);
  t("recommended_transfer_size", 0)("recommended_sdma_engine_id_mask", 0)("flags", 1);
  return t.out.str();
}

std::string names(unsigned count) {
  std::string all;
  for (unsigned i = 0; i < count; i++) all += std::to_string(i) + '\n';
  return all;
}

} // namespace

std::optional<std::string> topology(std::string path) {
  const unsigned gpus = nodes().gpus;
  if (path.ends_with('/')) path.pop_back();
  if (path == "generation_id") return "1\n";
  if (path == "system_properties") return "platform_oem 0\nplatform_id 0\nplatform_rev 0\n";
  if (path == "nodes") return names(1 + gpus);
  unsigned node, i;
  int end = 0;
  if (sscanf(path.c_str(), "nodes/%u/%n", &node, &end) != 1 || !end || node > gpus) return {};
  const std::string rest = path.substr(size_t(end));
  const auto is = [&](const char *format, unsigned count) {
    int length = 0;
    return sscanf(rest.c_str(), format, &i, &length) == 1 && size_t(length) == rest.size() &&
           i < count;
  };
  if (rest == "gpu_id") return std::to_string(node) + '\n';
  if (rest == "name") return (node ? nodes().name : "") + '\n';
  if (rest == "properties") return properties(node);
  if (is("mem_banks/%u/properties%n", 1)) return bank(node);
  if (is("caches/%u/properties%n", node ? 2 : 0)) return cache(i + 1);
  if (rest == "io_links") return names(gpus);
  if (is("io_links/%u/properties%n", gpus)) return link(node, i + (i >= node)); // to each other
  return {};
}

} // namespace amdgpu

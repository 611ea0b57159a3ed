// SPDX-License-Identifier: MIT
#include "topology.hpp"
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <string>

namespace shmem::gpu {

namespace {

// Calls take(name, value) for each line of a file of the topology.
template <class F> void each_line(const std::string &path, F take) {
  FILE *f = fopen(path.c_str(), "re");
  if (!f) return;
  char name[64];
  unsigned long long value;
  while (fscanf(f, "%63s %llu", name, &value) == 2) take(name, value);
  fclose(f);
}
template <class F> void each_entry(const std::string &folder, F take) {
  DIR *d = opendir(folder.c_str());
  if (!d) return;
  while (const dirent *e = readdir(d))
    if (*e->d_name != '.') take(e->d_name);
  closedir(d);
}

// The node of a GPU, or "".
std::string node_of(const std::string &nodes, const char *bus) {
  unsigned domain, number, device, function;
  if (sscanf(bus, "%x:%x:%x.%x", &domain, &number, &device, &function) != 4) return {};
  const unsigned long long location = number << 8 | device << 3 | function;
  std::string found;
  each_entry(nodes, [&](const char *node) {
    unsigned long long at = 0, of = 0;
    each_line(nodes + node + "/properties", [&](const char *name, unsigned long long value) {
      if (!strcmp(name, "location_id")) at = value;
      if (!strcmp(name, "domain")) of = value;
    });
    if (at && at == location && of == domain) found = node;
  });
  return found;
}

} // namespace

double link_rate(const char *topology, const char *from, const char *to) {
  const std::string nodes = std::string(topology) + "/nodes/", a = node_of(nodes, from),
                    b = node_of(nodes, to);
  double rate = 0;
  if (a.empty() || b.empty()) return rate;
  for (const char *kind : {"/io_links/", "/p2p_links/"})
    each_entry(nodes + a + kind, [&](const char *link) {
      std::string there;
      double most = 0;
      each_line(nodes + a + kind + link + "/properties",
                [&](const char *name, unsigned long long value) {
                  if (!strcmp(name, "node_to")) there = std::to_string(value);
                  if (!strcmp(name, "max_bandwidth")) most = double(value);
                });
      if (there == b && most > rate) rate = most;
    });
  return rate;
}

} // namespace shmem::gpu

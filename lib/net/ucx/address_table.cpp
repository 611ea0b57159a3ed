// SPDX-License-Identifier: MIT
// The address table: how the PEs of all nodes find each other at the start. Each PE publishes a
// row, and the first PE of each node reads all rows into the segment and compares them with its
// own.
#include "../../exit.hpp"
#include "built.h"
#include "ucx.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <shmemx.h>
#include <unistd.h>

namespace shmem::net {

namespace {

Entry mine;

Version library_version() {
  Version v{};
  sscanf(SHMEM_LIBRARY_VERSION, "%hhu.%hhu.%hhu", &v.part[0], &v.part[1], &v.part[2]);
  return v;
}

struct Hash { // FNV-1a
  uint64_t value = 14695981039346656037u;
  void add(const void *p, size_t n) {
    for (size_t i = 0; i < n; i++)
      value = (value ^ static_cast<const unsigned char *>(p)[i]) * 1099511628211u;
  }
};

// Of the file's first and last page, which have its build id and its sections, and of its size.
uint32_t hash_of_program() {
  Hash hash;
  FILE *file = fopen("/proc/thread-self/exe", "re");
  if (!file) return 0;
  unsigned char text[page];
  hash.add(text, fread(text, 1, sizeof text, file));
  fseek(file, 0, SEEK_END);
  const long size = ftell(file);
  fseek(file, std::max(0l, size - long(sizeof text)), SEEK_SET);
  hash.add(text, fread(text, 1, sizeof text, file));
  fclose(file);
  hash.add(&size, sizeof size);
  return uint32_t(hash.value >> 32);
}

// The value of a variable, as it was given.
const char *setting(const char *name) {
  for (size_t i = 0; i < n_variables; i++)
    if (const Variable &v = variables[i]; !strcmp(v.name, name)) {
      const char *text = env_text(v);
      return text ? text : v.def;
    }
  return "";
}
// A file counts by its contents: nodes may have copies, and two files of one name may differ. The
// reader of the rows reports a file that cannot be read.
uint16_t hash_of_setting(const char *name) {
  Hash hash;
  const char *text = setting(name);
  if (FILE *file = !strcmp(name, "TUNE_FILE") && *text ? fopen(text, "re") : nullptr) {
    char part[page];
    while (const size_t n = fread(part, 1, sizeof part, file)) hash.add(part, n);
    fclose(file);
  } else {
    hash.add(text, strlen(text));
  }
  return uint16_t(hash.value >> 32);
}

void publish_row() {
  ucp_worker_attr_t attr{};
  attr.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
  if (self.env.p2p == Env::mapped) { // what is on this node is mapped
    attr.field_mask |= UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attr.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
  }
  must(ucp_worker_query(worker, &attr), "ucp_worker_query");
  debug("UCX: an address of %zu bytes", attr.address_length);
  mine.library = library_version();
  mine.ucx = ucx_version();
  mine.heap = uint32_t(self.heap_kept / page);
  mine.upto = uint32_t(self.heap.size / page);
  mine.data = uint32_t(self.data.size / page);
  mine.program = hash_of_program();
  for (size_t i = 0; i < std::size(common); i++) mine.settings[i] = hash_of_setting(common[i]);
  mine.first = self.pe_of(0);
  mine.length = uint16_t(attr.address_length);
  const size_t length = std::min(attr.address_length, sizeof mine.address);
  memcpy(mine.address, attr.address, length);
  bootstrap::show(&mine, sizeof mine, reinterpret_cast<const char *>(attr.address) + length,
                  attr.address_length - length);
  ucp_worker_release_address(worker, attr.address);
}

// The first PE of every node reads all rows, so both sides find each pair that differs.
void compare(int pe, const Entry &e) {
  auto differ = [=] { return with_host(pe); };
  static const Text us = print("this PE, on %s,", bootstrap::host_of(self.me).name);
  auto versions = [&](const char *what, Version theirs, Version ours) {
    if (theirs == ours) return;
    fatal("%s, has %s %d.%d.%d, %s %d.%d.%d: all nodes need the same", differ().text, what,
          theirs.part[0], theirs.part[1], theirs.part[2], us.text, ours.part[0], ours.part[1],
          ours.part[2]);
  };
  if (e.first != mine.first) { // the segment tells those of this node
    versions("libshmem", e.library, mine.library);
    versions("UCX", e.ucx, mine.ucx);
  }
  if (e.data != mine.data || e.program != mine.program)
    fatal("%s, runs another program than %s or another build of it (static data of %zu and %zu "
          "bytes): all PEs must run the same one",
          differ().text, us.text, e.data * page, mine.data * page);
  if (e.heap != mine.heap)
    fatal(
        "%s, has a symmetric heap of %zu bytes, %s one of %zu: nodes have other settings or other "
        "amounts of memory: set SHMEM_SYMMETRIC_SIZE",
        differ().text, e.heap * page, us.text, mine.heap * page);
  for (size_t i = 0; i < std::size(common); i++)
    if (e.settings[i] != mine.settings[i])
      fatal("%s, has another SHMEM_%s than %s where it is \"%s\": all nodes need the same",
            differ().text, common[i], us.text, setting(common[i]));
}

int read_rows() { // returns the number of nodes
  int nodes = 0;
  self.job->heap_pages = mine.upto;
  bootstrap::seen(rows(), sizeof(Entry), self.n);
  for (int pe = 0; pe < self.n; pe++) {
    Entry &e = rows()[pe];
    e.node = e.first == pe ? nodes++ : rows()[e.first].node;
    compare(pe, e);
    self.job->heap_pages = std::min(self.job->heap_pages, e.upto);
  }
  return nodes;
}

} // namespace

size_t address_table_bytes() {
  return self.one_node() ? 0 : size_t(self.n) * sizeof(Entry);
}

void exchange_addresses() {
  publish_row();
  // A PE may have ended before. The launcher does not report a PE of another node.
  const double start = shmemx_wtime();
  for (bool told = false; !bootstrap::shown(); check_started())
    if (self.me == 0 && !told && (told = shmemx_wtime() - start >= self.env.net_timeout))
      say("shmem_init has waited for %g seconds (SHMEM_NET_TIMEOUT) for PEs of other nodes, and "
          "goes on: have all of them called it?",
          self.env.net_timeout);
  auto &known = self.job->nodes;
  if (self.local == 0) known.store(uint32_t(read_rows()), std::memory_order_release);
  for (unsigned i = 1; !known.load(std::memory_order_acquire); i++) {
    usleep(100);
    if (i % 5000 == 0) check_started();
  }
}

} // namespace shmem::net

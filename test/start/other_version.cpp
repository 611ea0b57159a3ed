// SPDX-License-Identifier: MIT
// A PE of another version of this library, as far as the root of a job can see: other_version N
// RANK ID. Its tree is this library's, compiled with another number. It prints the error.
#include "bootstrap/tree.hpp"
#include "log.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace shmem::bootstrap;

// The library's own would end a job.
void shmem::fatal(const char *, ...) {
  abort();
}

int main(int argc, char **argv) {
  if (argc != 4 || strlen(argv[3]) != 2 * sizeof(Id)) return 2;
  const int n = atoi(argv[1]), rank = atoi(argv[2]);
  unsigned char bytes[sizeof(Id)];
  for (size_t i = 0; i < sizeof bytes; i++) sscanf(argv[3] + 2 * i, "%2hhx", &bytes[i]);
  Id id;
  memcpy(&id, bytes, sizeof id);
  Tree tree(id, rank, n, "", 10, false);
  int state;
  while ((state = tree.join(100)) == 0) continue;
  if (state > 0) return 0;
  printf("%s\n", tree.error().c_str());
  return 3;
}

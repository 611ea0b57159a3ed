// SPDX-License-Identifier: MIT
// shmem_perf --engine: calls of engines of large models, in graphs.
#include "engine.hpp"

extern "C" void engine_perf(const struct engine_options *options) {
  Engine engine(*options);
  plot_title("shmem_perf --engine: %d PEs, %s", engine.npes, engine.prop.name);
  if (engine.me == 0 && !options->json)
    printf("# %d PEs, %s; a call in a graph, on the slowest PE\n", engine.npes, engine.prop.name);
  if (options->norm) engine_norm(engine);
  if (options->moe) engine_moe(engine);
  if (options->copy) engine_copy(engine);
  if (options->wire) engine_wire(engine);
}

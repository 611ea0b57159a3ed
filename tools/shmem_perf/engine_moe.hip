// SPDX-License-Identifier: MIT
// Tokens in bf16 to the top 8 of 64 experts and back, rows by PE; and a kernel of plain stores of
// the same bytes to the same PEs, whose time is the wire's.
#include "engine.hpp"

#include <set>
#include <shmem/device/number.hpp>

namespace {

using shmem::Bfloat16, shmem::from_float, shmem::to_float;

enum Kind { dispatch, combine, wire, kinds };
constexpr int top_k = 8, experts = 64;

uint32_t mixed(uint32_t x) {
  x = (x ^ x >> 15) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}
Bfloat16 element(size_t i) {
  return from_float<Bfloat16>(float(mixed(uint32_t(i)) % 255) / 128 - 1);
}

struct alignas(16) Word {
  uint64_t half[2];
};
// Workgroups take the peers in turns.
__global__ void store_to_peers(Word *const *dest, const size_t *words, unsigned peers,
                               const Word *source) {
  const size_t workgroups = gridDim.x / peers, peer = blockIdx.x % peers;
  for (size_t i = blockIdx.x / peers * blockDim.x + threadIdx.x; i < words[peer];
       i += workgroups * blockDim.x)
    dest[peer][i] = source[i];
}

struct Experts {
  Engine &e;
  size_t tokens, hidden;
  shmemx_moe_t moe = nullptr;
  shmemx_moe_view_t view{};
  Bfloat16 *x = nullptr, *out = nullptr, *box = nullptr; // box: where the wire's stores go
  int *ids = nullptr;
  Word **peers = nullptr;
  size_t *words = nullptr;
  std::vector<int> id = {};

  size_t row() const { return hidden * sizeof(Bfloat16); }
  // The members that a token goes to.
  std::set<int> members(size_t t) const {
    std::set<int> s;
    for (size_t k = 0; k < top_k; k++) s.insert(id[t * top_k + k] / view.experts);
    return s;
  }
  bool make() {
    const size_t need =
        (2 * size_t(e.npes) + 2) * tokens * (row() + 256) + (size_t(4) << 20); // about
    void *p = e.room("dispatch and combine", need);
    shmem_free(p);
    if (!p) return false;
    shmemx_moe_shape_t s = SHMEMX_MOE_SHAPE_INITIALIZER;
    s.token_bytes = row(), s.hidden = hidden, s.type = SHMEMX_BF16;
    s.experts = experts, s.top_k = top_k, s.max_tokens = int(tokens);
    shmemx_moe_create(SHMEM_TEAM_WORLD, &s, &moe);
    view.size = sizeof view;
    shmemx_moe_view(moe, &view);
    box = static_cast<Bfloat16 *>(e.room("the wire", size_t(e.npes) * tokens * row()));
    if (!box) return shmemx_moe_destroy(moe), false;
    HIP(hipMalloc(&x, tokens * row()));
    HIP(hipMalloc(&out, tokens * row()));
    std::vector<Bfloat16> host(tokens * hidden);
    for (size_t i = 0; i < host.size(); i++) host[i] = element(i);
    HIP(hipMemcpy(x, host.data(), tokens * row(), hipMemcpyHostToDevice));
    id.clear();
    for (size_t t = 0; t < tokens; t++) {
      int all[experts];
      for (int i = 0; i < experts; i++) all[i] = i;
      for (int k = 0; k < top_k; k++) {
        const uint32_t r = mixed(uint32_t(t * 64 + size_t(k)) + uint32_t(e.me) * 2654435761u);
        std::swap(all[k], all[k + int(r % uint32_t(experts - k))]);
        id.push_back(all[k]);
      }
    }
    HIP(hipMalloc(&ids, id.size() * sizeof(int)));
    HIP(hipMemcpy(ids, id.data(), id.size() * sizeof(int), hipMemcpyHostToDevice));
    std::vector<size_t> count(size_t(e.npes));
    for (size_t t = 0; t < tokens; t++)
      for (int member : members(t)) count[size_t(member)] += row() / sizeof(Word);
    std::vector<Word *> to;
    std::vector<size_t> of;
    for (int k = 1; k < e.npes; k++) {
      const int pe = (e.me + k) % e.npes;
      to.push_back(static_cast<Word *>(shmem_ptr(box + size_t(e.me) * tokens * hidden, pe)));
      of.push_back(count[size_t(pe)]);
    }
    HIP(hipMalloc(&peers, (to.size() + 1) * sizeof *peers));
    HIP(hipMalloc(&words, (of.size() + 1) * sizeof *words));
    HIP(hipMemcpy(peers, to.data(), to.size() * sizeof *peers, hipMemcpyHostToDevice));
    HIP(hipMemcpy(words, of.data(), of.size() * sizeof *words, hipMemcpyHostToDevice));
    HIP(hipDeviceSynchronize());
    shmem_barrier_all();
    return true;
  }
  void clear() {
    shmem_barrier_all();
    for (void *p : {static_cast<void *>(words), static_cast<void *>(peers),
                    static_cast<void *>(ids), static_cast<void *>(out), static_cast<void *>(x)})
      HIP(hipFree(p));
    shmem_free(box);
    shmemx_moe_destroy(moe);
  }
  void start(int kind) {
    if (kind == dispatch)
      shmemx_moe_dispatch_on_stream(moe, x, nullptr, ids, nullptr, int(tokens), e.on());
    if (kind == combine) shmemx_moe_combine_on_stream(moe, view.rows, out, e.on());
    if (kind != wire) return;
    const unsigned n = unsigned(e.npes) - 1, grid = shmem::runtime::hardware ? 128 / n * n : n;
    hipLaunchKernelGGL(store_to_peers, dim3(grid), dim3(shmem::runtime::hardware ? 1024 : 64), 0,
                       e.stream, peers, words, n, reinterpret_cast<const Word *>(x));
    HIP(hipGetLastError());
  }
  // Rows that came back as they went: a token times its members, rounded once.
  void check() {
    start(dispatch);
    start(combine);
    std::vector<Bfloat16> host(tokens * hidden);
    HIP(hipStreamSynchronize(e.stream));
    HIP(hipMemcpy(host.data(), out, tokens * row(), hipMemcpyDeviceToHost));
    for (size_t i = 0; i < host.size(); i++) {
      const float want =
          to_float(from_float<Bfloat16>(float(members(i / hidden).size()) * to_float(element(i))));
      if (to_float(host[i]) != want)
        e.wrong("combine", i / hidden, i % hidden, double(to_float(host[i])), double(want));
    }
  }
  void measure() {
    check();
    const std::vector<double> us =
        e.time(e.npes > 1 ? kinds : wire, [this](int k, int) { start(k); });
    if (e.me) return;
    const char *const names[] = {"dispatch", "combine"};
    for (size_t k = 0; k < wire; k++) {
      const double alone = e.npes > 1 ? us[wire] : 0;
      const std::string panel = std::to_string(tokens) + " tokens x " + std::to_string(hidden) +
                                " bf16, top 8 of 64 experts, each PE";
      e.point(panel, names[k], false, us[k]);
      if (alone > 0 && k == 0) e.point(panel, "the wire", true, alone);
      if (e.o.json) {
        printf("{\"test\": \"%s\", \"tokens\": %zu, \"hidden\": %zu, \"us\": %.5g", names[k],
               tokens, hidden, us[k]);
        if (alone > 0) printf(", \"wire_us\": %.5g, \"x_wire\": %.4g", alone, us[k] / alone);
        puts("}");
      } else {
        printf("%-26s %6zu %6zu %10.5g", names[k], tokens, hidden, us[k]);
        if (alone > 0)
          printf(" %10.5g %8.3f\n", alone, us[k] / alone);
        else
          printf(" %10s %8s\n", "-", "-");
      }
      fflush(stdout);
    }
  }
};

} // namespace

void engine_moe(Engine &engine) {
  if (engine.npes > experts || experts % engine.npes) {
    if (engine.me == 0)
      fprintf(stderr, "note: dispatch and combine left out: %d PEs do not share %d experts\n",
              engine.npes, experts);
    return;
  }
  if (engine.me == 0 && !engine.o.json)
    printf("%-26s %6s %6s %10s %10s %8s\n", "top 8 of 64 experts", "tokens", "hidden", "us",
           "wire us", "x wire");
  const bool hardware = shmem::runtime::hardware;
  const size_t shapes[][2] = {{1, 7168}, {16, 7168}, {128, 7168}, {4096, 4096}},
               small[][2] = {{1, 64}, {40, 128}};
  for (size_t i = 0; i < (hardware ? 4 : 2); i++) {
    const size_t *s = hardware ? shapes[i] : small[i];
    Experts x{engine, s[0], s[1]};
    if (!x.make()) continue;
    x.measure();
    x.clear();
  }
}

// SPDX-License-Identifier: MIT
// Graphs: the work given to streams during a capture, with its order. A launch gives it to streams
// of the graph's own, one for each chain of steps, so branches run side by side.
#include "stream.hpp"
#include <algorithm>
#include <pthread.h>

namespace hip_cpu {

using impl::Capture, impl::done, impl::Node, impl::Point, impl::runtime, impl::streams;

inline namespace names {

struct ihipGraph_t {
  std::vector<Node> nodes;
};
struct ihipGraphExec_t {
  std::vector<Node> nodes;
  std::vector<size_t> chain;         // of each node; 0 is the stream of the launch
  std::vector<hipStream_t> branches; // of chains 1 and up
  Point last;                        // the end of the last launch
};

} // namespace names

namespace {

std::vector<Node> share(const std::vector<Node> &nodes) {
  for (const Node &node : nodes) node.work->users.fetch_add(1);
  return nodes;
}
void drop(const std::vector<Node> &nodes) {
  for (const Node &node : nodes) impl::drop(node.work);
}

// The nodes that no other one follows.
std::vector<size_t> leaves(const std::vector<Node> &nodes) {
  std::vector<bool> inner(nodes.size());
  for (const Node &node : nodes)
    for (size_t before : node.after) inner[before] = true;
  std::vector<size_t> list;
  for (size_t i = 0; i < nodes.size(); i++)
    if (!inner[i]) list.push_back(i);
  return list;
}

// Each node goes on the chain that ends with a node before it, if there is one.
size_t make_chains(const std::vector<Node> &nodes, std::vector<size_t> *chain) {
  std::vector<size_t> ends;
  for (size_t i = 0; i < nodes.size(); i++) {
    size_t mine = ends.size();
    for (size_t before : nodes[i].after)
      if (ends[(*chain)[before]] == before) mine = (*chain)[before];
    if (mine == ends.size()) ends.push_back(i);
    ends[mine] = i;
    chain->push_back(mine);
  }
  return ends.size();
}

// Ends the capture and returns its nodes.
std::vector<Node> close(Capture *c) {
  for (hipStream_t s : c->streams) s->capture = nullptr;
  auto &all = streams().captures;
  all.erase(std::find(all.begin(), all.end(), c));
  streams().capturing--;
  std::vector<Node> nodes = std::move(c->nodes);
  delete c;
  return nodes;
}

// Whether all work of the capture's streams comes before the next work of its first one.
bool joined(const Capture &c) {
  std::vector<bool> before(c.nodes.size());
  for (size_t node : c.origin->nodes) before[node] = true;
  for (size_t i = c.nodes.size(); i-- > 0;) {
    if (!before[i]) return false;
    for (size_t node : c.nodes[i].after) before[node] = true;
  }
  return true;
}

} // namespace

namespace impl {

static thread_local hipStreamCaptureMode own_mode = hipStreamCaptureModeGlobal;

hipError_t enter_unless_capturing(const char *call) {
  if (hipError_t error = enter(call)) return error;
  if (!streams().capturing.load(std::memory_order_relaxed)) return hipSuccess;
  std::lock_guard guard(runtime().mutex);
  for (Capture *c : streams().captures) {
    const bool own = pthread_equal(c->thread, pthread_self());
    if (own_mode != hipStreamCaptureModeRelaxed &&
        ((c->mode == hipStreamCaptureModeGlobal && own_mode == hipStreamCaptureModeGlobal) ||
         (c->mode != hipStreamCaptureModeRelaxed && own)))
      return capture_error(c->origin, hipErrorStreamCaptureUnsupported);
  }
  return hipSuccess;
}

bool capturing(hipStream_t stream) {
  if (!streams().capturing.load(std::memory_order_relaxed)) return false;
  std::lock_guard guard(runtime().mutex);
  hipStream_t s = valid(stream);
  return s && s->capture;
}

hipError_t capture_error(hipStream_t s, hipError_t error) {
  if (s->capture) s->capture->invalid = true;
  return error;
}

hipError_t implicit(hipStream_t s) {
  if (s != streams().null[size_t(s->device)]) return hipSuccess;
  for (Capture *c : streams().captures)
    for (hipStream_t other : c->streams)
      if (other->device == s->device && !(other->flags & hipStreamNonBlocking))
        return capture_error(other, hipErrorStreamCaptureImplicit);
  return hipSuccess;
}

void add_node(hipStream_t s, Work *work) {
  auto &nodes = s->capture->nodes;
  nodes.push_back({work, std::exchange(s->nodes, {nodes.size()})});
}

} // namespace impl

inline namespace names {

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  HIP_ENTER();
  if (mode < hipStreamCaptureModeGlobal || mode > hipStreamCaptureModeRelaxed)
    return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  if (!stream) return done(hipErrorStreamCaptureUnsupported);
  hipStream_t s = impl::valid(stream);
  if (!s) return done(hipErrorInvalidHandle);
  if (s->capture) return done(hipErrorIllegalState);
  s->capture = new Capture{streams().next_id++, mode, s, pthread_self(), false, {}, {s}};
  s->nodes.clear();
  streams().captures.push_back(s->capture);
  streams().capturing++;
  return hipSuccess;
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph) {
  HIP_ENTER();
  if (!graph) return done(hipErrorInvalidValue);
  *graph = nullptr;
  std::lock_guard guard(runtime().mutex);
  hipStream_t s = impl::valid(stream);
  if (!s) return done(hipErrorInvalidHandle);
  Capture *c = s->capture;
  if (!c) return done(hipErrorIllegalState);
  if (c->origin != s) return done(impl::capture_error(s, hipErrorStreamCaptureUnmatched));
  if (c->mode != hipStreamCaptureModeRelaxed && !pthread_equal(c->thread, pthread_self()))
    return done(hipErrorStreamCaptureWrongThread);
  hipError_t error = c->invalid    ? hipErrorStreamCaptureInvalidated
                     : !joined(*c) ? hipErrorStreamCaptureUnjoined
                                   : hipSuccess;
  std::vector<Node> nodes = close(c);
  if (error)
    drop(nodes);
  else
    *graph = new ihipGraph_t{std::move(nodes)};
  return done(error);
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status) {
  HIP_ENTER();
  if (!status) return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  hipStream_t s = impl::valid(stream);
  if (!s) return done(hipErrorInvalidHandle);
  *status = !s->capture           ? hipStreamCaptureStatusNone
            : s->capture->invalid ? hipStreamCaptureStatusInvalidated
                                  : hipStreamCaptureStatusActive;
  return hipSuccess;
}

// What the calling thread may do while there are captures.
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode) {
  HIP_ENTER();
  if (!mode || *mode < hipStreamCaptureModeGlobal || *mode > hipStreamCaptureModeRelaxed)
    return done(hipErrorInvalidValue);
  std::swap(*mode, impl::own_mode);
  return hipSuccess;
}

// How many; the nodes themselves have no handles.
hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *n) {
  HIP_ENTER();
  if (!graph || !n) return done(hipErrorInvalidValue);
  if (nodes) return done(hipErrorNotSupported);
  *n = graph->nodes.size();
  return hipSuccess;
}
hipError_t hipGraphDestroy(hipGraph_t graph) {
  HIP_ENTER();
  if (!graph) return done(hipErrorInvalidValue);
  drop(graph->nodes);
  delete graph;
  return hipSuccess;
}

hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *, char *,
                               size_t) {
  HIP_ENTER();
  return hipGraphInstantiateWithFlags(exec, graph, 0);
}
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *exec, hipGraph_t graph,
                                        unsigned long long flags) {
  HIP_ENTER();
  if (!exec || !graph || flags) return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  auto *e = *exec = new ihipGraphExec_t{share(graph->nodes), {}, {}, {}};
  size_t chains = make_chains(e->nodes, &e->chain);
  while (e->branches.size() + 1 < chains)
    e->branches.push_back(impl::take_stream(impl::current_device(), hipStreamNonBlocking));
  return hipSuccess;
}

hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  HIP_ENTER();
  if (!exec) return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  hipStream_t s = impl::valid(stream);
  if (!s) return done(hipErrorInvalidHandle);
  if (hipError_t error = impl::implicit(s)) return done(error);
  std::vector<Node> nodes = share(exec->nodes);
  if (s->capture) { // its nodes become some of the other's
    const size_t first = s->capture->nodes.size();
    for (Node &node : nodes) {
      for (size_t &before : node.after) before += first;
      if (node.after.empty()) node.after = s->nodes;
      s->capture->nodes.push_back(std::move(node));
    }
    if (!exec->nodes.empty()) s->nodes = leaves(exec->nodes);
    if (!exec->nodes.empty())
      for (size_t &leaf : s->nodes) leaf += first;
    return hipSuccess;
  }
  const Point start = impl::enqueue(s, nullptr, {exec->last}); // a graph does not overtake itself
  std::vector<Point> points;
  for (size_t i = 0; i < nodes.size(); i++) {
    std::vector<Point> after;
    for (size_t before : nodes[i].after) after.push_back(points[before]);
    if (after.empty()) after.push_back(start);
    hipStream_t on = exec->chain[i] ? exec->branches[exec->chain[i] - 1] : s;
    points.push_back(impl::enqueue(on, nodes[i].work, std::move(after)));
  }
  std::vector<Point> ends;
  for (size_t leaf : leaves(nodes)) ends.push_back(points[leaf]);
  exec->last = impl::enqueue(s, nullptr, std::move(ends));
  return hipSuccess;
}

// What has been launched is done all the same.
hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  HIP_ENTER();
  if (!exec) return done(hipErrorInvalidValue);
  std::lock_guard guard(runtime().mutex);
  for (hipStream_t s : exec->branches) impl::give_back(s);
  drop(exec->nodes);
  delete exec;
  return hipSuccess;
}

} // namespace names
} // namespace hip_cpu

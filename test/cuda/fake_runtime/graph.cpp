// Graphs that were captured: instantiated, uploaded, launched again and again, destroyed.
//
// Follows CUDA Runtime API 13.0, "Graph Management": cudaGraphInstantiate (the graph may be
// destroyed after), cudaGraphLaunch ("ordered behind both any previous work in stream and any
// previous launches of graphExec"; it may wait: stream.cpp), cudaGraphUpload ("uploads graphExec to
// the device in stream without executing it", ordered like a launch), cudaGraphDestroy,
// cudaGraphExecDestroy.
//
// The first launch uploads a graph whose upload has not ended, which is a memory call (peers.cpp):
// openxla/xla#37936 (ranks that create graphs while others run collectives wait for ever), NCCL
// User Guide, "Using NCCL with CUDA Graphs". The manual leaves open when an upload allocates. Here
// it may be as late as its turn in the stream.
#include <algorithm>

#include "cuda/fake_runtime/world.h"

namespace fake {
namespace {

// Keeps the counts of the graph with the most nodes.
void note_graph(World& w, const std::vector<Capture::Node>& nodes) {
  if (nodes.size() <= w.largest_graph.kernels + w.largest_graph.copies) return;
  const auto is_copy = [](const Capture::Node& node) {
    const std::string& name = node.work->name;
    return name.starts_with("copy of ") || name.starts_with("fill of ");
  };
  const auto copies = static_cast<std::size_t>(std::count_if(nodes.begin(), nodes.end(), is_copy));
  w.largest_graph = {nodes.size() - copies, copies};
}

cudaError_t instantiate(Lock& lock, cudaGraphExec_t* exec, cudaGraph_t graph) {
  World& w = world();
  if (const cudaError_t e = begin(w, "cudaGraphInstantiate")) return e;
  if (!exec || w.graphs.count(graph) == 0) return cudaErrorInvalidValue;
  const cudaError_t waited = wait_for_peers(lock, "cudaGraphInstantiate", current_device());
  if (waited != cudaSuccess) return waited;
  if (w.graphs.count(graph) == 0) return cudaErrorInvalidValue;
  auto made = std::make_unique<CUgraphExec_st>();
  made->nodes = graph->nodes;
  note_graph(w, graph->nodes);
  std::map<cudaStream_t, std::shared_ptr<Fiber>> lanes;
  for (const Capture::Node& node : made->nodes) {
    auto& fiber = lanes[node.lane];
    if (!fiber) fiber = std::make_shared<Fiber>();
    made->fibers.push_back(fiber);
  }
  *exec = made.get();
  w.graph_execs[made.get()] = std::move(made);
  return cudaSuccess;
}

std::vector<OperationPtr> earlier_use(const CUgraphExec_st& exec) {
  return exec.last ? std::vector{exec.last} : std::vector<OperationPtr>();
}

// What a call that uses a graph in a stream begins with. `upload` names the memory call that it is;
// empty: none.
cudaError_t begin_use(Lock& lock, cudaGraphExec_t exec, CUstream_st* stream,
                      const std::string& upload) {
  World& w = world();
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->capture) {
    invalidate(*stream->capture);
    return cudaErrorStreamCaptureUnsupported;
  }
  if (const cudaError_t e = check_legacy_use(w, *stream)) return e;
  if (!upload.empty()) {
    if (const cudaError_t e = wait_for_peers(lock, upload, stream->device)) return e;
  }
  if (const cudaError_t e = begin_launch(lock, stream->device, "")) return e;
  if (const cudaError_t e = wait_for_room(lock, stream->device)) return e;
  return w.graph_execs.count(exec) == 0 ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t upload(Lock& lock, cudaGraphExec_t exec, cudaStream_t handle) {
  World& w = world();
  if (const cudaError_t e = begin(w, "cudaGraphUpload")) return e;
  if (w.graph_execs.count(exec) == 0) return cudaErrorInvalidValue;
  CUstream_st* stream = find_stream(w, handle);
  if (const cudaError_t e = begin_use(lock, exec, stream, "cudaGraphUpload")) return e;
  exec->upload =
      append(w, *stream, marker("upload of a graph", stream->device), earlier_use(*exec));
  exec->last = exec->upload;
  run_eagerly(lock);
  return cudaSuccess;
}

cudaError_t launch(Lock& lock, cudaGraphExec_t exec, cudaStream_t handle) {
  World& w = world();
  if (const cudaError_t e = begin(w, "cudaGraphLaunch")) return e;
  if (w.graph_execs.count(exec) == 0) return cudaErrorInvalidValue;
  CUstream_st* stream = find_stream(w, handle);
  const bool is_uploaded = exec->was_launched || (exec->upload && exec->upload->done);
  const cudaError_t began =
      begin_use(lock, exec, stream, is_uploaded ? "" : "the first launch of a graph");
  if (began != cudaSuccess) return began;
  exec->was_launched = true;
  const auto first =
      append(w, *stream, marker("begin of a graph", stream->device), earlier_use(*exec));
  std::vector<OperationPtr> nodes;
  for (std::size_t i = 0; i < exec->nodes.size(); ++i) {
    auto op = std::make_shared<Operation>();
    op->work = exec->nodes[i].work;
    op->fiber = exec->fibers[i];
    std::vector<OperationPtr> before{first};
    for (const std::size_t node : exec->nodes[i].after) before.push_back(nodes[node]);
    nodes.push_back(op);
    enter(w, op, before);
  }
  exec->last = append(w, *stream, marker("end of a graph", stream->device), nodes);
  run_eagerly(lock);
  return cudaSuccess;
}

template <class Handles, class Handle>
cudaError_t destroy(World& w, const char* function, Handles& handles, Handle handle) {
  const cudaError_t before = begin(w, function);
  if (before != cudaSuccess && before != sticky_error(w, current_device())) return before;
  const Unwatched unwatched;
  const bool found = handles.erase(handle) == 1;
  w.changed();  // what the graph held
  return found ? before : cudaErrorInvalidValue;
}

}  // namespace
}  // namespace fake

extern "C" {

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::instantiate(lock, exec, graph));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::upload(lock, exec, stream));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::launch(lock, exec, stream));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  fake::World& w = fake::world();
  const fake::Lock lock(w.mutex);
  return fake::end(fake::destroy(w, "cudaGraphDestroy", w.graphs, graph));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  fake::World& w = fake::world();
  const fake::Lock lock(w.mutex);
  return fake::end(fake::destroy(w, "cudaGraphExecDestroy", w.graph_execs, exec));
}

}  // extern "C"

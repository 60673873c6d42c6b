// Stream capture: calls on a stream become the nodes of a graph.
//
// Follows the CUDA Programming Guide, "CUDA Graphs", Creating a Graph Using Stream Capture
// (cross-stream dependencies and events, prohibited and unhandled operations, invalidation); CUDA
// Runtime API 13.0, "Stream Management": cudaStreamBeginCapture, cudaStreamEndCapture, and
// cudaThreadExchangeStreamCaptureMode for calls that are unsafe meanwhile; and the descriptions of
// cudaErrorStreamCapture... in driver_types.h. Stricter than the manual: every call that waits,
// asks or allocates counts as unsafe, and a graph is not launched into a capture.
#include <utility>

#include "cuda/fake_runtime/world.h"

namespace fake {
namespace {

cudaError_t refuse(CUstream_st& stream, cudaError_t error) {
  if (stream.capture) invalidate(*stream.capture);
  return error;
}

cudaError_t begin_capture(World& w, cudaStream_t handle, cudaStreamCaptureMode mode) {
  if (const cudaError_t e = begin(w, "cudaStreamBeginCapture")) return e;
  CUstream_st* stream = find_stream(w, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->is_legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture) return refuse(*stream, cudaErrorIllegalState);
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = handle;
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->mode = mode;
  stream->frontier.clear();
  std::erase_if(w.captures, [](const auto& c) { return c.expired(); });
  w.captures.push_back(stream->capture);
  return cudaSuccess;
}

// True if everything in the capture comes before the end of its first stream.
bool is_joined(const Capture& capture, const std::set<std::size_t>& end) {
  std::set<std::size_t> reached;
  std::vector<std::size_t> todo(end.begin(), end.end());
  while (!todo.empty()) {
    const std::size_t node = todo.back();
    todo.pop_back();
    if (!reached.insert(node).second) continue;
    const auto& after = capture.nodes[node].after;
    todo.insert(todo.end(), after.begin(), after.end());
  }
  return reached.size() == capture.nodes.size();
}

cudaError_t end_capture(World& w, cudaStream_t handle, cudaGraph_t* graph) {
  const cudaError_t before = begin(w, "cudaStreamEndCapture");
  if (graph) *graph = nullptr;
  CUstream_st* stream = find_stream(w, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!stream->capture) return cudaErrorIllegalState;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->origin != handle) return refuse(*stream, cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return refuse(*stream, cudaErrorStreamCaptureWrongThread);
  }
  const std::set<std::size_t> end = stream->frontier;
  for (auto& [other, s] : w.streams) {
    if (s->capture == capture) s->capture.reset();
  }
  capture->ended = true;
  const bool joined = is_joined(*capture, end);
  // Events of the capture outlive it, and hold no work.
  std::vector<Capture::Node> nodes = std::exchange(capture->nodes, {});
  if (before != cudaSuccess) return before;
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!graph) return cudaErrorInvalidValue;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  auto made = std::make_unique<CUgraph_st>();
  made->nodes = std::move(nodes);
  *graph = made.get();
  w.graphs[made.get()] = std::move(made);
  return cudaSuccess;
}

}  // namespace

void invalidate(Capture& capture) { capture.invalid = true; }

bool is_captured(const CUstream_st& stream) { return stream.capture != nullptr; }

cudaError_t check_unsafe_call(World& w) {
  cudaError_t status = cudaSuccess;
  for (const auto& entry : w.captures) {
    const std::shared_ptr<Capture> capture = entry.lock();
    if (!capture || capture->ended || capture->mode == cudaStreamCaptureModeRelaxed) continue;
    const bool is_mine = capture->thread == std::this_thread::get_id();
    if (!is_mine && capture->mode != cudaStreamCaptureModeGlobal) continue;
    invalidate(*capture);
    status = cudaErrorStreamCaptureUnsupported;
  }
  return status;
}

cudaError_t check_legacy_use(World& w, const CUstream_st& stream) {
  if (!stream.is_legacy) return cudaSuccess;
  cudaError_t status = cudaSuccess;
  for (auto& [handle, s] : w.streams) {
    if (s->device != stream.device || !s->is_blocking || !s->capture) continue;
    invalidate(*s->capture);
    status = cudaErrorStreamCaptureImplicit;
  }
  return status;
}

cudaError_t capture_node(CUstream_st& stream, std::shared_ptr<const Work> work) {
  Capture& capture = *stream.capture;
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  capture.nodes.push_back({std::move(work), stream.frontier, &stream});
  stream.frontier = {capture.nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t capture_record(CUstream_st& stream, CUevent_st& event) {
  if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  event.capture = stream.capture;
  event.frontier = stream.frontier;
  return cudaSuccess;
}

cudaError_t capture_wait(CUstream_st& stream, CUevent_st& event) {
  if (stream.capture && stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!event.capture) {
    return event.record ? refuse(stream, cudaErrorStreamCaptureIsolation) : cudaSuccess;
  }
  if (event.capture->ended) return refuse(stream, cudaErrorCapturedEvent);
  if (event.capture->invalid) return refuse(stream, cudaErrorStreamCaptureInvalidated);
  if (stream.capture && stream.capture != event.capture) {
    invalidate(*event.capture);
    return refuse(stream, cudaErrorStreamCaptureMerge);
  }
  if (stream.is_legacy) {
    invalidate(*event.capture);
    return cudaErrorStreamCaptureUnsupported;
  }
  if (!stream.capture) {
    stream.capture = event.capture;
    stream.frontier.clear();
  }
  stream.frontier.insert(event.frontier.begin(), event.frontier.end());
  return cudaSuccess;
}

}  // namespace fake

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const fake::Lock lock(fake::world().mutex);
  return fake::end(fake::begin_capture(fake::world(), stream, mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const fake::Lock lock(fake::world().mutex);
  return fake::end(fake::end_capture(fake::world(), stream, graph));
}

}  // extern "C"

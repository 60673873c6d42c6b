#include "backend/cuda/executable/call_graph.h"

namespace trainer::backend::cuda {

CallGraph::CallGraph(cudaStream_t stream, const std::function<void()>& enqueue) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t captured = nullptr;
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream, &captured);
    if (captured != nullptr) cudaGraphDestroy(captured);
    throw;
  }
  check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
  const std::unique_ptr<CUgraph_st, DestroyOnDevice<cudaGraphDestroy>> owner(captured);
  cudaGraphExec_t graph = nullptr;
  const MemoryCall call;
  check(cudaGraphInstantiate(&graph, captured, 0), "cudaGraphInstantiate");
  graph_.reset(graph);
  // Otherwise the first launch uploads it, while other ranks may wait for that launch.
  check(cudaGraphUpload(graph, stream), "cudaGraphUpload");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

void CallGraph::launch(cudaStream_t stream) const {
  check(cudaGraphLaunch(graph_.get(), stream), "cudaGraphLaunch");
}

}  // namespace trainer::backend::cuda

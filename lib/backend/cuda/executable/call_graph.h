// Device work captured once and replayed as one CUDA graph.
// Reasons: lib/decisions/backend.md#a-step-is-one-cuda-graph.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "backend/cuda/runtime.h"

namespace trainer::backend::cuda {

class CallGraph {
 public:
  // Captures what `enqueue` gives to the stream, which does not run it. Waits for the work that the
  // stream has been given before.
  CallGraph(cudaStream_t stream, const std::function<void()>& enqueue);
  void launch(cudaStream_t stream) const;

 private:
  std::unique_ptr<CUgraphExec_st, DestroyOnDevice<cudaGraphExecDestroy>> graph_;
};

}  // namespace trainer::backend::cuda

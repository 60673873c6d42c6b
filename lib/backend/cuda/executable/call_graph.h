// Device work captured once and replayed as one CUDA graph.
// Reasons: lib/decisions/backend.md#a-step-is-one-cuda-graph.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

namespace trainer::backend::cuda {

class CallGraph {
 public:
  // Captures what `enqueue` gives to the stream, which does not run it.
  CallGraph(cudaStream_t stream, const std::function<void()>& enqueue);
  void launch(cudaStream_t stream) const;

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const noexcept;
  };
  std::unique_ptr<CUgraphExec_st, Destroy> graph_;
};

}  // namespace trainer::backend::cuda

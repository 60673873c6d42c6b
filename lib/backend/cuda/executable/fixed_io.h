// Memory of an executable's own between a call's inputs and outputs and a captured graph, which
// then does not depend on where the caller has them.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/lowering.h"
#include "backend/cuda/runtime.h"

namespace trainer::backend::cuda {

class FixedIo {
 public:
  explicit FixedIo(int device) : device_(device) {}

  // The fixed places of these inputs and outputs, empty where the given ones are. `max_samples`:
  // samples that there is memory for. Allocates at the first call only.
  std::vector<Span> inputs(const std::vector<Span>& given, const std::vector<Port>& ports,
                           std::int64_t max_samples);
  std::vector<Span> outputs(const std::vector<Span>& given, const std::vector<Port>& ports,
                            std::int64_t max_samples);

  std::int64_t bytes() const;  // bytes of device memory

 private:
  std::vector<Span> places(std::vector<Buffer>& buffers, const std::vector<Span>& given,
                           const std::vector<Port>& ports, std::int64_t max_samples) const;

  int device_;
  std::vector<Buffer> inputs_, outputs_;
};

// Copies the samples of a call from one list of spans to another, in stream order.
void copy_samples(const std::vector<Span>& from, const std::vector<Span>& to,
                  const std::vector<Port>& ports, std::int64_t samples, cudaStream_t stream);

}  // namespace trainer::backend::cuda

// Named ranges of a thread's time, for NVIDIA's tools: Nsight Systems shows which kernels were
// launched in each. Without a tool a range costs a comparison.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <string>

namespace trainer::backend::cuda {

// A range of the calling thread in the NVTX domain "trainer", from construction to destruction.
// Ranges nest.
class Range {
 public:
  explicit Range(const char* name);
  explicit Range(const std::string& name) : Range(name.c_str()) {}
  ~Range() {
    if (domain_ != nullptr) nvtxDomainRangePop(domain_);
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  nvtxDomainHandle_t domain_;  // null without a tool
};

}  // namespace trainer::backend::cuda

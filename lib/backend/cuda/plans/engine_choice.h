// The choice of one of cuDNN's engines for an operation graph.
// Reasons: lib/decisions/backend.md#heuristics-choose-cudnns-engines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/plans/cudnn.h"

namespace trainer::backend::cuda {

// Use of engines with tensor cores; for float32 they round to TF32.
enum class TensorCores { kForbidden, kAllowed, kPreferred };

// The rules that an engine must meet. Run-time compilation, results that change from run to run,
// sums in less than float32 and inputs rounded to a smaller type are never allowed.
struct EngineRules {
  TensorCores tensor_cores = TensorCores::kAllowed;
  // An engine that needs more memory is taken only when all others need more still.
  std::int64_t workspace_limit = 0;
};

// An execution plan.
struct EnginePlan {
  std::vector<Descriptor> parts;  // the descriptors that it was made of; the plan is the last
  std::int64_t engine = 0;        // cuDNN's number of the engine
  std::int64_t workspace_bytes = 0;
  bool tensor_cores = false;

  const Descriptor& plan() const { return parts.back(); }
};

// Returns the first engine in the order of cuDNN's heuristics that meets the rules and accepts the
// graph, if any. `rejections`, unless null, receives a line about each excluded engine.
std::optional<EnginePlan> choose_engine(const Descriptor& graph, const CudnnDevice& device,
                                        const EngineRules& rules,
                                        std::vector<std::string>* rejections);

// Returns at most `max_engines` engines that meet the rules and accept the graph, in the order of
// cuDNN's heuristics. The workspace limit of the rules is strict here.
std::vector<EnginePlan> usable_engines(const Descriptor& graph, const CudnnDevice& device,
                                       const EngineRules& rules, std::size_t max_engines);

}  // namespace trainer::backend::cuda

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

// What an engine must keep to. Run-time compilation, results that change from run to run, sums in
// less than float32 and inputs rounded to a smaller type are never allowed.
struct EngineRules {
  TensorCores tensor_cores = TensorCores::kAllowed;
  // An engine that needs more memory is taken only when all others need more still.
  std::int64_t workspace_limit = 0;
};

// An execution plan.
struct EnginePlan {
  std::vector<Descriptor> parts;  // what it was made of; the plan is the last
  std::int64_t engine = 0;        // cuDNN's number of it
  std::int64_t workspace_bytes = 0;
  bool tensor_cores = false;

  const Descriptor& plan() const { return parts.back(); }
};

// The first engine in the order of cuDNN's heuristics that keeps to the rules and accepts the
// graph; none when there is none. `refusals`, unless null, gets a line about each engine left out.
std::optional<EnginePlan> choose_engine(const Descriptor& graph, const CudnnDevice& device,
                                        const EngineRules& rules,
                                        std::vector<std::string>* refusals);

// The first engines, `most` at the most, in the order of cuDNN's heuristics that keep to the rules,
// whose workspace limit is strict here, and accept the graph.
std::vector<EnginePlan> usable_engines(const Descriptor& graph, const CudnnDevice& device,
                                       const EngineRules& rules, std::size_t most);

}  // namespace trainer::backend::cuda

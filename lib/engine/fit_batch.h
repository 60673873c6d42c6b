// The batches that a device's memory has room for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "config/config.h"
#include "graph/graph.h"

namespace trainer::engine {

struct BatchFit {
  std::int64_t samples = 0;  // 0: not even one fits
  std::int64_t bytes = 0;    // that so many take
};

// The most samples, up to `most`, whose bytes(samples) are at most `bound`: exactly so up to 16,
// beyond that a multiple of 8. bytes() must not fall with more samples.
BatchFit largest_batch(std::int64_t most, std::int64_t bound,
                       const std::function<std::int64_t(std::int64_t samples)>& bytes);

// Of one replica that trains with so many samples a step, on devices that are only planned for:
// `plan` opens one for each replica. `model` as of model::build_model.
backend::MemoryReport planned_memory(
    const graph::Graph& model, config::Config config, std::int64_t samples,
    const std::function<std::vector<std::unique_ptr<backend::Backend>>()>& plan);

// A backend for each of these, all of which must be MemoryPlanners, that takes no memory.
std::vector<std::unique_ptr<backend::Backend>> plan_only(
    const std::vector<std::unique_ptr<backend::Backend>>& backends);
// Bytes that one of these replicas may take at most: of replicas that share a GPU a part. 0 where a
// device has no memory of its own.
std::int64_t free_memory(const config::Config& config,
                         const std::vector<std::unique_ptr<backend::Backend>>& backends);

// "parameters and statistics 12 MiB, ..." of every part that is not empty.
std::string describe(const backend::MemoryReport& memory);

// What to say when training with this config ran out of memory: what each part takes, and the
// batch that would fit. All that was allocated must have been freed.
std::string explain_out_of_memory(const graph::Graph& model, const config::Config& config,
                                  const std::vector<std::unique_ptr<backend::Backend>>& backends,
                                  const std::string& reason);

}  // namespace trainer::engine

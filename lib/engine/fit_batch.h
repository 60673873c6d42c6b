// Finds the batches that fit the memory of a device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/open.h"
#include "config/config.h"
#include "graph/graph.h"

namespace trainer::engine {

struct BatchFit {
  std::int64_t samples = 0;  // 0: not even one fits
  std::int64_t bytes = 0;    // memory that the samples take
  std::string misfit;        // what bytes() reported of more samples; "": memory is the limit
};

// Returns the largest number of samples, at most `max_samples`, whose bytes(samples) are at most
// `bound`. Above 16 samples the result is rounded down to a multiple of 8. bytes() must not fall
// with more samples, and may throw backend::DoesNotFit.
BatchFit largest_batch(std::int64_t max_samples, std::int64_t bound,
                       const std::function<std::int64_t(std::int64_t samples)>& bytes);

// Plans the memory of one replica that trains with `samples` samples per step. `plan` opens a
// backend for each replica that allocates nothing. `model` comes from model::build_model().
backend::MemoryReport planned_memory(
    const graph::Graph& model, config::Config config, std::int64_t samples,
    const std::function<std::vector<std::unique_ptr<backend::Backend>>()>& plan);

// Returns a backend for each of `backends` that allocates nothing. Their devices must have memory
// of their own.
std::vector<std::unique_ptr<backend::Backend>> plan_only(
    const std::vector<std::unique_ptr<backend::Backend>>& backends);
// Returns the bytes that one of these replicas may take at most. Replicas on one GPU share its
// memory. Returns 0 if a device has no memory of its own.
std::int64_t free_memory(const config::Config& config,
                         const std::vector<std::unique_ptr<backend::Backend>>& backends);

// Returns what of it is left for the programs and values of a run: kernels take memory from their
// first launch on, and connections of GPUs from their first sum on. Trains and evaluates with one
// sample per replica to find out. `model` comes from model::build_model().
std::int64_t free_memory_in_training(const graph::Graph& model, config::Config config,
                                     const backend::Platform& platform);

// Returns "parameters and statistics 12 MiB, ..." with every part that is not empty.
std::string describe(const backend::MemoryReport& memory);

// Returns the message for training with this config that does not fit its devices for `reason`: the
// size of each part, and the batch that would fit. All memory must have been freed.
std::string explain_misfit(const graph::Graph& model, const config::Config& config,
                           const std::vector<std::unique_ptr<backend::Backend>>& backends,
                           const std::string& reason);

}  // namespace trainer::engine

// What a config asks of the compiler and of a backend.
#pragma once

#include "backend/backend.h"
#include "compile/compile.h"
#include "config/config.h"
#include "graph/graph.h"

namespace trainer::engine {

// The default of parallel.bucket_mb for several processes, in MiB.
constexpr double kRemoteBucketMb = 4;

// The options of the graph passes. Throws ConfigError when the backend cannot run the precision.
compile::Options compile_options(const config::Config& config, const backend::Backend& backend);

// The options of a backend for the training program, without communicators and batch sizes.
// `remote`: some ranks are in other processes.
backend::CompileOptions executable_options(const config::Config& config, bool remote);

// The model for training: with mixed samples its labels are float rows, while those of evaluation
// stay class indices.
graph::Graph training_model(const graph::Graph& model, bool mixes_samples);

// Throws ConfigError naming each batch norm that takes statistics over the batch: they would differ
// with the micro-batches that `reduction: ordered` cuts a batch into.
void check_no_batch_statistics(const graph::Graph& training);

}  // namespace trainer::engine

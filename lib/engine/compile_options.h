// Makes the options of the compiler and of a backend from a config.
#pragma once

#include "backend/backend.h"
#include "backend/open.h"
#include "base/notice.h"
#include "compile/compile.h"
#include "config/config.h"
#include "graph/graph.h"

namespace trainer::engine {

// The default of parallel.bucket_mb for several processes, in MiB.
constexpr double kRemoteBucketMb = 4;

// Resolves train.precision: auto by the devices and returns a note with the choice. Returns a
// warning for bfloat16 where float32 is expected to be faster, and otherwise an empty notice.
Notice resolve_precision(config::Config& config, const backend::Platform& platform);

// Returns the options of the graph passes. Throws ConfigError if the backend cannot run the
// precision.
compile::Options compile_options(const config::Config& config, const backend::Backend& backend);

// Returns the options of a backend for the training program, without communicators and batch sizes.
// `remote` is true if some ranks are in other processes.
backend::CompileOptions executable_options(const config::Config& config, bool remote);

// Returns the model for training. With mixed samples its labels are float rows, while those of
// evaluation stay class indices.
graph::Graph training_model(const graph::Graph& model, bool mixes_samples);

// Throws ConfigError naming each batch norm that takes statistics over the batch: such statistics
// would depend on the micro-batches into which `reduction: ordered` divides a batch.
void check_no_batch_statistics(const graph::Graph& training);

}  // namespace trainer::engine

// The batches that measurements read: those of a run in one process.
#pragma once

#include <algorithm>

#include "config/config.h"
#include "data/samples/loader.h"
#include "engine/engine.h"

namespace trainer::commands {

// Returns options for global batches of `config` from its first step on, without end.
inline data::LoaderOptions loader_options(const config::Config& config) {
  data::LoaderOptions options = data::make_loader_options(config);
  options.batch_size = config.train.batch_size * config.parallel.replicas;
  return options;
}

// Returns options for batches in memory that the engine's devices copy from directly. As many are
// out at once as the engine may have training calls in flight. The engine must outlive the loader.
inline data::LoaderOptions loader_options(const config::Config& config, engine::Engine& engine) {
  data::LoaderOptions options = loader_options(config);
  options.out =
      std::max(1, engine.replica().launches_in_flight());  // an engine that predicts has none
  options.allocate = engine.host_allocator();
  return options;
}

}  // namespace trainer::commands

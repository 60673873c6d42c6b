// Evaluations of a small model, on any number of replicas and workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/evaluate.h"
#include "support/backend.h"
#include "support/model.h"

namespace trainer::test {

// `together` divides each batch among the workers; otherwise rank 0 evaluates alone.
inline config::Config make_evaluation_config(const std::string& model, std::int64_t replicas,
                                             bool together) {
  config::Config config = build_config(model);
  config.parallel.replicas = replicas;
  config.parallel.threads = 2;
  config.parallel.evaluate = together;
  config.train.batch_size = 8;
  return config;
}

// Evaluates the model of the config with initial parameters, which are the same in every call.
// Appends the logits of all samples to `logits`, if it is given.
inline engine::Metrics evaluate_model(const config::Config& config, const model::SampleSpec& sample,
                                      const data::Dataset& dataset,
                                      cluster::Communicator* workers = nullptr,
                                      std::vector<float>* logits = nullptr) {
  const graph::Graph model = model::build_model(config.model, config.data, sample, 1);
  const std::int64_t count = workers == nullptr ? 1 : workers->size();
  engine::Engine engine(model, config,
                        open_test_backends(engine::device_options(config.parallel, {}, count)),
                        engine::Use::kTrain, workers);
  engine.initialise(5);
  engine::EvaluateOptions options = engine::evaluate_options(config);
  options.workers = workers;
  options.each_batch = [&](const data::Batch&, std::span<const float> of_batch) {
    if (logits != nullptr) logits->insert(logits->end(), of_batch.begin(), of_batch.end());
  };
  return *engine::evaluate(engine, dataset, options);
}

}  // namespace trainer::test

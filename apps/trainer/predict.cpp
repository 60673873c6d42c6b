#include "train/predict.h"

#include <algorithm>
#include <iostream>

#include "commands.h"
#include "train/open.h"

namespace trainer::app {

int predict(const PredictArguments& arguments) {
  const train::Trained trained =
      train::open_trained(arguments.run, arguments.best, arguments.overrides, environment(), warn);
  const auto inputs = train::open_prediction_inputs(trained, arguments.images, arguments.split,
                                                    arguments.skip_damaged, warn);
  const graph::Graph model =
      model::build_model(trained.config.model, trained.config.data,
                         train::sample_spec(trained, inputs), trained.config.seed);
  train::Replicas engine(model, trained.config, train::open_backends(trained.config),
                         train::Engine::Use::kPredict);
  engine.load(trained.file, trained.path);
  train::PredictionWriter writer(arguments.json ? "jsonl" : arguments.format, trained.classes,
                                 inputs, arguments.top, std::cout);
  writer.header();
  std::int64_t skipped = 0;
  const auto each = [&](const train::PredictionInput& input, const train::Prediction& prediction) {
    if (prediction.error.empty()) return writer.write(input, prediction);
    ++skipped;
    warn("skipped: " + prediction.error);
  };
  for (const train::PredictionInput& input : inputs) {
    train::predict(engine, input, trained.config.model.loss, arguments.limit,
                   [&](const train::Prediction& prediction) { each(input, prediction); });
  }
  if (skipped > 0) warn(std::to_string(skipped) + " files were skipped");
  const bool all = std::all_of(inputs.begin(), inputs.end(),
                               [](const auto& input) { return input.unreadable == 0; });
  return all ? kExitOk : kExitData;
}

}  // namespace trainer::app

// Throughput: of training steps, of predictions, or of the input pipeline alone.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "commands/load_config/load_config.h"
#include "commands/measure/measured.h"
#include "data/dataset.h"
#include "engine/engine.h"
#include "results/prediction_speed.h"
#include "train/schedule/training_plan.h"

namespace trainer::commands {

struct Throughput {
  double images_per_second = 0;  // median over windows of about a tenth of the time
  double low = 0, high = 0;      // slowest and fastest window
  std::int64_t steps = 0;
  double wait_share = 0;  // the share of the time spent waiting for data
  results::MeasuredKeys measured = {};
  std::string counted = {};  // the stages that an image has gone through
};
void fields(results::FieldVisitor& v, Throughput& result);
void print_throughput(const Throughput& result, std::ostream& out);

// Replaces the data of the config by random images. Image size and number of classes are those of
// the config, else those of its data (which is opened), else those of data.synthetic. A no-op for
// synthetic data.
void use_synthetic_data(config::Config& config);

// Trains on the data set as a run would, for `seconds` after a warm-up of a tenth of that time.
// Changes the engine's variables.
Throughput measure_training(engine::Engine& engine, const data::Dataset& dataset,
                            const config::Config& config, double seconds);
// Predicts as `trainer predict` does, evaluation_batch() samples at a time, without reading the
// results. The engine is of Use::kPredict.
Throughput measure_prediction(engine::Engine& engine, const data::Dataset& dataset,
                              const config::Config& config, double seconds);
// Predicts images that are in memory for `seconds`, in calls of 1, 2, 4, 8, 16 and 32 images in
// turn. The engine is of Use::kPredict, and its evaluation_batch() is at least kMaxMeasuredBatch.
constexpr std::int64_t kMaxMeasuredBatch = 32;
results::PredictionSpeed measure_prediction_speed(engine::Engine& engine,
                                                  const data::Dataset& dataset, double seconds);
// Reads batches as a run would, and discards them. Normalisation, which is part of a run's model,
// is not counted, unless `normalize`: the loader's threads then convert bytes to the floats that
// the first layer reads, as pipelines of other programs do.
Throughput measure_input(const data::Dataset& dataset, const config::Config& config, double seconds,
                         bool normalize);

struct BenchmarkArguments : ConfigArguments {
  double seconds = 5;       // measured time, after a warm-up
  bool input_only = false;  // the input pipeline alone
  bool predict = false;     // forward passes alone
  bool normalize = false;   // input_only: to the numbers that the model's first layer reads
  bool synthetic = false;   // synthetic data of the config's shape in place of its own
};
int execute(const BenchmarkArguments& arguments, const Context& context);

}  // namespace trainer::commands

// Throughput: of the training step on batches in memory, or of the input pipeline alone.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "data/data.h"
#include "engine/replicas.h"
#include "measure/measured.h"
#include "train/steps/step_plan.h"

namespace trainer::measure {

struct Throughput {
  double images_per_second = 0;  // median over windows of about a tenth of the time
  double low = 0, high = 0;      // slowest and fastest window
  std::int64_t steps = 0;
  double wait_share = 0;  // of the time, waiting for data
  std::int64_t batch_size = 0;
  std::string counted = {};    // what an image has gone through
  MeasuredKeys measured = {};  // of a training; empty otherwise
};
void print_throughput(const Throughput& result, std::ostream& out);
// {"event":"benchmark",...}
void print_throughput_json(const Throughput& result, std::ostream& out);

// Puts random images in the place of the config's data, of the model's input and classes: the sizes
// that the config says, or else those of its data, which is then opened; data.synthetic's where
// neither is known. No change where the data is synthetic already.
void use_synthetic_data(config::Config& config);

// Trains on the data set as a run would, for `seconds` after a warm-up of a tenth of it. The
// engine's variables change.
Throughput measure_training(engine::Replicas& engine, const data::Dataset& dataset,
                            const config::Config& config, double seconds);
// Reads batches as a run would, and throws them away. What a run's model does to the images is not
// counted, unless `normalize`: the loader's threads then make bytes the float numbers that the
// first layer reads, as pipelines of other programs do.
Throughput measure_input(const data::Dataset& dataset, const config::Config& config, double seconds,
                         bool normalize);

}  // namespace trainer::measure

// Finds values of a config by experiment: the learning rate, the batch size.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "commands/load_config/load_config.h"
#include "data/dataset.h"
#include "engine/engine.h"
#include "results/field.h"
#include "results/page/svg.h"

namespace trainer::commands {

// ---- Learning rate ----

struct RangeTestOptions {
  double low = 1e-7, high = 10;  // learning rates
  std::int64_t steps = 100;      // 10 or more
};
// One step per rate, each larger than the one before by the same factor (Smith, 2015). It ends
// early when the loss has grown to four times its lowest value, or is not finite.
struct RangeTest {
  struct Point {
    double rate = 0, loss = 0;
    double smoothed = 0;  // median of the losses at the rates around it
  };
  std::string key;  // the key of the config that the suggestion is for
  std::vector<Point> points;
  bool diverged = false;
  // A tenth of the rate of the lowest smoothed loss before the loss rises for good; nothing if it
  // does not fall before, or does not rise.
  std::optional<double> suggestion;
};
void fields(results::FieldVisitor& v, RangeTest& test);
// Trains the engine, whose variables change. Batches are those of a run of the config.
RangeTest test_learning_rates(engine::Engine& engine, const data::Dataset& dataset,
                              const config::Config& config, const RangeTestOptions& options);
// Sets the smoothed losses and the suggestion from the rates and losses.
void suggest_rate(RangeTest& test);

// Returns the rate with three significant digits, as the printed suggestion has it.
std::string format_rate(double rate);

void print_range_test(const RangeTest& test, std::ostream& out);

// ---- Batch size ----

struct BatchSizes {
  struct Point {
    std::int64_t batch_size = 0;  // samples per replica
    double images_per_second = 0, low = 0, high = 0;
    std::int64_t bytes = 0;  // memory of the engine, for all replicas
  };
  std::vector<Point> points;         // sorted by batch size
  std::int64_t available_bytes = 0;  // memory of the host that was available at the start
  // The largest that fits all replicas, by a plan of their memory up to 1024, beyond that measured;
  // what it takes of what, or "measured".
  std::int64_t largest = 0;
  std::string fit;
  std::optional<std::int64_t> too_large;  // the first to be measured that does not fit
  // The smallest with 95 % of the best throughput; 0 without points.
  std::int64_t knee = 0;
};
void fields(results::FieldVisitor& v, BatchSizes& sizes);
struct BatchSizeOptions {
  std::int64_t first = 8, most = 1024;  // powers of two times `first`
  double seconds = 1;                   // the time to measure each
};
// Measures the training step on random images of the config's shape for growing batch sizes, until
// the next would not fit or the throughput has fallen. What fits is planned, because a host without
// memory kills programs. Throws ConfigError when not one sample fits.
BatchSizes find_batch_sizes(const config::Config& config, const backend::Platform& platform,
                            const BatchSizeOptions& options);
// Returns the smallest batch size with 95 % of the best throughput. `points` are in order of rising
// batch size.
std::int64_t find_knee(const std::vector<BatchSizes::Point>& points);

void print_batch_sizes(const BatchSizes& sizes, std::ostream& out);

// ---- Charts of --plot ----

// Returns the loss, and the smoothed loss, over the learning rate.
results::Chart make_chart(const RangeTest& test);
// Returns the throughput over the batch size.
results::Chart make_chart(const BatchSizes& sizes);

// ---- The command ----

struct FindArguments : ConfigArguments {
  std::string what;  // learning-rate or batch-size
  std::string plot;
  bool overwrite = false;
  RangeTestOptions rates;
  BatchSizeOptions sizes;
};
int execute(const FindArguments& arguments, const Context& context);

}  // namespace trainer::commands

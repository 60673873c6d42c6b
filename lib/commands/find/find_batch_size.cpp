#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/process/memory.h"
#include "commands/benchmark/benchmark.h"
#include "commands/find/find.h"
#include "model/build_model.h"
#include "train/open.h"
#include "train/resolve_batch_size.h"

namespace trainer::commands {

using results::kBytes;

namespace {

constexpr double kNearlyBest = 0.95;     // of the best throughput, for the knee
constexpr double kFallen = 0.8;          // of it: larger batches are not worth a try
constexpr double kUsable = 0.9;          // of the memory that is available
constexpr std::int64_t kPlanned = 1024;  // train::choose_batch_size() looks no further

BatchSizes::Point measure_one(config::Config config, const backend::Platform& platform,
                              std::int64_t batch_size, double seconds) {
  config.train.batch_size = batch_size;
  config.data.synthetic.train_samples = 2 * batch_size * config.parallel.replicas;
  const data::Datasets data = train::open_training_data(config, Split::kTrain);
  const graph::Graph model = model::build_model(config, train::sample_spec(data));
  engine::Engine engine(model, config, engine::open_backends(config, platform),
                        engine::Use::kTrain);
  engine.initialise(config.seed);
  const Throughput result = measure_training(engine, *data.train, config, seconds);
  const data::DatasetSpec& spec = data.train->spec();
  // The data set holds two batches, the loader a few.
  const auto batch_bytes = static_cast<std::int64_t>(spec.image_bytes() + spec.label_bytes()) *
                           config.data.synthetic.train_samples * 3;
  return {batch_size, result.images_per_second, result.low, result.high,
          engine.memory().total() + batch_bytes};
}

// Sets the largest batch that the devices have room for, by a plan of their memory.
void plan_largest(const config::Config& config, const backend::Platform& platform,
                  BatchSizes& sizes) {
  config::Config planned = config;
  planned.data.synthetic.train_samples = 2 * config.parallel.replicas;
  planned.train.batch_size = 1;
  const data::Datasets data = train::open_training_data(planned, Split::kTrain);
  const graph::Graph model = model::build_model(planned, train::sample_spec(data));
  const train::ChosenBatchSize chosen = train::choose_batch_size(planned, platform, model, 0);
  sizes.largest = chosen.samples;
  sizes.fit = chosen.memory;
}

// Bytes of the next, twice as large batch: what grew with the last one grows twice as much.
std::int64_t foreseen_bytes(const std::vector<BatchSizes::Point>& points) {
  const BatchSizes::Point& last = points.back();
  if (points.size() < 2) return 2 * last.bytes;
  return last.bytes + 2 * std::max<std::int64_t>(0, last.bytes - points[points.size() - 2].bytes);
}

bool fits(std::int64_t size, const BatchSizes& sizes) {
  if (size <= sizes.largest) return true;
  if (sizes.largest < kPlanned || sizes.points.empty() || sizes.available_bytes == 0) return false;
  return static_cast<double>(foreseen_bytes(sizes.points)) <=
         kUsable * static_cast<double>(sizes.available_bytes);
}

bool has_fallen(const std::vector<BatchSizes::Point>& points) {
  double best = 0;
  for (const BatchSizes::Point& point : points) best = std::max(best, point.images_per_second);
  return points.back().images_per_second < kFallen * best;
}

}  // namespace

std::int64_t find_knee(const std::vector<BatchSizes::Point>& points) {
  double best = 0;
  for (const BatchSizes::Point& point : points) best = std::max(best, point.images_per_second);
  for (const BatchSizes::Point& point : points) {
    if (point.images_per_second >= kNearlyBest * best) return point.batch_size;
  }
  return 0;
}

BatchSizes find_batch_sizes(const config::Config& config, const backend::Platform& platform,
                            const BatchSizeOptions& options) {
  config::Config synthetic = config;
  use_synthetic_data(synthetic);
  synthetic.model.weights.clear();
  BatchSizes sizes;
  sizes.available_bytes = available_memory();
  plan_largest(synthetic, platform, sizes);
  for (std::int64_t size = options.first; size <= options.most; size *= 2) {
    if (!fits(size, sizes)) {
      sizes.too_large = size;
      break;
    }
    try {
      sizes.points.push_back(measure_one(synthetic, platform, size, options.seconds));
    } catch (const std::bad_alloc&) {
      sizes.too_large = size;
      break;
    } catch (const DeviceError&) {
      if (sizes.points.empty()) throw;  // not for want of memory
      sizes.too_large = size;
      break;
    }
    if (size > sizes.largest) sizes.largest = size, sizes.fit = "measured";
    if (has_fallen(sizes.points)) break;
  }
  // Where the plan was wrong, what ran is right.
  if (sizes.too_large && *sizes.too_large <= sizes.largest) {
    sizes.largest = sizes.points.empty() ? 0 : sizes.points.back().batch_size;
    sizes.fit = "measured";
  }
  sizes.knee = find_knee(sizes.points);
  return sizes;
}

void print_batch_sizes(const BatchSizes& sizes, std::ostream& out) {
  Table table({"batch size", "images/second", "from", "to", "memory, MiB"}, {0, 1, 2, 3, 4});
  for (const BatchSizes::Point& point : sizes.points) {
    table.add({std::to_string(point.batch_size), fixed(point.images_per_second, 1),
               fixed(point.low, 1), fixed(point.high, 1), std::to_string(point.bytes >> 20)});
  }
  table.print(out);
  out << "largest that fits: " << sizes.largest << ": " << sizes.fit << '\n';
  if (sizes.knee == 0) return;
  out << "suggestion: --set train.batch_size=" << sizes.knee
      << " (the smallest with 95 % of the best throughput)\n";
}

void fields(results::FieldVisitor& v, BatchSizes::Point& point) {
  v("batch_size", point.batch_size, results::kSamples, "Samples per replica.");
  v("images_per_second", point.images_per_second, {"images/s", 0}, "Median throughput.");
  v("low", point.low, {"images/s", 0}, "Throughput of the slowest window.");
  v("high", point.high, {"images/s", 0}, "Throughput of the fastest window.");
  v("bytes", point.bytes, kBytes, "Memory for all replicas.");
}

void fields(results::FieldVisitor& v, BatchSizes& sizes) {
  v.event("found");
  v.derived("what", std::string("batch-size"), "What was looked for.");
  v.derived("key", std::string("train.batch_size"), "The key of the config for the suggestion.");
  v("suggestion", sizes.knee, results::kSamples, "The smallest with 95 % of the best throughput.");
  v("largest", sizes.largest, results::kSamples, "The largest that fits all replicas.");
  v("too_large", sizes.too_large, results::kSamples,
    "The first to be measured that does not fit; null if all do.");
  v("available_bytes", sizes.available_bytes, kBytes, "Memory of the host at the start.");
  v("points", sizes.points, "The measured sizes, in rising order.");
}

}  // namespace trainer::commands

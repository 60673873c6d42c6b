#include "commands/benchmark/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/numbers/seconds.h"
#include "base/numbers/statistics.h"
#include "commands/measure/batches.h"
#include "engine/compile_options.h"
#include "engine/evaluate.h"
#include "model/build_model.h"
#include "model/table.h"
#include "optim/optim.h"
#include "results/write_json.h"
#include "train/open.h"
#include "train/resolve_batch_size.h"

namespace trainer::commands {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWindows = 10;

// What is done with each batch. Where `in_flight` exceeds 1, begin() returns before the work is
// done, and finish() waits for the oldest work that was begun.
struct BatchWork {
  std::function<void(const data::Batch&)> begin;
  std::function<void()> finish = [] {};
  std::size_t in_flight = 1;
};

// Runs the work of one batch after the other, with as many in flight as the work allows.
class BatchRunner {
 public:
  BatchRunner(const data::Dataset& dataset, const data::LoaderOptions& options, BatchWork work)
      : loader_(data::make_loader(dataset, options)), work_(std::move(work)) {}
  // The device may still read the memory of batches in flight.
  ~BatchRunner() {
    while (!samples_.empty()) {
      try {
        finish_oldest();
      } catch (const std::exception&) {
        // The error that ended the measurement is the one to report.
      }
    }
  }
  BatchRunner(const BatchRunner&) = delete;
  BatchRunner& operator=(const BatchRunner&) = delete;

  // Begins the work of a batch, and finishes that of the oldest. Returns the samples of that one.
  std::int64_t run_batch() {
    do {
      const data::Batch* batch = loader_->next();
      work_.begin(*batch);
      samples_.push_back(batch->range.count);
    } while (samples_.size() < work_.in_flight);
    return finish_oldest();
  }
  double seconds_waited() const { return loader_->seconds_waited(); }

 private:
  std::int64_t finish_oldest() {
    const std::int64_t samples = samples_.front();
    samples_.pop_front();
    work_.finish();
    loader_->release();
    return samples;
  }

  std::unique_ptr<data::Loader> loader_;
  BatchWork work_;
  std::deque<std::int64_t> samples_;  // of the batches in flight, the oldest first
};

// Measures samples per second in windows.
Throughput measure(const data::Dataset& dataset, const data::LoaderOptions& options, double seconds,
                   std::string counted, BatchWork work) {
  BatchRunner runner(dataset, options, std::move(work));
  const Clock::time_point begin = Clock::now();
  do runner.run_batch();
  while (seconds_since(begin) < seconds / kWindows);

  Throughput result;
  result.counted = std::move(counted);
  std::vector<double> rates;
  const double waited = runner.seconds_waited();
  const Clock::time_point measured = Clock::now();
  for (int window = 0; window < kWindows; ++window) {
    const Clock::time_point start = Clock::now();
    std::int64_t samples = 0;
    double elapsed = 0;
    do {
      samples += runner.run_batch();
      ++result.steps;
      elapsed = seconds_since(start);
    } while (elapsed < seconds / kWindows);
    rates.push_back(static_cast<double>(samples) / elapsed);
  }
  result.wait_share = (runner.seconds_waited() - waited) / seconds_since(measured);
  const auto [low, high] = std::ranges::minmax_element(rates);
  result.low = *low;
  result.high = *high;
  result.images_per_second = median(rates);
  return result;
}

// to[i] = from[i] * scale[i] + shift[i]
void normalize_row(const std::uint8_t* from, const float* scale, const float* shift,
                   std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) * scale[i] + shift[i];
}

// Images of bytes as the numbers that the first layer reads.
class NormalizedDataset final : public data::Dataset {
 public:
  NormalizedDataset(const data::Dataset& base, const config::Normalize& normalize)
      : base_(base), spec_(base.spec()) {
    spec_.image_type = DType::kFloat32;
    const Shape shape = base.spec().image_shape;
    const std::size_t channels = shape[2];
    row_ = static_cast<std::size_t>(shape[1]) * channels;
    reversed_ = normalize.reverse_channels ? channels : 0;
    for (std::size_t i = 0; i < row_; ++i) {
      const double mean = normalize.find_mean(i % channels), std = normalize.find_std(i % channels);
      scale_.push_back(static_cast<float>(normalize.scale / std));
      shift_.push_back(static_cast<float>(-mean / std));
    }
  }
  std::int64_t size() const override { return base_.size(); }
  const data::DatasetSpec& spec() const override { return spec_; }
  std::string fingerprint() const override { return base_.fingerprint() + ", normalized"; }

  using data::Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override {
    thread_local std::vector<std::uint8_t> bytes;
    bytes.resize(spec_.image_shape.elements());
    base_.get(index, epoch, bytes.data(), label);
    for (std::size_t i = 0; reversed_ > 0 && i < bytes.size(); i += reversed_) {
      std::reverse(bytes.data() + i, bytes.data() + i + reversed_);
    }
    auto* to = static_cast<float*>(image);
    for (std::size_t i = 0; i < bytes.size(); i += row_, to += row_) {
      normalize_row(bytes.data() + i, scale_.data(), shift_.data(), row_, to);
    }
  }

 private:
  const data::Dataset& base_;
  data::DatasetSpec spec_;
  std::vector<float> scale_, shift_;  // of a row
  std::size_t row_ = 0;
  std::size_t reversed_ = 0;  // the channels, when their order is
};

std::string describe_images(const data::Dataset& dataset) {
  return concat(to_string(dataset.spec().image_shape), ' ', to_string(dataset.spec().image_type),
                " images");
}

// Returns the units of the last dense layer of a list, or 0 when it has none.
std::int64_t count_units(const std::vector<config::Layer>& layers) {
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    if (const auto* dense = std::get_if<config::DenseLayer>(&layer->kind)) return dense->units;
  }
  return 0;
}

// Returns the classes that the layers are made for, or 0 when they follow the data.
std::int64_t count_classes(const config::Model& model) {
  const std::int64_t units = count_units(model.backbone ? model.head : model.layers);
  return units == 1 ? 2 : units;
}

// Returns the sample spec of the config's data, or nothing when the data is missing.
std::optional<model::SampleSpec> read_sample_spec(const config::Config& config) {
  try {
    return train::sample_spec(data::open_datasets(config.data, config.seed, Split::kTrain));
  } catch (const DataError&) {
    return std::nullopt;
  }
}

}  // namespace

void print_throughput(const Throughput& result, std::ostream& out) {
  out << static_cast<std::int64_t>(result.images_per_second) << " images/second ("
      << static_cast<std::int64_t>(result.low) << " to " << static_cast<std::int64_t>(result.high)
      << "), batch " << result.measured.batch_size << ", waiting for data "
      << std::lround(result.wait_share * 100) << " %; counted: " << result.counted << '\n';
}

void fields(results::FieldVisitor& v, Throughput& result) {
  v.event("benchmark");
  v("images_per_second", result.images_per_second, {"images/s", 0}, "Median over windows.");
  v("low", result.low, {"images/s", 0}, "Throughput of the slowest window.");
  v("high", result.high, {"images/s", 0}, "Throughput of the fastest window.");
  v("steps", result.steps, results::kSteps, "Measured steps.");
  v("wait_share", result.wait_share, results::kShare, "Share of the time spent waiting for data.");
  fields(v, result.measured);
  v("counted", result.counted, "What an image has gone through.");
}

void use_synthetic_data(config::Config& config) {
  if (config.data.format == config::DataFormat::kSynthetic) return;
  std::int64_t classes = count_classes(config.model);
  std::optional<model::SampleSpec> sample = train::expected_sample(config);
  if (!sample || (classes == 0 && sample->classes < 1)) {
    if (auto found = read_sample_spec(config)) sample = std::move(found);
  }
  if (sample && classes == 0) classes = sample->classes;
  config::Synthetic& synthetic = config.data.synthetic;
  if (sample) synthetic.shape = sample->image.dims();
  if (classes > 0) synthetic.classes = classes;
  config.data.format = config::DataFormat::kSynthetic;
  config.data.classes.clear();
  config.data.num_classes.reset();
  config.data.limit.reset();
  config.data.drop_remainder = false;  // the number of samples means nothing
}

Throughput measure_training(engine::Engine& engine, const data::Dataset& dataset,
                            const config::Config& config, double seconds) {
  const train::TrainingPlan plan = train::plan_steps(config, dataset.size());
  const optim::LearningRate rate = learning_rate(config, plan);
  backend::Scalars scalars;
  scalars.update = 0;
  // The next step is launched while the device works on this one, as in the training loop.
  BatchWork train;
  train.in_flight = static_cast<std::size_t>(engine.replica().launches_in_flight());
  train.begin = [&](const data::Batch& batch) {
    scalars.learning_rate = static_cast<float>(rate(static_cast<std::int64_t>(scalars.update)));
    ++scalars.update;
    scalars.loss_scale = 1.0 / static_cast<double>(batch.range.count);
    engine.launch(engine::host_batch(batch, false), scalars);
  };
  train.finish = [&] { engine.result(); };
  Throughput result = measure(dataset, loader_options(config, engine), seconds,
                              "training steps on " + describe_images(dataset), std::move(train));
  result.measured.batch_size = config.train.batch_size;
  return result;
}

Throughput measure_prediction(engine::Engine& engine, const data::Dataset& dataset,
                              const config::Config& config, double seconds) {
  data::LoaderOptions options = loader_options(config, engine);
  options.batch_size = engine.evaluation_batch();
  options.augment = false;
  BatchWork predict;
  predict.begin = [&](const data::Batch& batch) {
    engine.evaluate({batch.range.count, batch.images, false, nullptr});
  };
  Throughput result = measure(dataset, options, seconds,
                              "predictions of " + describe_images(dataset), std::move(predict));
  result.measured.batch_size = options.batch_size;
  return result;
}

results::PredictionSpeed measure_prediction_speed(engine::Engine& engine,
                                                  const data::Dataset& dataset, double seconds) {
  constexpr int kRounds = 5;
  const std::size_t bytes = dataset.spec().image_bytes();
  std::vector<std::byte> images(kMaxMeasuredBatch * bytes);
  std::vector<std::byte> label(dataset.spec().label_bytes());
  for (std::int64_t i = 0; i < kMaxMeasuredBatch; ++i) {
    dataset.get(i % dataset.size(), 0, images.data() + static_cast<std::size_t>(i) * bytes,
                label.data());
  }
  const auto predict = [&](std::int64_t count) {
    const Clock::time_point start = Clock::now();
    engine.evaluate({count, images.data(), false, nullptr});
    return seconds_since(start);
  };
  std::vector<double> calls;                          // the seconds of calls with one image
  std::map<std::int64_t, std::vector<double>> rates;  // by images of a call, one per round
  for (std::int64_t count = 1; count <= kMaxMeasuredBatch; count *= 2) {
    predict(count);  // compiles and touches memory
    rates[count];
  }
  // Rounds give all sizes their share of what else happens on the machine.
  const double slice = seconds / static_cast<double>(kRounds * rates.size());
  for (int round = 0; round < kRounds; ++round) {
    for (auto& [count, of_size] : rates) {
      double total = 0;
      std::int64_t predicted = 0;
      for (; total < slice; predicted += count) {
        const double elapsed = predict(count);
        if (count == 1) calls.push_back(elapsed);
        total += elapsed;
      }
      of_size.push_back(static_cast<double>(predicted) / total);
    }
  }
  results::PredictionSpeed speed;
  speed.latency = results::make_latency(std::move(calls));
  for (const auto& [count, of_size] : rates) speed.by_batch.push_back({count, median(of_size)});
  return speed;
}

Throughput measure_input(const data::Dataset& dataset, const config::Config& config, double seconds,
                         bool normalize) {
  const BatchWork throw_away{[](const data::Batch&) {}};
  const data::LoaderOptions options = loader_options(config);
  Throughput result;
  if (!normalize || dataset.spec().image_type != DType::kUInt8) {
    result =
        measure(dataset, options, seconds,
                concat("reading ", describe_images(dataset), ", as the loader hands them over"),
                throw_away);
  } else {
    const NormalizedDataset numbers(dataset, config::find_normalize(config.data));
    result = measure(
        numbers, options, seconds,
        concat("reading ", describe_images(numbers), ", normalized by the loader's threads"),
        throw_away);
  }
  result.measured.batch_size = config.train.batch_size;
  return result;
}

int execute(const BenchmarkArguments& arguments, const Context& context) {
  config::Config config = load_for_devices(arguments, context).config;
  if (arguments.synthetic) use_synthetic_data(config);
  const backend::Platform platform = backend::read_platform(context.environment);
  context.warn(backend::device_warning(engine::device_options(config.parallel, platform)));
  context.warn(engine::resolve_precision(config, platform));
  const data::Datasets data = train::open_training_data(config, Split::kTrain);
  Throughput result;
  std::optional<results::PredictionSpeed> speed;
  if (arguments.input_only) {
    result = measure_input(*data.train, config, arguments.seconds, arguments.normalize);
  } else {
    const graph::Graph model = model::build_model(config, train::sample_spec(data));
    context.warn(train::resolve_batch_size(config, platform, model, data.train->size()));
    const auto open = [&](engine::Use use) {
      auto engine = std::make_unique<engine::Engine>(model, config,
                                                     engine::open_backends(config, platform), use);
      engine->initialise(config.seed);
      return engine;
    };
    if (arguments.predict) {
      result =
          measure_prediction(*open(engine::Use::kPredict), *data.train, config, arguments.seconds);
      config.evaluate.batch_size = kMaxMeasuredBatch;
      speed =
          measure_prediction_speed(*open(engine::Use::kPredict), *data.train, arguments.seconds);
    } else {
      result = measure_training(*open(engine::Use::kTrain), *data.train, config, arguments.seconds);
      result.measured = measured_keys(model::layer_table(model), config);
    }
  }
  (arguments.json ? results::print_json<Throughput> : print_throughput)(result, context.out);
  if (speed) {
    (arguments.json ? results::print_json<results::PredictionSpeed> : results::print)(*speed,
                                                                                      context.out);
  }
  return kExitOk;
}

}  // namespace trainer::commands

// Predictions of images that take time to read.
#include "inference/predict/predict.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/numbers/seconds.h"
#include "model/build_model.h"
#include "results/prediction_speed.h"

namespace trainer::inference {
namespace {

using Clock = std::chrono::steady_clock;

// Images that are read from somewhere slow, each in `seconds`.
class SlowImages final : public data::Dataset {
 public:
  explicit SlowImages(std::int64_t size, double seconds) : size_(size), seconds_(seconds) {}
  std::int64_t size() const override { return size_; }
  const data::DatasetSpec& spec() const override { return spec_; }
  using data::Dataset::get;
  void get(std::int64_t index, std::int64_t, void* image, void* label) const override {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    std::memset(image, static_cast<int>(index), spec_.image_bytes());
    std::memset(label, 0, spec_.label_bytes());
    std::int64_t seen = last;
    while (seen < index && !last.compare_exchange_weak(seen, index)) {
    }
  }
  std::string fingerprint() const override { return "slow"; }

  mutable std::atomic<std::int64_t> last = -1;  // the largest index that has been read

 private:
  std::int64_t size_;
  double seconds_;
  data::DatasetSpec spec_{{6, 6, 3}};
};

// A prediction of `images` slow images in batches of 4. Calls `each` with the index of an image and
// the data.
results::PredictionRates predict_slowly(
    std::int64_t images, double seconds,
    const std::function<void(std::int64_t, const SlowImages&)>& each) {
  const config::Config config =
      config::parse_config(
          "model: {layers: [flatten, dense: 2]}\ntrain: {epochs: 1, batch_size: 4}\n"
          "data: {format: synthetic, synthetic: {shape: [6, 6, 3], classes: 2}}\n",
          "slow.yaml", {}, {})
          .config;
  PredictionInput input;
  auto data = std::make_unique<SlowImages>(images, seconds);
  const SlowImages& slow = *data;
  const model::SampleSpec sample{data->spec().image_shape, data->spec().image_type, true, 2};
  input.images.dataset = std::move(data);
  engine::Engine engine(model::build_model(config, sample), config,
                        engine::open_backends(config, {}), engine::Use::kPredict);
  engine.initialise(1);
  results::PredictionRates rates;
  results::PredictOptions options;
  options.rates = &rates;
  for_each_output(engine, input, options,
                  [&](const results::Output& output) { each(output.index, slow); });
  return rates;
}

}  // namespace

TEST_CASE("predict reads the next images while it predicts others") {
  bool is_ahead = false;
  predict_slowly(12, 0.001, [&](std::int64_t index, const SlowImages& images) {
    if (index > 0) return;
    // The first batch is not released yet: other threads must read the second one.
    const Clock::time_point start = Clock::now();
    while (images.last < 4 && seconds_since(start) < 20) std::this_thread::yield();
    is_ahead = images.last >= 4;
  });
  CHECK(is_ahead);
}

TEST_CASE("predict has the times of reading, of the model and of waiting") {
  std::int64_t outputs = 0;
  const auto rates = predict_slowly(10, 0.02, [&](std::int64_t, const SlowImages&) { ++outputs; });
  CHECK(outputs == 10);
  CHECK(rates.images == 10);
  CHECK(rates.read_seconds >= 10 * 0.02);
  CHECK(rates.predict_seconds > 0);
  CHECK(rates.predict_seconds < rates.seconds);
  // The model waits for the first batch, four images that one thread reads.
  CHECK(rates.wait_seconds >= 0.8 * 4 * 0.02);
  CHECK(rates.wait_seconds <= rates.seconds);
}

}  // namespace trainer::inference

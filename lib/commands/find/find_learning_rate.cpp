#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/table.h"
#include "commands/find/find.h"
#include "commands/measure/batches.h"
#include "engine/evaluate.h"

namespace trainer::commands {
namespace {

constexpr double kMemory = 0.85;   // of the average, a step
constexpr double kDivergence = 4;  // times the lowest smoothed loss
constexpr std::size_t kShownRows = 20;

// Training steps at growing rates. As in the training loop, the next ones are launched before the
// result of a step is read.
class StepsAtRates {
 public:
  StepsAtRates(engine::Replicas& engine, const data::Dataset& dataset, const config::Config& config,
               const RangeTestOptions& options)
      : engine_(engine),
        options_(options),
        loader_(data::make_loader(dataset, loader_options(config, engine))) {}
  // The devices may still read the memory of batches in flight, and that of a launch that failed
  // on some replicas. Nobody reads the results.
  ~StepsAtRates() {
    while (!in_flight_.empty()) {
      try {
        finish();
      } catch (const std::exception&) {
        // The error that ended the test is the one to report.
      }
    }
    engine_.finish_uploads();
  }
  StepsAtRates(const StepsAtRates&) = delete;
  StepsAtRates& operator=(const StepsAtRates&) = delete;

  struct Step {
    engine::StepResult result;
    double samples = 0, rate = 0;
  };
  // Returns the oldest step whose result was not read. Call it at most options.steps times.
  Step next() {
    const auto most = static_cast<std::size_t>(engine_.launches_in_flight());
    while (launched_ < options_.steps && in_flight_.size() < most) launch();
    return finish();
  }

 private:
  void launch() {
    const data::Batch* batch = loader_->next();
    const double progress =
        static_cast<double>(launched_) / static_cast<double>(options_.steps - 1);
    Step step;
    step.samples = static_cast<double>(batch->range.count);
    step.rate = options_.low * std::pow(options_.high / options_.low, progress);
    backend::Scalars scalars;
    scalars.learning_rate = static_cast<float>(step.rate);
    scalars.update = static_cast<std::uint64_t>(++launched_);
    scalars.loss_scale = 1 / step.samples;
    engine_.launch(engine::host_batch(*batch, false), scalars);
    in_flight_.push_back(step);
  }
  Step finish() {
    Step step = in_flight_.front();
    in_flight_.pop_front();
    step.result = engine_.result();
    loader_->release();
    return step;
  }

  engine::Replicas& engine_;
  RangeTestOptions options_;
  std::unique_ptr<data::Loader> loader_;
  std::int64_t launched_ = 0;
  std::deque<Step> in_flight_;
};

}  // namespace

std::string format_rate(double rate) { return significant(rate, 3); }

RangeTest test_learning_rates(engine::Replicas& engine, const data::Dataset& dataset,
                              const config::Config& config, const RangeTestOptions& options) {
  RangeTest test;
  StepsAtRates steps(engine, dataset, config, options);
  double average = 0, lowest = INFINITY;
  for (std::int64_t step = 0; step < options.steps && !test.diverged; ++step) {
    const auto [result, samples, rate] = steps.next();
    const double loss = result.loss / samples + result.penalty.value_or(0);
    test.diverged = !result.finite || !std::isfinite(loss);
    if (test.diverged) break;
    average = kMemory * average + (1 - kMemory) * loss;
    // Without the division the first averages would lean to the 0 that they began with.
    const double smoothed = average / (1 - std::pow(kMemory, static_cast<double>(step + 1)));
    test.points.push_back({rate, loss, smoothed});
    lowest = std::min(lowest, smoothed);
    test.diverged = smoothed > kDivergence * lowest;
  }
  test.suggestion = suggest_rate(test.points);
  return test;
}

// The slope over three points in each direction is larger than the noise of two batches.
std::optional<double> suggest_rate(const std::vector<RangeTest::Point>& points) {
  constexpr std::size_t kReach = 3;
  std::optional<double> suggestion;
  double steepest = 0;
  // Beyond the lowest loss a fall is the recovery from a rise that a large rate has caused.
  const std::size_t lowest =
      std::ranges::min_element(
          points, [](const auto& a, const auto& b) { return a.smoothed < b.smoothed; }) -
      points.begin();
  for (std::size_t i = kReach; i + kReach < points.size() && i < lowest; ++i) {
    const RangeTest::Point &before = points[i - kReach], &after = points[i + kReach];
    const double slope = (after.smoothed - before.smoothed) / std::log(after.rate / before.rate);
    if (slope >= steepest) continue;
    steepest = slope;
    suggestion = points[i].rate;
  }
  return suggestion;
}

void print_range_test(const RangeTest& test, const std::string& key, std::ostream& out) {
  Table table({"learning rate", "loss", "smoothed"}, {0, 1, 2});
  const std::size_t count = test.points.size(), rows = std::min(count, kShownRows);
  for (std::size_t i = 1; i <= rows; ++i) {
    const RangeTest::Point& point = test.points[i * count / rows - 1];
    table.add({format_rate(point.rate), fixed(point.loss, 4), fixed(point.smoothed, 4)});
  }
  table.print(out);
  if (test.diverged) {
    out << "the loss diverges"
        << (count == 0 ? "" : " beyond " + format_rate(test.points.back().rate)) << '\n';
  }
  if (test.suggestion) {
    out << "suggestion: --set " << key << '=' << format_rate(*test.suggestion)
        << " (the loss falls steepest there)\n";
  } else {
    out << "no suggestion: the loss falls at no rate; try other --low and --high, or more "
           "--steps\n";
  }
}

void print_range_test_json(const RangeTest& test, const std::string& key, std::ostream& out) {
  nlohmann::ordered_json json{{"event", "found"}, {"what", "learning-rate"}, {"key", key}};
  json["suggestion"] = test.suggestion ? nlohmann::ordered_json(*test.suggestion) : nullptr;
  json["diverged"] = test.diverged;
  json["points"] = nlohmann::ordered_json::array();
  for (const RangeTest::Point& point : test.points) {
    json["points"].push_back(
        {{"learning_rate", point.rate}, {"loss", point.loss}, {"smoothed", point.smoothed}});
  }
  write_event(out, json);
}

}  // namespace trainer::commands

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <ostream>

#include "base/error.h"
#include "base/formats/table.h"
#include "commands/find/find.h"
#include "commands/measure/batches.h"
#include "engine/evaluate.h"

namespace trainer::commands {
namespace {

constexpr double kMemory = 0.85;   // of the average, a step
constexpr double kDivergence = 4;  // times the lowest smoothed loss
constexpr std::size_t kShownRows = 20;
// The suggestion depends on these numbers. Those of rates are factors.
constexpr double kSmoothed = 4.5;    // to either side of a rate, the rates whose losses smooth it
constexpr double kNoiseShare = 0.9;  // of the losses in the lower half of the rates
constexpr double kSearched = 30;     // below the rise, the rates that may have the lowest loss
constexpr double kBelowLowest = 10;  // below the rate of the lowest loss, the suggestion

using TestPoint = RangeTest::Point;

double quantile(std::vector<double> values, double part) {
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size()));
  std::ranges::nth_element(values, at);
  return *at;
}

// A median, because single batches at large rates have losses far above those around them. It looks
// to both sides: an average of the losses so far begins with the noise of the first batch.
void smooth(std::vector<TestPoint>& points) {
  for (TestPoint& point : points) {
    std::vector<double> near;
    for (const TestPoint& other : points) {
      if (other.rate > point.rate / kSmoothed && other.rate < point.rate * kSmoothed) {
        near.push_back(other.loss);
      }
    }
    point.smoothed = quantile(near, 0.5);
  }
}

// Returns the point from which on the smoothed loss stays above `usual`.
std::vector<TestPoint>::iterator find_rise(std::vector<TestPoint>& points, double usual) {
  const auto last = std::find_if(points.rbegin(), points.rend(),
                                 [&](const TestPoint& point) { return point.smoothed <= usual; });
  return last.base();
}

// Training steps at growing rates. As in the training loop, the next ones are launched before the
// result of a step is read.
class StepsAtRates {
 public:
  StepsAtRates(engine::Engine& engine, const data::Dataset& dataset, const config::Config& config,
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
    const auto max_in_flight = static_cast<std::size_t>(engine_.replica().launches_in_flight());
    while (launched_ < options_.steps && in_flight_.size() < max_in_flight) launch();
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

  engine::Engine& engine_;
  RangeTestOptions options_;
  std::unique_ptr<data::Loader> loader_;
  std::int64_t launched_ = 0;
  std::deque<Step> in_flight_;
};

}  // namespace

std::string format_rate(double rate) { return significant(rate, 3); }

RangeTest test_learning_rates(engine::Engine& engine, const data::Dataset& dataset,
                              const config::Config& config, const RangeTestOptions& options) {
  RangeTest test;
  StepsAtRates steps(engine, dataset, config, options);
  double average = 0, lowest = INFINITY;
  for (std::int64_t step = 0; step < options.steps && !test.diverged; ++step) {
    const auto [result, samples, rate] = steps.next();
    const double loss = result.loss / samples + result.penalty.value_or(0);
    test.diverged = !result.finite || !std::isfinite(loss);
    if (test.diverged) break;
    test.points.push_back({rate, loss});
    average = kMemory * average + (1 - kMemory) * loss;
    // Without the division the first averages would lean to the 0 that they began with.
    const double corrected = average / (1 - std::pow(kMemory, static_cast<double>(step + 1)));
    lowest = std::min(lowest, corrected);
    test.diverged = corrected > kDivergence * lowest;
  }
  suggest_rate(test);
  return test;
}

void suggest_rate(RangeTest& test) {
  std::vector<TestPoint>& points = test.points;
  test.suggestion.reset();
  if (points.empty()) return;
  smooth(points);
  // The noise of batches explains a loss that one in ten has at rates too low to change anything.
  std::vector<double> losses;
  for (std::size_t i = 0; i < (points.size() + 1) / 2; ++i) losses.push_back(points[i].loss);
  const auto rise = find_rise(points, quantile(losses, kNoiseShare));
  if (rise == points.begin() || (rise == points.end() && !test.diverged)) return;
  const auto from = std::ranges::lower_bound(
      points.begin(), rise, std::prev(rise)->rate / kSearched, {}, &TestPoint::rate);
  const auto lowest = std::ranges::min_element(from, rise, {}, &TestPoint::smoothed);
  if (lowest->smoothed < quantile(losses, 0.5)) test.suggestion = lowest->rate / kBelowLowest;
}

void print_range_test(const RangeTest& test, std::ostream& out) {
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
    out << "suggestion: --set " << test.key << '=' << format_rate(*test.suggestion)
        << " (a tenth of the rate of the lowest smoothed loss before the loss rises)\n";
  } else {
    out << "no clear minimum: the loss does not fall and then rise for good; try other --low and "
           "--high, or more --steps\n";
  }
}

void fields(results::FieldVisitor& v, RangeTest::Point& point) {
  v("learning_rate", point.rate, "Learning rate of the step.");
  v("loss", point.loss, "Loss of the step.");
  v("smoothed", point.smoothed, "Median of the losses at the rates around it.");
}

void fields(results::FieldVisitor& v, RangeTest& test) {
  v.event("found");
  v.derived("what", std::string("learning-rate"), "What was looked for.");
  v("key", test.key, "The key of the config for the suggestion.");
  v("suggestion", test.suggestion, "The rate; null if the losses show none.");
  v("diverged", test.diverged, "Whether the loss has grown without end.");
  v("points", test.points, "The steps, in order of rising rates.");
}

}  // namespace trainer::commands

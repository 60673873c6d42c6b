#include <algorithm>
#include <cmath>
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

}  // namespace

std::string format_rate(double rate) { return significant(rate, 3); }

RangeTest test_learning_rates(engine::Replicas& engine, const data::Dataset& dataset,
                              const config::Config& config, const RangeTestOptions& options) {
  RangeTest test;
  const auto loader = data::make_loader(dataset, loader_options(config, engine));
  double average = 0, lowest = INFINITY;
  for (std::int64_t step = 0; step < options.steps && !test.diverged; ++step) {
    const data::Batch* batch = loader->next();
    const auto samples = static_cast<double>(batch->range.count);
    const double progress = static_cast<double>(step) / static_cast<double>(options.steps - 1);
    backend::Scalars scalars;
    const double rate = options.low * std::pow(options.high / options.low, progress);
    scalars.learning_rate = static_cast<float>(rate);
    scalars.update = static_cast<std::uint64_t>(step + 1);
    scalars.loss_scale = 1 / samples;
    const engine::StepResult result = engine.step(engine::host_batch(*batch, false), scalars);
    loader->release();
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

#include "commands/plan/rate_plot.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "optim/optim.h"
#include "results/page/svg.h"
#include "train/schedule/stages.h"

namespace trainer::commands {
namespace {

// Returns the phases of the schedule in order, up to the end of the training.
std::vector<results::Chart::Band> list_phases(const config::Config& config,
                                              const train::TrainingPlan& plan) {
  const config::Schedule& schedule = config.schedule;
  const double epochs = plan.epoch(plan.total_steps);
  std::vector<results::Chart::Band> phases;
  const auto add = [&](const char* name, double end) {
    const double begin = phases.empty() ? 0 : phases.back().end;
    if (end > begin && begin < epochs) phases.push_back({begin, std::min(end, epochs), name});
  };
  if (const auto* ramp = std::get_if<config::RampUpSchedule>(&schedule.kind)) {
    add("warm-up", ramp->ramp_epochs);
    add("sustain", ramp->ramp_epochs + ramp->sustain_epochs);
    add(ramp->decay < 1 ? "decay" : "sustain", epochs);
    return phases;
  }
  if (schedule.warm_up) {
    const optim::Length length{static_cast<double>(plan.steps_per_epoch), plan.total_steps,
                               static_cast<int>(plan.replicas)};
    add("warm-up", optim::to_steps(schedule.warm_up->over, length) / length.steps_per_epoch);
  }
  const bool constant = std::holds_alternative<config::ConstantSchedule>(schedule.kind);
  add(constant ? "constant" : "decay", epochs);
  return phases;
}

// Returns in order: the first and last step, the first and last step of the highest rate, and the
// first step of the lowest.
std::vector<std::int64_t> list_notable_steps(const optim::LearningRate& rate,
                                             std::int64_t total_steps) {
  std::int64_t highest = 0, highest_end = 0, lowest = 0;
  for (std::int64_t step = 0; step < total_steps; ++step) {
    if (rate(step) > rate(highest)) highest = highest_end = step;
    // A plateau ends where the rate is no longer the highest, not where it is that again.
    if (rate(step) == rate(highest) && step == highest_end + 1) highest_end = step;
    if (rate(step) < rate(lowest)) lowest = step;
  }
  std::vector<std::int64_t> steps{0, highest, highest_end, lowest, total_steps - 1};
  std::ranges::sort(steps);
  return steps;
}

// Returns the steps whose rates are drawn, by rising step: every step, or evenly spaced ones and
// the notable ones.
std::vector<std::int64_t> list_drawn_steps(std::int64_t total_steps,
                                           const std::vector<std::int64_t>& notable) {
  std::vector<std::int64_t> steps = notable;
  const std::int64_t spaced = total_steps > results::kMaxChartPoints
                                  ? results::kMaxChartPoints - std::ssize(notable)
                                  : results::kMaxChartPoints;
  const std::int64_t stride = (total_steps + spaced - 1) / spaced;
  for (std::int64_t step = 0; step < total_steps; step += stride) steps.push_back(step);
  std::ranges::sort(steps);
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

results::Chart make_rate_chart(const config::Config& config, const train::TrainingPlan& plan) {
  const optim::LearningRate rate = train::staged_learning_rate(config, plan);
  const std::int64_t steps = plan.total_steps;
  results::Chart chart{
      "rate",
      "Learning rate of " + config.name,
      concat("epoch (", counted(plan.steps_per_epoch, "step"), " each, ", steps, " in all)"),
      "learning rate",
      {{"learning rate", {}}},
      true};
  chart.bands = list_phases(config, plan);
  if (steps == 0) return chart;
  const auto point = [&](std::int64_t step) { return std::pair(plan.epoch(step), rate(step)); };
  const std::vector<std::int64_t> notable = list_notable_steps(rate, steps);
  for (const std::int64_t step : list_drawn_steps(steps, notable)) {
    chart.series.front().points.push_back(point(step));
  }
  for (const std::int64_t step : notable) chart.notable.push_back(point(step));
  return chart;
}

}  // namespace

std::string rate_plot(const config::Config& config, const train::TrainingPlan& steps) {
  return results::svg_document(make_rate_chart(config, steps));
}

}  // namespace trainer::commands

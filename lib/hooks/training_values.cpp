#include "hooks/training_values.h"

#include <cmath>
#include <optional>

#include "base/error.h"

namespace trainer::hooks {
namespace {

using Values = std::vector<std::pair<std::string, double>>;

void add_times(const engine::StepTimes& times, Values& values) {
  if (times.empty()) return;
  for (const engine::StepPhase phase : engine::kAllStepPhases) {
    const engine::StepTimes::Spread spread = times.spread(phase);
    const std::string name = "step_time/" + engine::column_name(phase);
    values.emplace_back(name, spread.median);
    if (times.ranks() == 1) continue;
    values.emplace_back(name + "_min", spread.min);
    values.emplace_back(name + "_max", spread.max);
  }
  if (times.ranks() == 1) return;
  const auto straggler = times.straggler();
  values.emplace_back("step_time/straggler", straggler ? static_cast<double>(straggler->rank) : -1);
}

void add_device(const engine::DeviceUse& use, Values& values) {
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) values.emplace_back(concat(use.device, "/", name), *value);
  };
  for (std::size_t i = 0; i < use.means.size(); ++i) {
    add(engine::kDeviceMetrics[i].name, use.means[i]);
  }
  add(engine::kDeviceEnergy, use.energy_joules);
}

}  // namespace

Values list_training_values(const MetricWindow& window, DeviceWindow& devices, bool has_servers) {
  Values values{{"loss", window.loss()}};
  if (!std::isnan(window.accuracy())) values.emplace_back("accuracy", window.accuracy());
  values.emplace_back("learning_rate", window.last().learning_rate);
  values.emplace_back("images_per_second", window.images_per_second());
  values.emplace_back("steps_per_second", window.steps_per_second());
  values.emplace_back("wait_share", window.wait_share());
  if (has_servers) {
    values.emplace_back("staleness", window.staleness());
    values.emplace_back("staleness_max", static_cast<double>(window.staleness_max()));
  }
  add_times(window.times(), values);
  if (const auto gap = devices.take_gap()) values.emplace_back("gap_seconds", *gap);
  for (const engine::DeviceUse& use : devices.take()) add_device(use, values);
  return values;
}

}  // namespace trainer::hooks

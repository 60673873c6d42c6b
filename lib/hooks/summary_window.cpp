#include "hooks/summary_window.h"

#include <cmath>

#include "base/error.h"

namespace trainer::hooks {
namespace {

// Returns the times of a step by the columns of metrics.csv: medians over the ranks, and those of
// several ranks with "_min" and "_max", too. Empty without times.
NamedValues list_step_times(const engine::StepTimes& times) {
  NamedValues values;
  if (times.empty()) return values;
  for (const engine::StepPhase phase : engine::kAllStepPhases) {
    const engine::StepTimes::Spread spread = times.spread(phase);
    const std::string column = engine::column_name(phase);
    values.emplace_back(column, spread.median);
    if (times.ranks() == 1) continue;
    values.emplace_back(column + "_min", spread.min);
    values.emplace_back(column + "_max", spread.max);
  }
  return values;
}

// Returns what was measured of a device: "power_watts", ...
NamedValues list_device_values(const engine::DeviceUse& use) {
  NamedValues values;
  for (std::size_t i = 0; i < use.means.size(); ++i) {
    if (use.means[i]) values.emplace_back(engine::kDeviceMetrics[i].name, *use.means[i]);
  }
  if (use.energy_joules) values.emplace_back(engine::kDeviceEnergy, *use.energy_joules);
  return values;
}

}  // namespace

void SummaryWindow::start(const RunInfo& info) {
  total_steps_ = info.total_steps;
  has_servers_ = !info.servers.empty();
  interval_.emplace(summary_every_, info.steps_per_epoch);
  steps_.restore(saved_, info);
  totals_ = info.device_totals;
  if (totals_) totals_before_ = totals_();
  gaps_ = info.gaps;
  if (gaps_) gaps_before_ = gaps_();
}

bool SummaryWindow::add(const StepRecord& p) {
  steps_.add(p);
  return interval_->due(p.step, p.elapsed) || p.step == total_steps_;
}

std::vector<engine::DeviceUse> SummaryWindow::devices() const {
  std::vector<engine::DeviceUse> devices;
  for (const engine::DeviceTotals& one : totals_before_) devices.push_back({one.device(), {}, {}});
  return devices;
}

std::vector<engine::DeviceUse> SummaryWindow::take_uses() {
  if (!totals_) return {};
  std::vector<engine::DeviceTotals> now = totals_();
  std::vector<engine::DeviceUse> uses;
  for (std::size_t i = 0; i < now.size(); ++i) uses.push_back(now[i].since(totals_before_[i]));
  totals_before_ = std::move(now);
  return uses;
}

std::optional<double> SummaryWindow::take_gap() {
  if (!gaps_) return std::nullopt;
  const engine::Gaps now = gaps_();
  const engine::Gaps before = std::exchange(gaps_before_, now);
  if (now.count == before.count) return std::nullopt;
  return (now.seconds - before.seconds) / static_cast<double>(now.count - before.count);
}

NamedValues SummaryWindow::list_metrics() const {
  NamedValues values{{"loss", steps_.loss()}};
  if (!std::isnan(steps_.accuracy())) values.emplace_back("accuracy", steps_.accuracy());
  values.emplace_back("learning_rate", steps_.last().learning_rate);
  values.emplace_back("images_per_second", steps_.images_per_second());
  values.emplace_back("steps_per_second", steps_.steps_per_second());
  values.emplace_back("wait_share", steps_.wait_share());
  if (has_servers_) {
    values.emplace_back("staleness", steps_.staleness());
    values.emplace_back("staleness_max", static_cast<double>(steps_.staleness_max()));
  }
  return values;
}

NamedValues SummaryWindow::list_system_metrics() {
  NamedValues values;
  const engine::StepTimes& times = steps_.times();
  for (const auto& [name, value] : list_step_times(times)) {
    values.emplace_back("step_time/" + name, value);
  }
  if (times.ranks() > 1) {
    const auto straggler = times.straggler();
    values.emplace_back("step_time/straggler",
                        straggler ? static_cast<double>(straggler->rank) : -1);
  }
  if (const auto gap = take_gap()) values.emplace_back("gap_seconds", *gap);
  for (const engine::DeviceUse& use : take_uses()) {
    for (const auto& [name, value] : list_device_values(use)) {
      values.emplace_back(concat(use.device, "/", name), value);
    }
  }
  return values;
}

}  // namespace trainer::hooks

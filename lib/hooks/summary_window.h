// Collects the steps and the use of the devices since the last row of a hook that writes a row
// every run.summary_every.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/sections/duration.h"
#include "hooks/hooks.h"
#include "hooks/interval.h"
#include "hooks/metric_window.h"

namespace trainer::hooks {

using NamedValues = std::vector<std::pair<std::string, double>>;

class SummaryWindow {
 public:
  explicit SummaryWindow(const config::Duration& summary_every) : summary_every_(summary_every) {}

  // save() returns the text that a checkpoint stores; restore() takes it before start().
  std::string save() const { return steps_.save(); }
  void restore(const std::string& saved) { saved_ = saved; }

  void start(const RunInfo& info);
  // Adds a step, and returns whether a row is due. The last step also has a row, but not the step
  // at which a run is interrupted: an interrupted run has the rows of a whole run, because save()
  // keeps the steps since the last row.
  bool add(const StepRecord& p);
  // Starts the next row.
  void clear() { steps_ = {}; }

  bool empty() const { return steps_.empty(); }
  const MetricWindow& steps() const { return steps_; }
  bool has_servers() const { return has_servers_; }

  bool has_gaps() const { return gaps_ != nullptr; }
  // Returns the devices, "gpu0", ..., without values.
  std::vector<engine::DeviceUse> devices() const;
  // Returns the use of the devices since start() or the last call; empty where they are not
  // measured.
  std::vector<engine::DeviceUse> take_uses();
  // Returns the mean gap between steps since start() or the last call, in seconds; nothing if there
  // was no gap.
  std::optional<double> take_gap();

  // The values of the row by name, for TensorBoard and MLflow.
  // Returns "loss", "accuracy" (unless it is NaN), "learning_rate", "images_per_second", ...
  NamedValues list_metrics() const;
  // Returns the times of a step, the gap between steps and the use of the devices, whose names
  // begin with that of the device: "step_time/forward_seconds", "gap_seconds", "gpu0/power_watts".
  // Calls take_gap() and take_uses().
  NamedValues list_system_metrics();

 private:
  config::Duration summary_every_;
  std::int64_t total_steps_ = 0;
  bool has_servers_ = false;
  std::optional<RowInterval> interval_;
  std::string saved_;  // the text that the checkpoint has from which the run resumes
  MetricWindow steps_;
  std::function<std::vector<engine::DeviceTotals>()> totals_;
  std::vector<engine::DeviceTotals> totals_before_;
  std::function<engine::Gaps()> gaps_;
  engine::Gaps gaps_before_;
};

}  // namespace trainer::hooks

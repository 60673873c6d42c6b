// Averages the steps since the last line of a hook.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/formats/table.h"
#include "hooks/hooks.h"
#include "results/rounded.h"

namespace trainer::hooks {

// Averages loss and accuracy over the samples, and times over the steps.
class MetricWindow {
 public:
  void add(const StepRecord& p) {
    const auto n = static_cast<double>(p.samples);
    last_ = p;
    last_.ranks = {};
    samples_ += n;
    loss_ += p.loss * n;
    correct_ += p.accuracy * n;
    seconds_ += p.step_seconds;
    steps_made_ += static_cast<double>(p.steps);
    waited_ += p.wait_seconds;
    staleness_ += static_cast<double>(p.staleness);
    staleness_max_ = std::max(staleness_max_, p.staleness);
    ++steps_;
    times_.add(p.ranks);
  }

  // Returns the sums for the state of a checkpoint, or "" for an empty window, so that a run that
  // resumes there does not lose the steps since the last line. The times by phase are left out.
  std::string save() const;
  // Replaces the window by one that save() returned, unless its newest step is not that of the
  // checkpoint: the text may be of an earlier one. With parameter servers the step may be lower,
  // because other workers made steps before the chief saved. Ignores a damaged text.
  void restore(const std::string& saved, const RunInfo& info);

  bool empty() const { return samples_ == 0; }
  const StepRecord& last() const { return last_; }  // the newest step
  double seconds() const { return seconds_; }
  // NaN if there were no steps.
  double loss() const { return loss_ / samples_; }
  double accuracy() const { return correct_ / samples_; }
  // 0 if no time has passed.
  double images_per_second() const { return seconds_ > 0 ? samples_ / seconds_ : 0; }
  double steps_per_second() const { return seconds_ > 0 ? steps_made_ / seconds_ : 0; }
  // The mean and the largest staleness of the steps.
  double staleness() const { return staleness_ / steps_; }
  std::int64_t staleness_max() const { return staleness_max_; }
  const engine::StepTimes& times() const { return times_; }
  double wait_share() const { return seconds_ > 0 ? waited_ / seconds_ : 0; }
  // Returns the row of metrics.csv, with the newest step.
  results::MetricsRow make_row() const;

 private:
  StepRecord last_;
  double samples_ = 0, loss_ = 0, correct_ = 0, seconds_ = 0, waited_ = 0;
  double staleness_ = 0, steps_ = 0, steps_made_ = 0;
  std::int64_t staleness_max_ = 0;
  engine::StepTimes times_;
};

}  // namespace trainer::hooks

// Sweeps whose points have runs with numbers that tests choose.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/support.h"
#include "results/sweeps/grid.h"
#include "results/sweeps/summary.h"

namespace trainer::test {

// A sweep over replicas, batch size and seed in a folder of its own.
struct FakeSweep {
  TemporaryFolder folder;
  results::SweepPlan plan;

  explicit FakeSweep(const std::vector<std::string>& over) {
    const Path config = folder.path() / "fake.yaml";
    write_file_atomic(config, fake_config(32) + "parallel: {lr_scaling: none}\n");
    std::vector<results::Axis> axes;
    for (const std::string& text : over) axes.push_back(results::parse_axis(text));
    plan = results::plan_sweep(config, axes, {}, {}, folder.path() / "sweep");
  }
  void write(const std::string& point, const FakeRun& run) const {
    write_run(plan.folder / point, run);
  }
  results::Summary summary(
      std::optional<double> wanted = {},
      results::CheckpointChoice preferred = results::CheckpointChoice::kBest) const {
    return results::summarize(plan, results::collect(plan), wanted, preferred);
  }
};

// Returns a run with this number of replicas and seconds per step, and no time of waiting.
inline FakeRun make_run(std::int64_t replicas, double seconds, std::int64_t correct = 90) {
  FakeRun run;
  run.replicas = replicas;
  run.samples = 32 * replicas;
  run.seconds = seconds;
  run.wait_seconds = 0;
  run.correct = correct;
  return run;
}

}  // namespace trainer::test

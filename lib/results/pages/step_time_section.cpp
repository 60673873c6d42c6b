#include <algorithm>

#include "engine/step_times.h"
#include "results/pages/sections.h"

namespace trainer::results {
namespace {

using engine::RankTimes;
using engine::StepPhase;
using engine::StepTimes;

double milliseconds(double seconds) { return 1e3 * seconds; }

// Returns one bar per rank, divided by phase.
StackedBars phase_bars(const RunFiles& run) {
  StackedBars bars{"ms", {}, {}};
  std::vector<StepPhase> phases;
  for (const StepPhase phase : engine::kAllStepPhases) {
    if (phase == StepPhase::kAllReduceHidden) continue;  // it passes during the others
    phases.push_back(phase);
    bars.parts.emplace_back(spell(phase));
  }
  for (std::size_t i = 0; i < run.step_times.ranks(); ++i) {
    const RankTimes mean = run.step_times.mean_times(i);
    StackedBars::Bar bar{rank_name(run, i), {}};
    for (const StepPhase phase : phases) bar.values.push_back(milliseconds(mean[phase]));
    bars.bars.push_back(std::move(bar));
  }
  return bars;
}

// Returns the times of the phases in which a rank has spent time.
Table phase_table(const RunFiles& run) {
  std::vector<StepPhase> phases(engine::kAllStepPhases.begin(), engine::kAllStepPhases.end());
  std::erase_if(phases, [&](StepPhase phase) { return run.step_times.spread(phase).max <= 0; });
  std::vector<std::string> header{"rank"};
  for (const StepPhase phase : phases) header.emplace_back(spell(phase));
  header.emplace_back("step");
  Table table(std::move(header), NumbersFrom{1}, "Milliseconds of a step, the mean over the steps");
  for (std::size_t i = 0; i < run.step_times.ranks(); ++i) {
    const RankTimes mean = run.step_times.mean_times(i);
    std::vector<std::string> row{rank_name(run, i)};
    for (const StepPhase phase : phases) row.push_back(fixed(milliseconds(mean[phase]), 2));
    row.push_back(fixed(milliseconds(mean.total()), 2));
    table.add(std::move(row));
  }
  return table;
}

}  // namespace

Document step_time_section(const RunFiles& run) {
  const StepTimes& times = run.step_times;
  double longest = 0;
  for (std::size_t i = 0; i < times.ranks(); ++i) {
    longest = std::max(longest, times.mean_times(i).total());
  }
  if (longest <= 0) return {};
  Document section;
  section.add(Heading{"Time of a step"});
  section.add(phase_bars(run));
  if (const auto straggler = times.straggler()) {
    section.add(
        Paragraph{engine::describe(*straggler, run.ranks) + ".", Paragraph::Kind::kFinding});
  }
  section.add(phase_table(run));
  return section;
}

}  // namespace trainer::results

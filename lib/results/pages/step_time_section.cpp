#include "results/pages/step_time_section.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/formats/table.h"
#include "engine/step_times.h"
#include "results/page/page.h"

namespace trainer::results {
namespace {

using engine::RankTimes;
using engine::StepPhase;
using engine::StepTimes;

std::string format_milliseconds(double seconds) { return fixed(1e3 * seconds, 2); }

std::string rank_name(const RunFiles& run, std::size_t rank) {
  const bool has = rank < run.ranks.size() && !run.ranks[rank].empty();
  return has ? run.ranks[rank] : concat("rank ", rank);
}

// Returns the phases in which a rank has spent time.
std::vector<StepPhase> list_phases(const StepTimes& times) {
  std::vector<StepPhase> phases;
  for (const StepPhase phase : engine::kAllStepPhases) {
    if (times.spread(phase).max > 0) phases.push_back(phase);
  }
  return phases;
}

// Beside the others, not one after another with them.
bool is_in_bar(StepPhase phase) { return phase != StepPhase::kAllReduceHidden; }

std::string legend(const std::vector<StepPhase>& phases) {
  std::string text = "<ul class=\"legend\">";
  for (const StepPhase phase : phases) {
    if (!is_in_bar(phase)) continue;
    text += concat("<li><span class=\"swatch phase", static_cast<int>(phase), "\"></span>",
                   spell(phase), "</li>");
  }
  return text + "</ul>\n";
}

// Returns a bar whose length is the share of this step in the longest one. The table beside it has
// the numbers for screen readers.
std::string bar(const RankTimes& mean, double longest, const std::string& name) {
  std::string text =
      concat("<div class=\"steptime\"><span class=\"rank\">", escape_markup(name),
             "</span><div class=\"bar\" role=\"img\" aria-label=\"", escape_markup(name), ": ",
             format_milliseconds(mean.total()), " ms per step\">");
  for (const StepPhase phase : engine::kAllStepPhases) {
    if (!is_in_bar(phase) || mean[phase] <= 0) continue;
    text += concat("<span class=\"phase", static_cast<int>(phase),
                   "\" style=\"width:", fixed(100 * mean[phase] / longest, 3), "%\" title=\"",
                   spell(phase), ": ", format_milliseconds(mean[phase]), " ms, ",
                   percent(mean[phase] / mean.total()), "\"></span>");
  }
  return text + "</div></div>\n";
}

std::string numbers(const RunFiles& run, const std::vector<StepPhase>& phases) {
  Cells cells{{"rank"}};
  for (const StepPhase phase : phases) cells.front().emplace_back(spell(phase));
  cells.front().emplace_back("step");
  const auto add = [&](const std::string& name, const auto& value, double whole) {
    cells.push_back({name});
    for (const StepPhase phase : phases) cells.back().push_back(format_milliseconds(value(phase)));
    cells.back().push_back(format_milliseconds(whole));
  };
  for (std::size_t i = 0; i < run.step_times.ranks(); ++i) {
    const RankTimes mean = run.step_times.mean_times(i);
    add(
        rank_name(run, i), [&](StepPhase phase) { return mean[phase]; }, mean.total());
  }
  return table("Milliseconds of a step, the mean over the steps", cells, 1);
}

}  // namespace

std::string step_time_section(const RunFiles& run) {
  const StepTimes& times = run.step_times;
  if (times.empty()) return "";
  const std::vector<StepPhase> phases = list_phases(times);
  double longest = 0;
  for (std::size_t i = 0; i < times.ranks(); ++i) {
    longest = std::max(longest, times.mean_times(i).total());
  }
  if (longest <= 0) return "";
  std::string text = heading("Time of a step") + legend(phases);
  for (std::size_t i = 0; i < times.ranks(); ++i) {
    text += bar(times.mean_times(i), longest, rank_name(run, i));
  }
  if (const auto straggler = times.straggler()) {
    text += concat("<p class=\"finding\">", escape_markup(engine::describe(*straggler, run.ranks)),
                   ".</p>\n");
  }
  return text + numbers(run, phases);
}

}  // namespace trainer::results

#include "engine/step_times.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"

namespace trainer::engine {
namespace {

// A rank is a straggler if its own time exceeds that of the others by this factor and by this share
// of a step.
constexpr double kTimesOthers = 1.25;
constexpr double kShareOfStep = 0.05;
constexpr double kShown = 5e-6;  // seconds; less would be printed as 0.00 ms

double median_without(const std::vector<double>& values, std::size_t left_out) {
  std::vector<double> others = values;
  others.erase(others.begin() + left_out);
  return median(others);
}

bool is_beside_others(StepPhase phase) { return phase == StepPhase::kAllReduceHidden; }

}  // namespace

std::string column_name(StepPhase phase) {
  std::string name(spell(phase));
  std::ranges::replace_if(
      name, [](char letter) { return letter == ' ' || letter == '-'; }, '_');
  return name + "_seconds";
}

double RankTimes::total() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) -
         (*this)[StepPhase::kAllReduceHidden];
}

double RankTimes::own() const { return total() - (*this)[StepPhase::kAllReduce]; }

RankTimes rank_times(double step_seconds, double wait_seconds, const backend::PhaseTimes& device) {
  RankTimes times;
  times[StepPhase::kDataWait] = wait_seconds;
  times[StepPhase::kCopy] = device.copy;
  times[StepPhase::kForward] = device.forward;
  times[StepPhase::kBackward] = device.backward;
  times[StepPhase::kAllReduce] = device.all_reduce;
  times[StepPhase::kAllReduceHidden] = device.all_reduce_hidden;
  times[StepPhase::kUpdate] = device.update;
  times[StepPhase::kOther] = std::max(0.0, step_seconds - times.total());
  return times;
}

void StepTimes::add(std::span<const RankTimes> ranks, std::int64_t steps) {
  if (ranks.empty()) return;
  if (sums_.size() != ranks.size()) {
    sums_.assign(ranks.size(), {});
    steps_ = 0;
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (const StepPhase phase : kAllStepPhases) {
      sums_[i][phase] += ranks[i][phase] * static_cast<double>(steps);
    }
  }
  steps_ += steps;
}

void StepTimes::add(const StepTimes& other) {
  std::vector<RankTimes> means;
  for (std::size_t i = 0; i < other.ranks(); ++i) means.push_back(other.mean_times(i));
  add(means, other.steps_);
}

double StepTimes::share(StepPhase phase) const {
  double part = 0, whole = 0;
  for (const RankTimes& rank : sums_) {
    part += rank[phase];
    whole += rank.total();
  }
  return whole > 0 ? part / whole : 0;
}

RankTimes StepTimes::mean_times(std::size_t rank) const {
  RankTimes mean = sums_[rank];
  for (double& seconds : mean.seconds) seconds /= static_cast<double>(steps_);
  return mean;
}

StepTimes::Spread StepTimes::spread(StepPhase phase) const {
  if (empty()) return {};
  std::vector<double> values;
  for (std::size_t i = 0; i < ranks(); ++i) values.push_back(mean_times(i)[phase]);
  const auto [low, high] = std::ranges::minmax_element(values);
  return {*low, median(values), *high};
}

std::optional<Straggler> StepTimes::straggler() const {
  if (ranks() < 2 || empty()) return std::nullopt;
  std::vector<double> own;
  for (std::size_t i = 0; i < ranks(); ++i) own.push_back(mean_times(i).own());
  Straggler found;
  found.rank = static_cast<std::size_t>(std::ranges::max_element(own) - own.begin());
  found.seconds = own[found.rank];
  found.others = median_without(own, found.rank);
  const double lost = found.seconds - found.others;
  if (found.seconds < kTimesOthers * found.others ||
      lost < kShareOfStep * mean_times(found.rank).total()) {
    return std::nullopt;
  }
  double largest_excess = -1;
  for (const StepPhase phase : kAllStepPhases) {
    if (phase == StepPhase::kAllReduce || is_beside_others(phase)) continue;
    std::vector<double> values;
    for (std::size_t i = 0; i < ranks(); ++i) values.push_back(mean_times(i)[phase]);
    const double excess = values[found.rank] - median_without(values, found.rank);
    if (excess <= largest_excess) continue;
    largest_excess = excess;
    found.phase = phase;
  }
  return found;
}

std::string describe(const StepTimes& times) {
  const auto ms = [](double seconds) { return fixed(1e3 * seconds, seconds < 0.09995 ? 2 : 0); };
  std::string text;
  for (const StepPhase phase : kAllStepPhases) {
    const StepTimes::Spread spread = times.spread(phase);
    if (spread.max < kShown) continue;
    text += concat(text.empty() ? "" : ", ", spell(phase), " ", ms(spread.median));
    if (times.ranks() > 1) text += concat(" (", ms(spread.min), "-", ms(spread.max), ")");
  }
  return text + " ms";
}

std::string describe(const Straggler& straggler, const std::vector<std::string>& ranks) {
  const std::string name = straggler.rank < ranks.size()
                               ? ranks[straggler.rank]
                               : concat("rank ", static_cast<std::int64_t>(straggler.rank));
  return concat(
      "straggler: ", name, " takes ", fixed(1e3 * straggler.seconds, 2),
      " ms per step of its own, the others ", fixed(1e3 * straggler.others, 2), "; it loses most ",
      straggler.phase == StepPhase::kOther ? std::string("outside the phases that are timed")
                                           : concat("in ", spell(straggler.phase)));
}

}  // namespace trainer::engine

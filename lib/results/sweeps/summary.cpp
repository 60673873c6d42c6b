#include "results/sweeps/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "engine/metrics/metrics.h"

namespace trainer::results {
namespace {

// Shares and gains from which on a verdict speaks of them.
constexpr double kMuchWaiting = 0.2;
constexpr double kMuchLaunching = 0.2;
constexpr double kMuchUpdating = 0.3;
constexpr double kMuchReducing = 0.2;
constexpr double kScalesWell = 0.9;
constexpr double kLargerBatchGains = 1.15;

using engine::StepPhase;
using KeyValues = std::vector<std::pair<std::string, std::string>>;
using Runs = std::vector<const RunFiles*>;

bool counts_devices(const std::string& key) {
  return key == "parallel.gpus" || key == "parallel.replicas";
}

KeyValues without(const KeyValues& values, bool (*drop)(const std::string&)) {
  KeyValues rest;
  for (const auto& value : values) {
    if (!drop(value.first)) rest.push_back(value);
  }
  return rest;
}

template <class Value>
double mean(const Runs& runs, const Value& value) {
  double sum = 0;
  for (const RunFiles* run : runs) sum += value(*run);
  return sum / static_cast<double>(runs.size());
}

bool has_cached_features(const RunFiles* run) {
  return run->finished && run->finished->rates.cached.has_value();
}

// States which steps the throughput is about where features were cached, and which points computed
// the features.
std::string describe_cached_features(const std::vector<PointState>& points) {
  constexpr std::size_t kMaxNames = 3;
  bool any = false;
  std::vector<std::string> computing;
  for (const PointState& point : points) {
    if (!point.run || !point.run->finished) continue;
    any = any || has_cached_features(&*point.run);
    if (point.run->finished->rates.computing) computing.push_back(point.point.name);
  }
  if (!any) return "";
  const std::string text = "Images/s: steps with cached features, where a point has such steps";
  if (computing.empty()) return text + '.';
  return concat(text, "; the total time of ", join_first(computing, kMaxNames),
                " includes the computation of the features.");
}

double wait_share(const RunFiles& run) {
  const StepTotals steps = total_steps(run);
  return steps.seconds > 0 ? steps.wait_seconds / steps.seconds : 0;
}

// Returns the checkpoint whose metrics all points have: the last one if that is preferred, or if a
// run has no best checkpoint of the scored split, as a run of an older program.
CheckpointChoice choose_checkpoint(const Runs& runs, CheckpointChoice preferred) {
  if (preferred == CheckpointChoice::kLast) return preferred;
  const bool all_have_best = std::ranges::all_of(runs, [](const RunFiles* run) {
    const auto result = find_scored_result(*run, CheckpointChoice::kBest);
    return !result || result->checkpoint == CheckpointChoice::kBest;
  });
  return all_have_best ? CheckpointChoice::kBest : CheckpointChoice::kLast;
}

// States which split and checkpoint accuracy and loss are about.
std::string describe_result(const Runs& runs, CheckpointChoice checkpoint,
                            CheckpointChoice preferred) {
  const RunFiles* first = nullptr;
  std::int64_t results = 0, best = 0;
  for (const RunFiles* run : runs) {
    const auto result = find_scored_result(*run, CheckpointChoice::kBest);
    if (!result) continue;
    if (first == nullptr) first = run;
    ++results;
    best += result->checkpoint == CheckpointChoice::kBest ? 1 : 0;
  }
  if (first == nullptr) return "";
  const std::string split = to_string(*scored_split(*first));
  const std::string text =
      concat("Accuracy and loss: ", split, ", ", to_string(checkpoint), " checkpoints");
  if (checkpoint == CheckpointChoice::kBest) return concat(text, " (", first->best->metric, ").");
  if (best > 0 && preferred == CheckpointChoice::kLast) {
    return concat(text, ", by --last; ", best, " of ", results, " runs have a best one.");
  }
  if (best > 0) {
    return concat(text, ", because ", results - best, " of ", results,
                  " runs have no best checkpoint of ", split, '.');
  }
  return text + (first->best ? "; `trainer evaluate` takes the best one of a point." : ".");
}

std::optional<Estimate> estimate_accuracy(const Runs& runs, CheckpointChoice checkpoint) {
  std::vector<double> values;
  for (const RunFiles* run : runs) {
    const auto result = find_scored_result(*run, checkpoint);
    if (!result || !std::isfinite(result->metrics.accuracy)) return std::nullopt;
    values.push_back(result->metrics.accuracy);
  }
  Estimate accuracy = estimate_share(values);
  if (values.size() == 1) {
    const SplitResult only = find_scored_result(*runs.front(), checkpoint)->metrics;
    const engine::Interval interval = engine::wilson(only.correct, only.count);
    accuracy.low = interval.low;
    accuracy.high = interval.high;
  }
  return accuracy;
}

// The mean over the runs; nothing when one of them has none.
template <class Value>
std::optional<double> mean_of_all(const Runs& runs, const Value& value) {
  double sum = 0;
  for (const RunFiles* run : runs) {
    const std::optional<double> one = value(*run);
    if (!one) return std::nullopt;
    sum += *one;
  }
  return sum / static_cast<double>(runs.size());
}

void measure(SummaryRow& row, const Runs& runs, const Summary& summary) {
  row.replicas = runs.front()->replicas;
  row.global_batch = runs.front()->global_batch;
  row.images_per_second = mean(runs, images_per_second);
  row.samples = mean(runs, [](const RunFiles& run) { return total_steps(run).samples; });
  row.has_cached_features = std::ranges::any_of(runs, has_cached_features);
  row.total_seconds = mean(runs, [](const RunFiles& run) { return total_steps(run).seconds; });
  row.wait_share = mean(runs, wait_share);
  for (const RunFiles* run : runs) {
    row.step_times.add(run->step_times);
    if (!run->ranks.empty()) row.ranks = run->ranks;
  }
  if (row.step_times.ranks() > 1) {
    row.all_reduce_share = row.step_times.share(engine::StepPhase::kAllReduce);
  }
  row.straggler = row.step_times.straggler();
  row.wall_seconds = mean(runs, [](const RunFiles& run) { return run.wall_seconds; });
  row.peak_memory_bytes =
      mean(runs, [](const RunFiles& run) { return static_cast<double>(run.peak_memory_bytes); });
  row.loss = mean(runs, [&](const RunFiles& run) {
    const auto result = find_scored_result(run, summary.checkpoint);
    return result ? result->metrics.loss : std::nan("");
  });
  row.accuracy = estimate_accuracy(runs, summary.checkpoint);
  row.cost = mean_of_all(runs, [](const RunFiles& run) { return cost(run, run.wall_seconds); });
  row.energy_joules = mean_of_all(runs, [](const RunFiles& run) { return run.energy_joules; });
  row.joules_per_image =
      mean_of_all(runs, [](const RunFiles& run) { return run.joules_per_image; });
  if (!summary.wanted_accuracy) return;
  const auto time = [&](const RunFiles& run) {
    return seconds_to_accuracy(run, *summary.wanted_accuracy);
  };
  row.seconds_to_accuracy = mean_of_all(runs, time);
  row.cost_to_accuracy = mean_of_all(runs, [&](const RunFiles& run) {
    const std::optional<double> seconds = time(run);
    return seconds ? cost(run, *seconds) : std::nullopt;
  });
}

// Returns the row with the fewest replicas among the rows that differ from `row` at most in the
// number of devices.
const SummaryRow* find_baseline(const SummaryRow& row, const std::vector<SummaryRow>& rows) {
  const KeyValues mine = without(row.values, counts_devices);
  const SummaryRow* fewest = nullptr;
  for (const SummaryRow& other : rows) {
    if (other.runs == 0 || without(other.values, counts_devices) != mine) continue;
    if (fewest == nullptr || other.replicas < fewest->replicas) fewest = &other;
  }
  return fewest;
}

void compare_with_baseline(SummaryRow& row, const std::vector<SummaryRow>& rows) {
  const SummaryRow* base = find_baseline(row, rows);
  if (base == nullptr || base->replicas >= row.replicas || base->images_per_second <= 0) return;
  row.speed_up = row.images_per_second / base->images_per_second;
  row.efficiency =
      *row.speed_up * static_cast<double>(base->replicas) / static_cast<double>(row.replicas);
}

// The row of a larger batch on as many replicas, else of the same values, that is fastest.
const SummaryRow* larger_batch(const SummaryRow& row, const std::vector<SummaryRow>& rows) {
  const auto drop = [](const std::string& key) { return key == "train.batch_size"; };
  const SummaryRow* best = nullptr;
  for (const SummaryRow& other : rows) {
    if (other.runs == 0 || other.replicas != row.replicas ||
        other.global_batch <= row.global_batch ||
        without(other.values, drop) != without(row.values, drop)) {
      continue;
    }
    if (best == nullptr || other.images_per_second > best->images_per_second) best = &other;
  }
  return best;
}

std::string make_verdict(const SummaryRow& row, const std::vector<SummaryRow>& rows, bool on_cpu) {
  std::vector<std::string> found;
  if (row.wait_share >= kMuchWaiting) {
    found.push_back(concat("input: ", whole_percent(row.wait_share),
                           " of a step waits for data; raise data.threads or data.cache"));
  }
  if (row.straggler) found.push_back(engine::describe(*row.straggler, row.ranks));
  // If the device records its phases, the rest of a step is the host's. Steps with cached features
  // are so short that most of one is the host's.
  const bool has_phases = row.step_times.share(StepPhase::kForward) > 0;
  const double launching = row.step_times.share(StepPhase::kOther);
  if (has_phases && launching >= kMuchLaunching && !row.has_cached_features) {
    found.push_back(concat("launch: ", whole_percent(launching),
                           " of a step goes into starting the work and reading its results"));
  }
  const SummaryRow* larger = larger_batch(row, rows);
  if (larger != nullptr && larger->images_per_second >= kLargerBatchGains * row.images_per_second) {
    found.push_back(concat("batch too small: a global batch of ", larger->global_batch, " does ",
                           fixed(larger->images_per_second / row.images_per_second, 2),
                           "x the images/second"));
  } else if (const double updating = row.step_times.share(StepPhase::kUpdate);
             updating >= kMuchUpdating) {
    found.push_back(concat("batch too small: ", whole_percent(updating),
                           " of a step is the update, which takes as long for a larger one"));
  }
  if (row.efficiency) {
    const std::string gain = concat(row.replicas, " replicas gain ", fixed(*row.speed_up, 2), "x");
    const double share = row.all_reduce_share.value_or(0);
    if (*row.efficiency >= kScalesWell) {
      found.push_back("scales: " + gain);
    } else if (share >= kMuchReducing && !row.straggler) {
      found.push_back(concat(gain, ": ", whole_percent(share), " of a step is all-reduce"));
    } else {
      found.push_back(gain + (on_cpu ? ": they share this machine's cores" : ""));
    }
  }
  return found.empty() ? "compute: the step itself takes the time" : join(found, "; ");
}

std::string describe_missing(const std::vector<const PointState*>& points) {
  std::vector<std::string> lines;
  for (const PointState* point : points) {
    if (point->is_done()) continue;
    lines.push_back(
        concat(to_string(point->kind), point->has_failed() ? ": " + point->message : ""));
  }
  std::ranges::sort(lines);
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return join(lines, "; ");
}

// Returns the best of the rows that reach the wanted accuracy; nothing if none does.
std::optional<BestToAccuracy> find_best_to_accuracy(const std::vector<SummaryRow>& rows) {
  std::vector<std::size_t> reaching;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].runs > 0 && rows[i].seconds_to_accuracy) reaching.push_back(i);
  }
  if (reaching.empty()) return std::nullopt;
  const bool by_cost = std::ranges::all_of(
      reaching, [&](std::size_t i) { return rows[i].cost_to_accuracy.has_value(); });
  const auto need = [&](std::size_t i) {
    return by_cost ? *rows[i].cost_to_accuracy : *rows[i].seconds_to_accuracy;
  };
  return BestToAccuracy{*std::ranges::min_element(reaching, {}, need), by_cost};
}

// What a row or a point is ranked by: not a number where it is unknown.
struct Score {
  double accuracy = std::nan(""), loss = std::nan("");
};

// Returns the indices of the scores, the best first: by accuracy, of equal ones by loss. If none
// has an accuracy, the loss alone decides.
std::vector<std::size_t> rank_scores(const std::vector<Score>& scores) {
  const bool has_accuracy =
      std::ranges::any_of(scores, [](const Score& score) { return std::isfinite(score.accuracy); });
  const auto finite = [](double value) { return std::isfinite(value) ? value : INFINITY; };
  const auto cost = [&](std::size_t i) {
    return std::pair(has_accuracy ? finite(-scores[i].accuracy) : 0, finite(scores[i].loss));
  };
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return cost(a) < cost(b); });
  return order;
}

// A row for each combination of values, and its points.
std::vector<std::vector<const PointState*>> group_by_values(Summary& summary) {
  const auto is_seed = [](const std::string& key) { return key == "seed"; };
  std::vector<std::vector<const PointState*>> groups;
  for (const PointState& point : summary.points) {
    const KeyValues values = without(point.point.values, is_seed);
    auto row = std::ranges::find(summary.rows, values, &SummaryRow::values);
    if (row == summary.rows.end()) {
      row = summary.rows.insert(row, SummaryRow());
      row->values = values;
      groups.emplace_back();
    }
    groups[row - summary.rows.begin()].push_back(&point);
  }
  return groups;
}

}  // namespace

Summary summarize(const SweepPlan& plan, std::vector<PointState> points,
                  std::optional<double> wanted_accuracy, CheckpointChoice preferred) {
  Summary summary;
  summary.name = plan.name;
  summary.points = std::move(points);
  summary.wanted_accuracy = wanted_accuracy;
  for (const Axis& axis : plan.axes) {
    if (axis.key == "seed") continue;
    summary.keys.push_back(axis.key);
    summary.short_names.push_back(short_name(axis.key, plan.axes));
  }
  const auto groups = group_by_values(summary);
  Runs all;
  for (const PointState& point : summary.points) {
    if (point.run) all.push_back(&*point.run);
  }
  summary.checkpoint = choose_checkpoint(all, preferred);
  summary.scored = describe_result(all, summary.checkpoint, preferred);
  summary.cached = describe_cached_features(summary.points);
  bool on_cpu = true;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Runs runs;
    for (const PointState* point : groups[i]) {
      if (point->run) runs.push_back(&*point->run);
      on_cpu = on_cpu && (!point->run || point->run->on_cpu);
    }
    SummaryRow& row = summary.rows[i];
    row.runs = std::ssize(runs);
    row.missing = static_cast<std::int64_t>(groups[i].size() - runs.size());
    if (!runs.empty()) measure(row, runs, summary);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    SummaryRow& row = summary.rows[i];
    if (row.runs > 0) compare_with_baseline(row, summary.rows);
    const std::string missing = describe_missing(groups[i]);
    row.verdict = row.runs > 0 ? make_verdict(row, summary.rows, on_cpu) : "";
    if (!missing.empty()) row.verdict += (row.verdict.empty() ? "" : "; ") + missing;
  }
  if (wanted_accuracy) summary.best_to_accuracy = find_best_to_accuracy(summary.rows);
  return summary;
}

std::string whole_percent(double share) { return fixed(100 * share, 0) + " %"; }

std::string make_label(const Summary& summary, const SummaryRow& row) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    words.push_back(summary.short_names[i] + "=" + row.values[i].second);
  }
  return words.empty() ? summary.name : join(words, " ");
}

std::vector<std::size_t> rank_rows(const Summary& summary) {
  std::vector<Score> scores;
  for (const SummaryRow& row : summary.rows) {
    Score& score = scores.emplace_back();
    if (row.runs == 0) continue;
    score.loss = row.loss;
    if (row.accuracy) score.accuracy = row.accuracy->mean;
  }
  return rank_scores(scores);
}

std::optional<ScoredResult> find_scored_result(const Summary& summary, const PointState& point) {
  if (!point.run) return std::nullopt;
  return find_scored_result(*point.run, summary.checkpoint);
}

std::vector<std::size_t> rank_points(const Summary& summary) {
  std::vector<Score> scores;
  for (const PointState& point : summary.points) {
    Score& score = scores.emplace_back();
    const auto result = find_scored_result(summary, point);
    if (result) score = {result->metrics.accuracy, result->metrics.loss};
  }
  return rank_scores(scores);
}

std::string best_sentence(const Summary& summary) {
  if (summary.rows.size() < 2) return "";
  const SummaryRow& best = summary.rows[rank_rows(summary).front()];
  if (best.runs == 0) return "";
  const std::string name = "Best: " + make_label(summary, best);
  if (!best.accuracy) {
    return std::isfinite(best.loss) ? concat(name, ", loss ", fixed(best.loss, 4), ".") : "";
  }
  const Estimate& accuracy = *best.accuracy;
  const auto rivals = std::ranges::count_if(summary.rows, [&](const SummaryRow& row) {
    return &row != &best && row.runs > 0 && row.accuracy && row.accuracy->high >= accuracy.mean;
  });
  std::string text = concat(name, ", accuracy ", percent(accuracy.mean), " (95 % interval ",
                            percent(accuracy.low), " to ", percent(accuracy.high), ")");
  if (rivals > 0) {
    text += concat("; this accuracy lies in the interval of ", counted(rivals, "other combination"),
                   ", too");
  }
  return text + '.';
}

std::string accuracy_sentence(const Summary& summary) {
  if (!summary.wanted_accuracy) return "";
  const std::string wanted = percent(*summary.wanted_accuracy);
  if (!summary.best_to_accuracy) return "No point reaches an accuracy of " + wanted + ".";
  const SummaryRow& row = summary.rows[summary.best_to_accuracy->row];
  const bool has_prices = std::ranges::any_of(
      summary.rows, [](const SummaryRow& each) { return each.cost_to_accuracy.has_value(); });
  const std::string price = summary.best_to_accuracy->by_cost
                                ? concat("cheapest: ", fixed(*row.cost_to_accuracy, 4))
                            : has_prices ? "fastest (some points have no run.price_per_hour)"
                                         : "fastest (run.price_per_hour is not set)";
  return concat(make_label(summary, row), " reaches an accuracy of ", wanted, ' ', price, ", in ",
                fixed(*row.seconds_to_accuracy, 1), " s.");
}

}  // namespace trainer::results

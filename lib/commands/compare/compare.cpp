#include "commands/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "commands/compare/diff.h"
#include "inference/open_model/source.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

constexpr std::size_t kMaxCurveSteps = 10;  // rows per curve

// Returns true for a setting that is a place and not a property of a run.
bool is_place(const std::string& key) { return key == "run.dir" || key == "host"; }

// Returns at most kMaxCurveSteps of the steps, evenly spaced, the last one among them.
std::vector<std::int64_t> thin_out(const std::vector<std::int64_t>& steps) {
  if (steps.size() <= kMaxCurveSteps) return steps;
  std::vector<std::int64_t> some;
  for (std::size_t i = 1; i <= kMaxCurveSteps; ++i) {
    some.push_back(steps[i * steps.size() / kMaxCurveSteps - 1]);
  }
  return some;
}

using Curve = std::map<std::int64_t, double>;  // by step

Curve read_curve(const results::RunFiles& run, Split split, double results::MetricsRow::*value) {
  Curve curve;
  for (const results::MetricsRow& row : run.metrics) {
    if (row.split == split && std::isfinite(row.*value)) curve[row.step] = row.*value;
  }
  return curve;
}

void add_curve(const std::vector<results::RunFiles>& runs, Split split, const char* name,
               double results::MetricsRow::*value, std::vector<Comparison::CurvePoint>& points) {
  std::vector<Curve> curves;
  for (const results::RunFiles& run : runs) curves.push_back(read_curve(run, split, value));
  std::vector<std::int64_t> common;
  for (const auto& [step, number] : curves.front()) {
    const bool all =
        std::ranges::all_of(curves, [s = step](const Curve& curve) { return curve.contains(s); });
    if (all) common.push_back(step);
  }
  for (const std::int64_t step : thin_out(common)) {
    Comparison::CurvePoint point{step, concat(to_string(split), ' ', name), {}};
    for (const Curve& curve : curves) point.values.push_back(curve.at(step));
    points.push_back(std::move(point));
  }
}

Comparison::Result make_result(const results::RunFiles& run, results::CheckpointChoice preferred,
                               std::optional<double> wanted) {
  Comparison::Result result;
  result.loss = result.accuracy = std::numeric_limits<double>::quiet_NaN();
  if (const auto scored = results::find_scored_result(run, preferred)) {
    result.split = scored->split;
    result.checkpoint = scored->checkpoint;
    result.loss = scored->metrics.loss;
    result.accuracy = scored->metrics.accuracy;
    if (std::isfinite(result.accuracy)) {
      result.interval = engine::wilson(scored->metrics.correct, scored->metrics.count);
    }
  }
  result.images_per_second = results::images_per_second(run);
  if (run.finished) result.computing_features_rate = run.finished->rates.computing;
  result.total_seconds = results::total_steps(run).seconds;
  result.wall_seconds = run.wall_seconds;
  result.cost = results::cost(run, run.wall_seconds);
  if (wanted) result.seconds_to_accuracy = results::seconds_to_accuracy(run, *wanted);
  if (result.seconds_to_accuracy) {
    result.cost_to_accuracy = results::cost(run, *result.seconds_to_accuracy);
  }
  return result;
}

void compare_pairs(const std::vector<results::RunFiles>& runs, const PredictRun& predict,
                   Comparison& comparison) {
  std::vector<std::optional<Predictions>> predictions;
  for (const results::RunFiles& run : runs) {
    RunPredictions made = predict(run.folder);
    predictions.push_back(std::move(made.predictions));
    if (predictions.back()) continue;
    comparison.notes.push_back(
        concat(run.folder.string(), " has no part in McNemar's test: ", made.reason));
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t j = i + 1; j < runs.size(); ++j) {
      if (!predictions[i] || !predictions[j]) continue;
      if (const auto result = compare_predictions(*predictions[i], *predictions[j])) {
        comparison.pairs.push_back({i, j, *result});
      } else {
        comparison.notes.push_back(concat("the predictions of ", comparison.runs[i], " and ",
                                          comparison.runs[j],
                                          " are of other samples: they cannot be paired"));
      }
    }
  }
}

// Adds a note for each run whose results in the table are of another checkpoint than its
// predictions.
void add_checkpoint_notes(const std::vector<results::RunFiles>& runs, Comparison& comparison) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Comparison::Result& result = comparison.results[i];
    const bool has_pair = std::ranges::any_of(comparison.pairs, [i](const Comparison::Pair& pair) {
      return pair.first == i || pair.second == i;
    });
    const bool is_other = runs[i].best && !runs[i].best->restored && runs[i].finished &&
                          runs[i].best->step != runs[i].finished->steps;
    if (!has_pair || !is_other || !result.split ||
        result.checkpoint == results::CheckpointChoice::kBest) {
      continue;
    }
    comparison.notes.push_back(
        concat(comparison.runs[i], ": the table has the results of its last checkpoint, because ",
               "training did not evaluate its best one on the ", to_string(*result.split),
               " split; McNemar's test is of the best one (--last: of the last one)"));
  }
}

std::vector<results::RunFiles> read_runs(const std::vector<std::string>& folders) {
  std::vector<results::RunFiles> runs;
  for (const std::string& folder : folders) {
    inference::check_is_run(folder);
    runs.push_back(results::read_run(folder));
  }
  return runs;
}

}  // namespace

// Values by key, in the order of the first run that has the key.
std::vector<Comparison::Setting> differing_settings(const std::vector<results::RunFiles>& runs) {
  std::vector<Comparison::Setting> settings;
  std::map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto values = runs[i].config;
    values.insert(values.end(), runs[i].origin.begin(), runs[i].origin.end());
    for (const auto& [key, value] : values) {
      const auto [found, is_new] = place.try_emplace(key, settings.size());
      if (is_new) settings.push_back({key, std::vector<std::string>(runs.size(), "absent")});
      settings[found->second].second[i] = value;
    }
  }
  std::erase_if(settings, [](const Comparison::Setting& setting) {
    const auto& values = setting.second;
    const bool same = std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end();
    return same || is_place(setting.first);
  });
  return settings;
}

Comparison compare(const std::vector<results::RunFiles>& runs, results::CheckpointChoice preferred,
                   std::optional<double> wanted_accuracy, const PredictRun& predict) {
  Comparison comparison;
  comparison.wanted_accuracy = wanted_accuracy;
  for (const results::RunFiles& run : runs) comparison.runs.push_back(run.folder.string());
  comparison.settings = differing_settings(runs);
  add_curve(runs, Split::kTrain, "loss", &results::MetricsRow::loss, comparison.curve);
  for (const Split split : {Split::kValidation, Split::kTest}) {
    add_curve(runs, split, "loss", &results::MetricsRow::loss, comparison.curve);
    add_curve(runs, split, "accuracy", &results::MetricsRow::accuracy, comparison.curve);
  }
  for (const results::RunFiles& run : runs) {
    comparison.results.push_back(make_result(run, preferred, wanted_accuracy));
  }
  compare_pairs(runs, predict, comparison);
  if (preferred == results::CheckpointChoice::kBest) add_checkpoint_notes(runs, comparison);
  return comparison;
}

int execute(const CompareArguments& arguments, const Context& context) {
  const std::vector<results::RunFiles> runs = read_runs(arguments.runs);
  const auto checkpoint =
      arguments.last ? results::CheckpointChoice::kLast : results::CheckpointChoice::kBest;
  const Comparison comparison =
      compare(runs, checkpoint, arguments.to_accuracy, [&](const Path& run) {
        return predict_run(run, checkpoint, arguments.seconds,
                           {{}, context.environment, context.warn});
      });
  (arguments.json ? results::print_json<Comparison> : print_comparison)(comparison, context.out);
  return kExitOk;
}

int execute(const DiffArguments& arguments, const Context& context) {
  const std::vector<results::RunFiles> runs = read_runs(arguments.runs);
  const RunDiff found = diff(runs[0], runs[1]);
  (arguments.json ? results::print_json<RunDiff> : print_diff)(found, context.out);
  return found.step ? kExitCheck : kExitOk;
}

}  // namespace trainer::commands

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "commands/compare/compare.h"

namespace trainer::commands {

using results::kSeconds;
using results::kShare;
using results::kSteps;

namespace {

// "A", "B", ...: short names of the runs in tables.
std::string letter(std::size_t run) {
  std::string name;
  for (std::size_t n = run + 1; n > 0; n = (n - 1) / 26) {
    name.insert(name.begin(), static_cast<char>('A' + (n - 1) % 26));
  }
  return name;
}

std::vector<std::string> heading(const Comparison& comparison, std::vector<std::string> first) {
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) first.push_back(letter(i));
  return first;
}

void print_settings(const Comparison& comparison, std::ostream& out) {
  if (comparison.settings.empty()) {
    out << "\nall values of the configs are the same\n";
    return;
  }
  Table table(heading(comparison, {"differs"}));
  for (const auto& [key, values] : comparison.settings) {
    std::vector<std::string> row{key};
    row.insert(row.end(), values.begin(), values.end());
    table.add(std::move(row));
  }
  out << '\n';
  table.print(out);
}

void print_curve(const Comparison& comparison, std::ostream& out) {
  if (comparison.curve.empty()) {
    out << "\nno step has metrics of all runs\n";
    return;
  }
  Table table(heading(comparison, {"metric", "step"}), NumbersFrom{1});
  for (const Comparison::CurvePoint& point : comparison.curve) {
    std::vector<std::string> row{point.metric, std::to_string(point.step)};
    for (const double value : point.values) row.push_back(fixed(value, 4));
    table.add(std::move(row));
  }
  out << '\n';
  table.print(out);
}

void print_results(const Comparison& comparison, std::ostream& out) {
  Table table(heading(comparison, {"result"}));
  const auto add = [&](const std::string& name, const auto& cell) {
    std::vector<std::string> row{name};
    for (const Comparison::Result& result : comparison.results) row.push_back(cell(result));
    table.add(std::move(row));
  };
  using Result = Comparison::Result;
  add("split", [](const Result& r) { return r.split ? to_string(*r.split) : "-"; });
  add("checkpoint", [](const Result& r) { return r.split ? to_string(r.checkpoint) : "-"; });
  add("loss", [](const Result& r) { return fixed_or_dash(r.loss, 4); });
  add("accuracy", [](const Result& r) { return fixed_or_dash(r.accuracy, 4); });
  add("95 % interval", [](const Result& r) {
    if (!std::isfinite(r.accuracy)) return std::string("-");
    return fixed(r.interval.low, 4) + "-" + fixed(r.interval.high, 4);
  });
  add("images/second", [](const Result& r) { return fixed(r.images_per_second, 1); });
  if (std::ranges::any_of(comparison.results,
                          [](const Result& r) { return r.computing_features_rate.has_value(); })) {
    add("images/second, features computed",
        [](const Result& r) { return fixed_or_dash(r.computing_features_rate, 1); });
  }
  add("total time, s", [](const Result& r) { return fixed(r.total_seconds, 2); });
  add("wall time, s", [](const Result& r) { return fixed(r.wall_seconds, 2); });
  add("cost", [](const Result& r) { return fixed_or_dash(r.cost, 4); });
  if (comparison.wanted_accuracy) {
    const std::string wanted = " to " + percent(*comparison.wanted_accuracy);
    add("time" + wanted + ", s",
        [](const Result& r) { return fixed_or_dash(r.seconds_to_accuracy, 2); });
    add("cost" + wanted, [](const Result& r) { return fixed_or_dash(r.cost_to_accuracy, 4); });
  }
  out << '\n';
  table.print(out);
}

// Small probabilities with their magnitude.
std::string probability(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 0.001 ? "%.1e" : "%.3f", value);
  return text;
}

void print_pair(const Comparison::Pair& pair, std::ostream& out) {
  const std::string first = letter(pair.first), second = letter(pair.second);
  const PairedResult& r = pair.result;
  out << "McNemar " << first << " against " << second << ": " << r.only_first
      << " samples right by " << first << " alone, " << r.only_second << " by " << second
      << " alone, " << r.both_right << " by both, " << r.both_wrong
      << " by none; p = " << probability(r.probability)
      << (r.probability < 0.05 ? ": they differ" : ": no difference shown") << '\n';
}

}  // namespace

void print_comparison(const Comparison& comparison, std::ostream& out) {
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    out << letter(i) << "  " << printable(comparison.runs[i]) << '\n';
  }
  print_settings(comparison, out);
  print_curve(comparison, out);
  print_results(comparison, out);
  if (!comparison.pairs.empty() || !comparison.notes.empty()) out << '\n';
  for (const Comparison::Pair& pair : comparison.pairs) print_pair(pair, out);
  for (const std::string& note : comparison.notes) out << note << '\n';
}

void fields(results::FieldVisitor& v, Comparison::CurvePoint& point) {
  v("metric", point.metric, "Split and metric.");
  v("step", point.step, kSteps, "A step at which all runs have the metric.");
  v("values", point.values, "The metric of each run.");
}

void fields(results::FieldVisitor& v, Comparison::Result& result) {
  const bool is_evaluated = result.split.has_value();
  v.derived("split", std::string(is_evaluated ? to_string(*result.split) : ""),
            "The split of loss and accuracy; empty for a run that was not evaluated.");
  v.derived("checkpoint", std::string(is_evaluated ? to_string(result.checkpoint) : ""),
            "The checkpoint of loss and accuracy: best or last.");
  v("loss", result.loss, "Mean loss of the split.");
  v("accuracy", result.accuracy, kShare, "Accuracy on the split.");
  std::optional<double> low, high;
  if (std::isfinite(result.accuracy)) low = result.interval.low, high = result.interval.high;
  v.when_present("accuracy_low", low, kShare, "Lower end of Wilson's 95 % interval.");
  v.when_present("accuracy_high", high, kShare, "Upper end of Wilson's 95 % interval.");
  v("images_per_second", result.images_per_second, {"images/s", 0}, "Throughput.");
  v("images_per_second_computing_features", result.computing_features_rate, {"images/s", 0},
    "Throughput of the steps that computed features of frozen layers.");
  v("total_seconds", result.total_seconds, kSeconds, "Time of all steps.");
  v("wall_seconds", result.wall_seconds, kSeconds, "Time of all sessions.");
  v("cost", result.cost, "Cost of the run by run.price_per_hour.");
  v("seconds_to_accuracy", result.seconds_to_accuracy, kSeconds,
    "Time to the accuracy of --to-accuracy.");
  v("cost_to_accuracy", result.cost_to_accuracy, "Cost of that time.");
}

void fields(results::FieldVisitor& v, Comparison::Pair& pair) {
  PairedResult& result = pair.result;
  v("first", pair.first, "Index of the first run.");
  v("second", pair.second, "Index of the second run.");
  v("both_right", result.both_right, results::kSamples, "Samples that both runs predict right.");
  v("only_first", result.only_first, results::kSamples,
    "Samples that the first alone predicts right.");
  v("only_second", result.only_second, results::kSamples,
    "Samples that the second alone predicts right.");
  v("both_wrong", result.both_wrong, results::kSamples, "Samples that both runs predict wrong.");
  v("p", result.probability, kShare, "The p-value of McNemar's exact test.");
}

void fields(results::FieldVisitor& v, Comparison& comparison) {
  v.event("compared");
  v("runs", comparison.runs, "The runs, as the user named them.");
  v("settings", comparison.settings, "The values of each run, by key, where they differ.");
  v("curve", comparison.curve, "Metrics at the steps at which all runs have them.");
  v("results", comparison.results, "The result of each run.");
  v("mcnemar", comparison.pairs, "Comparisons of predictions for the same samples.");
  v("notes", comparison.notes, "What could not be compared, and why.");
}

}  // namespace trainer::commands

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "commands/compare/compare.h"

namespace trainer::commands {
namespace {

using Json = nlohmann::ordered_json;

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
  for (const Comparison::Setting& setting : comparison.settings) {
    std::vector<std::string> row{setting.key};
    row.insert(row.end(), setting.values.begin(), setting.values.end());
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
  std::vector<std::size_t> right{1};
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) right.push_back(i + 2);
  Table table(heading(comparison, {"metric", "step"}), right);
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

Json number(std::optional<double> value) { return value ? Json(*value) : Json(); }

Json result_json(const Comparison::Result& result) {
  Json json{{"split", result.split ? to_string(*result.split) : ""},
            {"checkpoint", result.split ? to_string(result.checkpoint) : ""},
            {"loss", result.loss},
            {"accuracy", result.accuracy}};
  if (std::isfinite(result.accuracy)) {
    json["accuracy_low"] = result.interval.low;
    json["accuracy_high"] = result.interval.high;
  }
  json["images_per_second"] = result.images_per_second;
  json["images_per_second_computing_features"] = number(result.computing_features_rate);
  json["total_seconds"] = result.total_seconds;
  json["wall_seconds"] = result.wall_seconds;
  json["cost"] = number(result.cost);
  json["seconds_to_accuracy"] = number(result.seconds_to_accuracy);
  json["cost_to_accuracy"] = number(result.cost_to_accuracy);
  return json;
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

void print_comparison_json(const Comparison& comparison, std::ostream& out) {
  Json json{{"event", "compared"}, {"runs", comparison.runs}};
  json["settings"] = Json::object();
  for (const auto& setting : comparison.settings) json["settings"][setting.key] = setting.values;
  json["curve"] = Json::array();
  for (const auto& point : comparison.curve) {
    json["curve"].push_back(
        {{"metric", point.metric}, {"step", point.step}, {"values", point.values}});
  }
  json["results"] = Json::array();
  for (const auto& result : comparison.results) json["results"].push_back(result_json(result));
  json["mcnemar"] = Json::array();
  for (const auto& pair : comparison.pairs) {
    json["mcnemar"].push_back({{"first", pair.first},
                               {"second", pair.second},
                               {"both_right", pair.result.both_right},
                               {"only_first", pair.result.only_first},
                               {"only_second", pair.result.only_second},
                               {"both_wrong", pair.result.both_wrong},
                               {"p", pair.result.probability}});
  }
  json["notes"] = comparison.notes;
  write_event(out, json);
}

}  // namespace trainer::commands

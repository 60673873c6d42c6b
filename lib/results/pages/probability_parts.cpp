#include "results/pages/probability_parts.h"

#include <algorithm>
#include <stdexcept>

#include "base/formats/json_number.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "results/page/page.h"

namespace trainer::results {
namespace {

using PartJson = nlohmann::ordered_json;

// Returns the accuracy of each bin over its mean confidence.
Series reliability_series(const char* name, const PartJson& measured) {
  Series series{name, {}};
  for (const PartJson& bin : member(measured, "bins")) {
    const double samples = read_member<double>(bin, "samples");
    if (samples <= 0) continue;
    series.points.emplace_back(read_member<double>(bin, "confidence"),
                               read_member<double>(bin, "correct") / samples);
  }
  return series;
}

std::string calibration_error_text(const PartJson& measured) {
  return concat(fixed(read_member<double>(measured, "expected_calibration_error"), 4), " (",
                fixed(read_member<double>(measured, "expected_calibration_error_low"), 4), " to ",
                fixed(read_member<double>(measured, "expected_calibration_error_high"), 4), ")");
}

// The classes of the smallest areas below their ROC curve, as many as a chart has colours.
std::vector<const PartJson*> hardest_classes(const PartJson& json) {
  constexpr std::size_t kMaxCurves = 6;
  std::vector<const PartJson*> classes;
  for (const PartJson& one : member(json, "classes")) classes.push_back(&one);
  std::ranges::stable_sort(classes, [](const PartJson* a, const PartJson* b) {
    return read_member<double>(*a, "roc_auc") < read_member<double>(*b, "roc_auc");
  });
  if (classes.size() > kMaxCurves) classes.resize(kMaxCurves);
  return classes;
}

Series curve_series(const PartJson& of_class, const char* curve, const char* x, const char* y) {
  Series series{read_member<std::string>(of_class, "class"), {}};
  for (const PartJson& point : member(of_class, curve)) {
    series.points.emplace_back(read_member<double>(point, x), read_member<double>(point, y));
  }
  return series;
}

std::string rate_cell(const PartJson& counts, const char* rate) {
  const std::string name = rate;
  if (member(counts, name).is_null()) return "-";
  return concat(percent(read_member<double>(counts, name)), " (",
                percent(read_member<double>(counts, name + "_low")), " to ",
                percent(read_member<double>(counts, name + "_high")), ")");
}

}  // namespace

std::string contradiction_part(const PartJson& json) {
  if (!json.contains("contradiction")) return "";
  const auto sentence = read_member<std::string>(json, "contradiction");
  return sentence.empty()
             ? ""
             : concat("<p><b>Warning:</b> ", escape_markup(printable(sentence)), ".</p>\n");
}

std::int64_t read_stored_count(const PartJson& json, const char* key) {
  const std::optional<std::int64_t> count = whole_number(member(json, key));
  if (!count) throw std::range_error(concat(key, " is not a whole number"));
  return *count;
}

std::vector<Chart> calibration_charts(const PartJson& json) {
  Series ideal{"ideal", {{0, 0}, {1, 1}}, true};
  return {{"reliability",
           "Reliability",
           "confidence (mean of a bin)",
           "accuracy (share of samples)",
           {reliability_series("before", member(json, "before")),
            reliability_series("after", member(json, "after")), std::move(ideal)},
           true}};
}

std::string calibration_table(const PartJson& json) {
  const PartJson &before = member(json, "before"), &after = member(json, "after");
  const auto number = [](const PartJson& measured, const char* key) {
    return fixed(read_member<double>(measured, key), 4);
  };
  constexpr const char* kLoss = "negative_log_likelihood";
  const double accuracy =
      read_member<double>(json, "correct") / read_member<double>(json, "samples");
  return contradiction_part(json) +
         table("Before and after the temperature",
               {{"measure", "before", "after"},
                {"negative log-likelihood", number(before, kLoss), number(after, kLoss)},
                {"expected calibration error (95 % interval)", calibration_error_text(before),
                 calibration_error_text(after)},
                {"mean confidence", percent(read_member<double>(before, "confidence")),
                 percent(read_member<double>(after, "confidence"))},
                {"accuracy", percent(accuracy), percent(accuracy)}},
               1);
}

std::vector<Chart> curve_charts(const PartJson& json) {
  Chart roc{
      "roc", "ROC", "1 - specificity (false positive rate)", "sensitivity (true positive rate)",
      {},    true};
  Chart precision{"precision-recall", "Precision and recall", "recall", "precision", {}, true};
  for (const PartJson* one : hardest_classes(json)) {
    roc.series.push_back(curve_series(*one, "roc", "false_positive_rate", "true_positive_rate"));
    precision.series.push_back(curve_series(*one, "precision_recall", "recall", "precision"));
  }
  roc.series.push_back({"chance", {{0, 0}, {1, 1}}, true});
  return {std::move(roc), std::move(precision)};
}

std::string areas_table(const PartJson& json) {
  Cells cells{{"class", "ROC AUC", "95 % interval (DeLong)", "average precision", "positives",
               "negatives"}};
  for (const PartJson& one : member(json, "classes")) {
    const PartJson& low = member(one, "roc_auc_low");
    cells.push_back({read_member<std::string>(one, "class"),
                     fixed(read_member<double>(one, "roc_auc"), 4),
                     low.is_number() ? concat(fixed(low.get<double>(), 4), " to ",
                                              fixed(read_member<double>(one, "roc_auc_high"), 4))
                                     : "-",
                     fixed(read_member<double>(one, "average_precision"), 4),
                     grouped(read_stored_count(one, "positives")),
                     grouped(read_stored_count(one, "negatives"))});
  }
  return table("Areas of the curves", cells, 1);
}

std::string describe_threshold_part(const PartJson& json, std::optional<double> temperature) {
  const PartJson& odds = member(json, "log_odds");
  const std::string point =
      concat("Operating point ", escape_markup(read_member<std::string>(json, "criterion")), ": ");
  const std::string name = escape_markup(read_member<std::string>(json, "positive_class"));
  if (odds.is_null()) return concat(point, "no sample is called ", name);
  const double probability = sigmoid(odds.get<double>() / temperature.value_or(1));
  return concat(
      point, name, " from a probability of ", fixed(probability, 4), " on (",
      temperature ? concat("at the temperature ", fixed(*temperature, 4)) : "without a temperature",
      ")");
}

std::string operating_table(const std::vector<std::pair<std::string, const PartJson*>>& rows) {
  Cells cells{{"split", "sensitivity (95 % interval)", "specificity (95 % interval)",
               "false negatives", "false positives"}};
  for (const auto& [samples, counts] : rows) {
    cells.push_back({samples, rate_cell(*counts, "sensitivity"), rate_cell(*counts, "specificity"),
                     grouped(read_stored_count(*counts, "false_negatives")),
                     grouped(read_stored_count(*counts, "false_positives"))});
  }
  return table("Operating point", cells, 1);
}

std::string costs_tables(const PartJson& json) {
  constexpr std::size_t kMaxClasses = 20;
  const auto classes = read_member<std::vector<std::string>>(json, "classes");
  const PartJson& costs = member(json, "costs");
  Cells matrix{{"true class \\ decided class"}};
  for (const std::string& name : classes) matrix.front().push_back(name);
  if (costs.size() != classes.size()) throw std::range_error("costs is not a row per class");
  for (std::size_t row = 0; row < classes.size(); ++row) {
    matrix.push_back({classes[row]});
    for (const PartJson& cost : costs.at(row)) {
      if (!cost.is_number()) throw std::range_error("costs holds something that is not a number");
      matrix.back().push_back(concat(cost.get<double>()));
    }
  }
  Cells means{{"decision", "mean cost", "accuracy"}};
  const auto add = [&](const char* name, const PartJson& decisions) {
    means.push_back({name, fixed(read_member<double>(decisions, "cost"), 4),
                     percent(read_member<double>(decisions, "accuracy"))});
  };
  add("the likeliest class", member(json, "likeliest"));
  add("the class of the least expected cost", member(json, "least_cost"));
  return contradiction_part(json) +
         (classes.size() <= kMaxClasses ? table("Costs", matrix, 1) : "") +
         table("Cost of the decisions", means, 1);
}

std::string abstention_table(const std::vector<std::pair<std::string, const PartJson*>>& rows) {
  Cells cells{{"split", "samples with a class", "error of these (95 % interval)"}};
  for (const auto& [samples, answers] : rows) {
    const std::int64_t answered = read_stored_count(*answers, "answered");
    cells.push_back(
        {samples,
         concat(percent(read_member<double>(*answers, "coverage")), " (", grouped(answered), " of ",
                grouped(read_stored_count(*answers, "samples")), ")"),
         answered == 0 ? "-" : rate_cell(*answers, "error")});
  }
  return table("Abstention", cells, 1);
}

std::string thresholds_table(const PartJson& json) {
  Cells cells{{"label", "probability above which it is predicted"}};
  for (const PartJson& label : member(json, "labels")) {
    cells.push_back({read_member<std::string>(label, "label"),
                     fixed(read_member<double>(label, "probability"), 4)});
  }
  return table("Thresholds of the labels", cells, 1);
}

}  // namespace trainer::results

#include "commands/report/probability_parts.h"

#include <algorithm>
#include <stdexcept>

#include "base/formats/json_number.h"
#include "base/formats/table.h"
#include "commands/page/page.h"

namespace trainer::commands {
namespace {

using PartJson = nlohmann::ordered_json;

// Returns the accuracy of each bin over its mean confidence.
Series reliability_series(const char* name, const PartJson& measured) {
  Series series{name, {}};
  for (const PartJson& bin : measured.at("bins")) {
    const double samples = bin.at("samples").get<double>();
    if (samples <= 0) continue;
    series.points.emplace_back(bin.at("confidence").get<double>(),
                               bin.at("correct").get<double>() / samples);
  }
  return series;
}

std::string calibration_error_text(const PartJson& measured) {
  return concat(fixed(measured.at("expected_calibration_error").get<double>(), 4), " (",
                fixed(measured.at("expected_calibration_error_low").get<double>(), 4), " to ",
                fixed(measured.at("expected_calibration_error_high").get<double>(), 4), ")");
}

// The classes of the smallest areas below their ROC curve, as many as a chart has colours.
std::vector<const PartJson*> hardest_classes(const PartJson& json) {
  constexpr std::size_t kMaxCurves = 6;
  std::vector<const PartJson*> classes;
  for (const PartJson& one : json.at("classes")) classes.push_back(&one);
  std::ranges::stable_sort(classes, [](const PartJson* a, const PartJson* b) {
    return a->at("roc_auc").get<double>() < b->at("roc_auc").get<double>();
  });
  if (classes.size() > kMaxCurves) classes.resize(kMaxCurves);
  return classes;
}

Series curve_series(const PartJson& of_class, const char* curve, const char* x, const char* y) {
  Series series{of_class.at("class").get<std::string>(), {}};
  for (const PartJson& point : of_class.at(curve)) {
    series.points.emplace_back(point.at(x).get<double>(), point.at(y).get<double>());
  }
  return series;
}

std::string rate_cell(const PartJson& counts, const char* rate) {
  const std::string name = rate;
  return concat(percent(counts.at(name).get<double>()), " (",
                percent(counts.at(name + "_low").get<double>()), " to ",
                percent(counts.at(name + "_high").get<double>()), ")");
}

}  // namespace

std::int64_t read_stored_count(const PartJson& json, const char* key) {
  const std::optional<std::int64_t> count = whole_number(json.at(key));
  if (!count) throw std::range_error(concat(key, " is not a whole number"));
  return *count;
}

std::vector<Chart> calibration_charts(const PartJson& json) {
  Series ideal{"ideal", {{0, 0}, {1, 1}}, true};
  return {{"reliability",
           "Reliability",
           "confidence (mean of a bin)",
           "accuracy (share of samples)",
           {reliability_series("before", json.at("before")),
            reliability_series("after", json.at("after")), std::move(ideal)},
           true}};
}

std::string calibration_table(const PartJson& json) {
  const PartJson &before = json.at("before"), &after = json.at("after");
  const auto number = [](const PartJson& measured, const char* key) {
    return fixed(measured.at(key).get<double>(), 4);
  };
  constexpr const char* kLoss = "negative_log_likelihood";
  const double accuracy = json.at("correct").get<double>() / json.at("samples").get<double>();
  return table("Before and after the temperature",
               {{"measure", "before", "after"},
                {"negative log-likelihood", number(before, kLoss), number(after, kLoss)},
                {"expected calibration error (95 % interval)", calibration_error_text(before),
                 calibration_error_text(after)},
                {"mean confidence", percent(before.at("confidence").get<double>()),
                 percent(after.at("confidence").get<double>())},
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
  for (const PartJson& one : json.at("classes")) {
    const PartJson& low = one.at("roc_auc_low");
    cells.push_back({one.at("class").get<std::string>(), fixed(one.at("roc_auc").get<double>(), 4),
                     low.is_number() ? concat(fixed(low.get<double>(), 4), " to ",
                                              fixed(one.at("roc_auc_high").get<double>(), 4))
                                     : "-",
                     fixed(one.at("average_precision").get<double>(), 4),
                     grouped(read_stored_count(one, "positives")),
                     grouped(read_stored_count(one, "negatives"))});
  }
  return table("Areas of the curves", cells, 1);
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
  const PartJson &classes = json.at("classes"), &costs = json.at("costs");
  Cells matrix{{"true class \\ decided class"}};
  for (const PartJson& name : classes) matrix.front().push_back(name.get<std::string>());
  for (std::size_t row = 0; row < classes.size(); ++row) {
    matrix.push_back({classes.at(row).get<std::string>()});
    for (const PartJson& cost : costs.at(row)) {
      matrix.back().push_back(concat(cost.get<double>()));
    }
  }
  Cells means{{"decision", "mean cost", "accuracy"}};
  const auto add = [&](const char* name, const PartJson& decisions) {
    means.push_back({name, fixed(decisions.at("cost").get<double>(), 4),
                     percent(decisions.at("accuracy").get<double>())});
  };
  add("the likeliest class", json.at("likeliest"));
  add("the class of the least expected cost", json.at("least_cost"));
  return (classes.size() <= kMaxClasses ? table("Costs", matrix, 1) : "") +
         table("Cost of the decisions", means, 1);
}

std::string abstention_table(const std::vector<std::pair<std::string, const PartJson*>>& rows) {
  Cells cells{{"split", "samples with a class", "error of these (95 % interval)"}};
  for (const auto& [samples, answers] : rows) {
    const std::int64_t answered = read_stored_count(*answers, "answered");
    cells.push_back({samples,
                     concat(percent(answers->at("coverage").get<double>()), " (", grouped(answered),
                            " of ", grouped(read_stored_count(*answers, "samples")), ")"),
                     answered == 0 ? "-" : rate_cell(*answers, "error")});
  }
  return table("Abstention", cells, 1);
}

std::string thresholds_table(const PartJson& json) {
  Cells cells{{"label", "probability above which it is predicted"}};
  for (const PartJson& label : json.at("labels")) {
    cells.push_back(
        {label.at("label").get<std::string>(), fixed(label.at("probability").get<double>(), 4)});
  }
  return table("Thresholds of the labels", cells, 1);
}

}  // namespace trainer::commands

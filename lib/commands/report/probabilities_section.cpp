#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.h"
#include "base/formats/json_number.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "commands/open_model/calibration_file.h"
#include "commands/open_model/operating_point_file.h"
#include "commands/open_model/stored_result.h"
#include "commands/page/page.h"
#include "commands/report/sections.h"

namespace trainer::commands {
namespace {

using StoredJson = nlohmann::ordered_json;

// Throws std::range_error for a value that is not a whole number.
std::int64_t read_stored_count(const StoredJson& json, const char* key) {
  const std::optional<std::int64_t> count = whole_number(json.at(key));
  if (!count) throw std::range_error(concat(key, " is not a whole number"));
  return *count;
}

// A file that evaluate has stored in the run.
struct StoredFile {
  Path path;
  std::string advice;  // on how to write it again
  std::optional<StoredJson> json;

  StoredFile(const RunFiles& run, const char* name, const char* option)
      : path(run.folder / name),
        advice(concat("write it anew with `trainer evaluate ", printable(run.folder.string()), ' ',
                      option, "`, or remove it")),
        json(read_result(path, advice)) {}

  // Returns what `make` makes of the content, or an empty value without a file. Throws DataError if
  // the content lacks something.
  template <class Make>
  auto read(const Make& make) const -> decltype(make(*json)) {
    if (!json) return {};
    try {
      return make(*json);
    } catch (const std::exception& error) {
      throw DataError(path, concat("is damaged: ", error.what(), "; ", advice));
    }
  }
};

// Returns the accuracy of each bin over its mean confidence.
Series reliability_series(const char* name, const StoredJson& measured) {
  Series series{name, {}};
  for (const StoredJson& bin : measured.at("bins")) {
    const double samples = bin.at("samples").get<double>();
    if (samples <= 0) continue;
    series.points.emplace_back(bin.at("confidence").get<double>(),
                               bin.at("correct").get<double>() / samples);
  }
  return series;
}

std::string calibration_error_text(const StoredJson& measured) {
  return concat(fixed(measured.at("expected_calibration_error").get<double>(), 4), " (",
                fixed(measured.at("expected_calibration_error_low").get<double>(), 4), " to ",
                fixed(measured.at("expected_calibration_error_high").get<double>(), 4), ")");
}

std::string calibration_table(const StoredJson& json) {
  const StoredJson &before = json.at("before"), &after = json.at("after");
  const auto number = [](const StoredJson& measured, const char* key) {
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

std::string describe_calibration(const StoredJson& json) {
  const std::string split = json.at("split").get<std::string>();
  return concat("<p>Temperature ", fixed(json.at("temperature").get<double>(), 4), ", fitted to ",
                grouped(read_stored_count(json.at("fitted"), "samples")),
                " validation samples with the checkpoint of step ", read_stored_count(json, "step"),
                "; measured on ", grouped(read_stored_count(json, "samples")), ' ',
                escape_markup(split), " samples.</p>\n");
}

std::vector<Chart> calibration_charts(const StoredJson& json) {
  Series ideal{"ideal", {{0, 0}, {1, 1}}, true};
  return {{"reliability",
           "Reliability",
           "confidence (mean of a bin)",
           "accuracy (share of samples)",
           {reliability_series("before", json.at("before")),
            reliability_series("after", json.at("after")), std::move(ideal)},
           true}};
}

std::string calibration_part(const StoredJson& json) {
  return describe_calibration(json) + calibration_table(json);
}

// The classes of the smallest areas below their ROC curve, as many as a chart has colours.
std::vector<const StoredJson*> hardest_classes(const StoredJson& json) {
  constexpr std::size_t kMaxCurves = 6;
  std::vector<const StoredJson*> classes;
  for (const StoredJson& one : json.at("classes")) classes.push_back(&one);
  std::stable_sort(classes.begin(), classes.end(), [](const StoredJson* a, const StoredJson* b) {
    return a->at("roc_auc").get<double>() < b->at("roc_auc").get<double>();
  });
  if (classes.size() > kMaxCurves) classes.resize(kMaxCurves);
  return classes;
}

Series curve_series(const StoredJson& of_class, const char* curve, const char* x, const char* y) {
  Series series{of_class.at("class").get<std::string>(), {}};
  for (const StoredJson& point : of_class.at(curve)) {
    series.points.emplace_back(point.at(x).get<double>(), point.at(y).get<double>());
  }
  return series;
}

std::vector<Chart> curve_charts(const StoredJson& json) {
  Chart roc{
      "roc", "ROC", "1 - specificity (false positive rate)", "sensitivity (true positive rate)",
      {},    true};
  Chart precision{"precision-recall", "Precision and recall", "recall", "precision", {}, true};
  for (const StoredJson* one : hardest_classes(json)) {
    roc.series.push_back(curve_series(*one, "roc", "false_positive_rate", "true_positive_rate"));
    precision.series.push_back(curve_series(*one, "precision_recall", "recall", "precision"));
  }
  roc.series.push_back({"chance", {{0, 0}, {1, 1}}, true});
  return {std::move(roc), std::move(precision)};
}

std::string curves_part(const StoredJson& json) {
  Cells cells{{"class", "ROC AUC", "95 % interval (DeLong)", "average precision", "positives",
               "negatives"}};
  for (const StoredJson& one : json.at("classes")) {
    const StoredJson& low = one.at("roc_auc_low");
    cells.push_back({one.at("class").get<std::string>(), fixed(one.at("roc_auc").get<double>(), 4),
                     low.is_number() ? concat(fixed(low.get<double>(), 4), " to ",
                                              fixed(one.at("roc_auc_high").get<double>(), 4))
                                     : "-",
                     fixed(one.at("average_precision").get<double>(), 4),
                     grouped(read_stored_count(one, "positives")),
                     grouped(read_stored_count(one, "negatives"))});
  }
  return concat("<p>Curves of a class against the rest, ",
                escape_markup(json.at("split").get<std::string>()), " split, checkpoint of step ",
                read_stored_count(json, "step"), ".</p>\n") +
         table("Areas of the curves", cells, 1);
}

std::string rate_cell(const StoredJson& counts, const char* rate) {
  const std::string name = rate;
  return concat(percent(counts.at(name).get<double>()), " (",
                percent(counts.at(name + "_low").get<double>()), " to ",
                percent(counts.at(name + "_high").get<double>()), ")");
}

std::string operating_part(const StoredJson& json) {
  Cells cells{{"split", "sensitivity (95 % interval)", "specificity (95 % interval)",
               "false negatives", "false positives"}};
  const auto add = [&](const std::string& split, const StoredJson& counts) {
    cells.push_back({split, rate_cell(counts, "sensitivity"), rate_cell(counts, "specificity"),
                     grouped(read_stored_count(counts, "false_negatives")),
                     grouped(read_stored_count(counts, "false_positives"))});
  };
  add("validation", json.at("validation"));
  const std::string split = json.at("split").get<std::string>();
  if (split != "validation") add(split, json.at("counts"));
  return concat("<p>Operating point ", escape_markup(json.at("criterion").get<std::string>()), ": ",
                escape_markup(json.at("positive_class").get<std::string>()),
                " from a probability of ", fixed(json.at("probability").get<double>(), 4),
                " on (without a temperature), with the checkpoint of step ",
                read_stored_count(json, "step"), ".</p>\n") +
         table("Operating point", cells, 1);
}

}  // namespace

std::vector<Chart> probability_charts(const RunFiles& run) {
  std::vector<Chart> charts =
      StoredFile(run, kCalibrationFile, "--calibrate").read(calibration_charts);
  for (Chart& chart : StoredFile(run, kCurvesFile, "--curves").read(curve_charts)) {
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::string probabilities_section(const RunFiles& run) {
  const std::vector<Chart> charts = probability_charts(run);
  std::string text = "<div class=\"charts\">\n";
  for (const Chart& chart : charts) text += figure(chart);
  text += "</div>\n";
  const std::string parts =
      StoredFile(run, kCalibrationFile, "--calibrate").read(calibration_part) +
      StoredFile(run, kCurvesFile, "--curves").read(curves_part) +
      StoredFile(run, kOperatingPointFile, "--operating-point CRITERION").read(operating_part);
  if (parts.empty()) return "";
  return heading("Probabilities") + (charts.empty() ? "" : text) + parts;
}

}  // namespace trainer::commands

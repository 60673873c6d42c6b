#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "commands/open_model/calibration_file.h"
#include "commands/open_model/stored_result.h"
#include "commands/page/page.h"
#include "commands/report/sections.h"

namespace trainer::commands {
namespace {

using StoredJson = nlohmann::ordered_json;

std::string calibration_advice(const RunFiles& run) {
  return concat("write it anew with `trainer evaluate ", printable(run.folder.string()),
                " --calibrate`, or remove it");
}

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
  const char* kLoss = "negative_log_likelihood";
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
                grouped(json.at("fitted").at("samples").get<std::int64_t>()),
                " validation samples with the checkpoint of step ",
                json.at("step").get<std::int64_t>(), "; measured on ",
                grouped(json.at("samples").get<std::int64_t>()), ' ', escape_markup(split),
                " samples.</p>\n");
}

}  // namespace

std::vector<Chart> probability_charts(const RunFiles& run) {
  const Path file = run.folder / kCalibrationFile;
  const auto json = read_result(file, calibration_advice(run));
  if (!json) return {};
  try {
    Series ideal{"ideal", {{0, 0}, {1, 1}}, true};
    return {{"reliability",
             "Reliability",
             "confidence (mean of a bin)",
             "accuracy (share of samples)",
             {reliability_series("before", json->at("before")),
              reliability_series("after", json->at("after")), std::move(ideal)},
             true}};
  } catch (const StoredJson::exception& error) {
    throw DataError(file, concat("is damaged: ", error.what(), "; ", calibration_advice(run)));
  }
}

std::string probabilities_section(const RunFiles& run) {
  const Path file = run.folder / kCalibrationFile;
  const auto json = read_result(file, calibration_advice(run));
  if (!json) return "";
  try {
    std::string text = heading("Probabilities") + describe_calibration(*json);
    text += "<div class=\"charts\">\n";
    for (const Chart& chart : probability_charts(run)) text += figure(chart);
    return text + "</div>\n" + calibration_table(*json);
  } catch (const StoredJson::exception& error) {
    throw DataError(file, concat("is damaged: ", error.what(), "; ", calibration_advice(run)));
  }
}

}  // namespace trainer::commands

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "results/page/page.h"
#include "results/pages/probability_parts.h"
#include "results/pages/sections.h"
#include "results/run_files/result_files.h"

namespace trainer::results {
namespace {

using StoredJson = nlohmann::ordered_json;

// Opens a file that evaluate has stored in the run. `option` writes it again.
StoredFile open_stored(const RunFiles& run, const char* name, const char* option) {
  return {run.folder / name,
          concat("write it anew with `trainer evaluate ",
                 printable(shell_word(run.folder.string())), ' ', option, "`, or remove it")};
}

std::string describe_calibration(const StoredJson& json) {
  const std::string split = read_member<std::string>(json, "split");
  return concat("<p>Temperature ", fixed(read_member<double>(json, "temperature"), 4),
                ", fitted to ", grouped(read_stored_count(member(json, "fitted"), "samples")),
                " validation samples with the checkpoint of step ", read_stored_count(json, "step"),
                "; measured on ", grouped(read_stored_count(json, "samples")), ' ',
                escape_markup(split), " samples.</p>\n");
}

std::string calibration_part(const StoredJson& json) {
  return describe_calibration(json) + calibration_table(json);
}

std::string curves_part(const StoredJson& json) {
  return concat("<p>Curves of a class against the rest, ",
                escape_markup(read_member<std::string>(json, "split")),
                " split, checkpoint of step ", read_stored_count(json, "step"), ".</p>\n") +
         areas_table(json);
}

// Returns ", at the temperature 1.5000"; nothing for probabilities that are not calibrated.
std::string temperature_text(const StoredJson& json) {
  const double temperature = read_member<double>(json, "temperature");
  return temperature == 1 ? "" : concat(", at the temperature ", fixed(temperature, 4));
}

std::string costs_part(const StoredJson& json) {
  return concat("<p>Operating point ", escape_markup(read_member<std::string>(json, "criterion")),
                ": the class of the least expected cost", temperature_text(json),
                ", with the checkpoint of step ", read_stored_count(json, "step"), "; measured on ",
                grouped(read_stored_count(json, "samples")), ' ',
                escape_markup(read_member<std::string>(json, "split")), " samples.</p>\n") +
         costs_tables(json);
}

// Returns the temperature with which predict uses the threshold: that of the calibration of the
// same parameters; nothing for a threshold of more than two classes.
std::optional<double> find_threshold_temperature(const StoredJson& point,
                                                 const StoredFile& calibration) {
  if (!point.contains("temperature") || member(point, "temperature").is_null()) return std::nullopt;
  return calibration
      .read([&](const StoredJson& json) {
        const bool applies = member(json, "tensors_sha256") == member(point, "tensors_sha256") &&
                             member(json, "flip") == member(point, "flip");
        return std::optional(applies ? read_member<double>(json, "temperature") : 1);
      })
      .value_or(1);
}

std::string operating_part(const StoredJson& json, const StoredFile& calibration) {
  if (json.contains("costs")) return costs_part(json);
  std::vector<std::pair<std::string, const StoredJson*>> rows{
      {"validation", &member(json, "validation")}};
  const std::string split = read_member<std::string>(json, "split");
  if (split != "validation") rows.emplace_back(split, &member(json, "counts"));
  return concat("<p>", describe_threshold_part(json, find_threshold_temperature(json, calibration)),
                ", with the checkpoint of step ", read_stored_count(json, "step"), ".</p>\n") +
         contradiction_part(json) + operating_table(rows);
}

std::string abstention_part(const StoredJson& json) {
  std::vector<std::pair<std::string, const StoredJson*>> rows{
      {"validation", &member(json, "validation")}};
  const std::string split = read_member<std::string>(json, "split");
  if (split != "validation") rows.emplace_back(split, &member(json, "answers"));
  const StoredJson &confidence = member(json, "confidence"),
                   &point = member(json, "operating_point");
  return concat("<p>For an error of at most ", percent(read_member<double>(json, "allowed_error")),
                confidence.is_null() ? ", no sample gets a class"
                                     : concat(", a class from a confidence of ",
                                              fixed(confidence.get<double>(), 4), " on"),
                temperature_text(json),
                point.is_null() ? ""
                                : concat(", decided by the operating point ",
                                         escape_markup(point.get<std::string>())),
                ", with the checkpoint of step ", read_stored_count(json, "step"), ".</p>\n") +
         contradiction_part(json) + abstention_table(rows);
}

std::string thresholds_part(const StoredJson& json) {
  return concat("<p>Thresholds by ", escape_markup(read_member<std::string>(json, "goal")),
                ", found on the validation split with the checkpoint of step ",
                read_stored_count(json, "step"), ".</p>\n") +
         thresholds_table(json);
}

}  // namespace

std::vector<Chart> probability_charts(const RunFiles& run) {
  std::vector<Chart> charts =
      open_stored(run, kCalibrationFile, "--calibrate").read(calibration_charts);
  for (Chart& chart : open_stored(run, kCurvesFile, "--curves").read(curve_charts)) {
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::string probabilities_section(const RunFiles& run) {
  const std::vector<Chart> charts = probability_charts(run);
  const StoredFile calibration = open_stored(run, kCalibrationFile, "--calibrate");
  const std::string parts =
      calibration.read(calibration_part) +
      open_stored(run, kCurvesFile, "--curves").read(curves_part) +
      open_stored(run, kOperatingPointFile, "--operating-point CRITERION")
          .read([&](const StoredJson& json) { return operating_part(json, calibration); }) +
      open_stored(run, kAbstentionFile, "--abstain ERROR").read(abstention_part) +
      open_stored(run, kThresholdsFile, "--thresholds GOAL").read(thresholds_part);
  if (parts.empty()) return "";
  return heading("Probabilities") + (charts.empty() ? "" : chart_grid(charts)) + parts;
}

}  // namespace trainer::results

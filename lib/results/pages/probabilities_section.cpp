
#include "base/error.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "results/decisions/abstention_report.h"
#include "results/decisions/calibrate.h"
#include "results/decisions/curves.h"
#include "results/decisions/label_thresholds.h"
#include "results/decisions/novelty_report.h"
#include "results/decisions/stored.h"
#include "results/evaluation/evaluation_report.h"
#include "results/pages/sections.h"
#include "results/read_json.h"

namespace trainer::results {
namespace {

// Reads what evaluate has stored in the run. `option` writes it again.
template <class Result>
std::optional<Stored<Result>> read_stored(const RunFiles& run, const char* name,
                                          const char* option) {
  return read_result<Stored<Result>>(
      {(run.folder / name).string(),
       concat("write it anew with `trainer evaluate ", printable(shell_word(run.folder.string())),
              ' ', option, "`, or remove it")});
}

std::string describe_source(const StoredOrigin& origin) {
  return concat(", with the checkpoint of step ", origin.step);
}

// Sets the temperature with which predict uses the threshold: that of the calibration of the same
// parameters. A threshold of more than two classes has none.
void use_calibration(OperatingReport& report, const StoredOrigin& origin,
                     const std::optional<Stored<CalibrationReport>>& calibration) {
  if (!report.temperature) return;
  const bool applies = calibration && calibration->origin.flip == origin.flip &&
                       calibration->origin.tensors_sha256 == origin.tensors_sha256;
  report.temperature = applies ? calibration->result.temperature : 1;
}

void append_point(Document& section, Stored<OperatingPoint> point,
                  const std::optional<Stored<CalibrationReport>>& calibration) {
  const std::string source = describe_source(point.origin);
  if (auto* costs = std::get_if<CostReport>(&point.result)) {
    append_costs(section, *costs, source);
    return;
  }
  auto& report = std::get<OperatingReport>(point.result);
  use_calibration(report, point.origin, calibration);
  section.append(show_operating_point(report, source));
  section.add(Notice(report.contradiction));
}

}  // namespace

void append_costs(Document& section, const CostReport& report, const std::string& source) {
  if (std::ssize(report.classes) <= kMaxPrintedMatrix) section.add(make_cost_table(report));
  section.append(show_costs(report, source, true));
  section.add(Notice(report.contradiction));
}

Document probabilities_section(const RunFiles& run) {
  const auto calibration = read_stored<CalibrationReport>(run, kCalibrationFile, "--calibrate");
  const auto curves = read_stored<CurvesReport>(run, kCurvesFile, "--curves");
  const auto point =
      read_stored<OperatingPoint>(run, kOperatingPointFile, "--operating-point CRITERION");
  const auto abstention = read_stored<AbstentionReport>(run, kAbstentionFile, "--abstain ERROR");
  const auto thresholds = read_stored<StoredThresholds>(run, kThresholdsFile, "--thresholds GOAL");
  const auto novelty = read_stored<NoveltyReport>(run, kNoveltyFile, "--novelty");
  Document section;
  if (!calibration && !curves && !point && !abstention && !thresholds && !novelty) return section;
  section.add(Heading{"Probabilities"});
  if (calibration) {
    section.append(
        show_calibration(calibration->result, describe_source(calibration->origin), true));
    section.add(Notice(calibration->result.contradiction));
  }
  if (curves) section.append(show_curves(curves->result, describe_source(curves->origin)));
  if (point) append_point(section, *point, calibration);
  if (abstention) {
    section.append(show_abstention(abstention->result, describe_source(abstention->origin)));
    section.add(Notice(abstention->result.contradiction));
  }
  if (thresholds) {
    section.append(show_thresholds(thresholds->result, describe_source(thresholds->origin)));
  }
  if (novelty) {
    section.append(show_novelty(novelty->result, describe_source(novelty->origin)));
    section.append(show_distances(novelty->result));
    section.add(Notice(novelty->result.contradiction));
  }
  return section;
}

}  // namespace trainer::results

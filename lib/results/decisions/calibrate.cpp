#include "results/decisions/calibrate.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "results/decisions/contradiction.h"

namespace trainer::results {
namespace {

using CalibrationJson = nlohmann::ordered_json;

std::string error_text(const engine::Reliability& measured) {
  const engine::Interval& interval = measured.expected_calibration_error_interval;
  return concat(fixed(measured.expected_calibration_error, 4), " (", fixed(interval.low, 4), " to ",
                fixed(interval.high, 4), ")");
}

std::vector<std::string> bin_cells(const engine::ReliabilityBin& bin) {
  if (bin.samples == 0) return {"0", "", ""};
  return {std::to_string(bin.samples), fixed(bin.confidence, 4),
          fixed(share(bin.correct, bin.samples), 4)};
}

CalibrationJson reliability_json(const engine::Reliability& measured) {
  CalibrationJson bins = CalibrationJson::array();
  for (const engine::ReliabilityBin& bin : measured.bins) {
    bins.push_back({{"low", bin.low},
                    {"high", bin.high},
                    {"samples", bin.samples},
                    {"correct", bin.correct},
                    {"confidence", bin.confidence}});
  }
  const engine::Interval& interval = measured.expected_calibration_error_interval;
  return {{"negative_log_likelihood", measured.negative_log_likelihood},
          {"expected_calibration_error", measured.expected_calibration_error},
          {"expected_calibration_error_low", interval.low},
          {"expected_calibration_error_high", interval.high},
          {"confidence", measured.confidence},
          {"bins", std::move(bins)}};
}

}  // namespace

CalibrationReport calibrate(const engine::LabelledLogits& validation, Split split,
                            const engine::LabelledLogits& scores) {
  CalibrationReport report;
  report.temperature = engine::fit_temperature(validation);
  report.fitted_samples = validation.samples();
  report.fitted_loss_before = engine::negative_log_likelihood(validation, 1);
  report.fitted_loss_after = engine::negative_log_likelihood(validation, report.temperature);
  report.split = split;
  report.before = engine::measure_reliability(scores, 1);
  report.after = engine::measure_reliability(scores, report.temperature);
  if (split != Split::kValidation) {
    report.contradiction =
        add_advice(find_loss_contradiction(to_string(split), report.before, report.after),
                   "predict with --uncalibrated, or calibrate with more validation samples");
  }
  return report;
}

void add_reliability(nlohmann::ordered_json& object, const engine::Reliability& before,
                     const engine::Reliability& after) {
  object["samples"] = before.samples;
  object["correct"] = before.correct;
  object["before"] = reliability_json(before);
  object["after"] = reliability_json(after);
}

void print_end_of_range(const std::vector<double>& temperatures, const std::string& fitted_to,
                        std::ostream& out) {
  const bool is_at_end = std::ranges::any_of(temperatures, [](double t) {
    return t == engine::kMinTemperature || t == engine::kMaxTemperature;
  });
  if (!is_at_end) return;
  out << (temperatures.size() == 1 ? "the" : "a") << " temperature is at the end of its range: the "
      << fitted_to
      << " are too few or too easy (or the model is worse than chance) to calibrate it\n";
}

void print_reliability(const std::string& samples, const engine::Reliability& before,
                       const engine::Reliability& after, std::ostream& out) {
  Table table({samples, "before", "after"}, {1, 2});
  table.add({"negative log-likelihood", fixed(before.negative_log_likelihood, 4),
             fixed(after.negative_log_likelihood, 4)});
  table.add({"expected calibration error (95 % interval)", error_text(before), error_text(after)});
  table.add({"mean confidence", percent(before.confidence), percent(after.confidence)});
  const std::string accuracy = percent(share(before.correct, before.samples));
  table.add({"accuracy", accuracy, accuracy});
  table.print(out);
}

void print_diagram(const engine::Reliability& before, const engine::Reliability& after,
                   std::ostream& out) {
  Table table({"confidence", "before: samples", "confidence", "accuracy", "after: samples",
               "confidence", "accuracy"},
              {1, 2, 3, 4, 5, 6});
  for (std::size_t b = 0; b < before.bins.size(); ++b) {
    const engine::ReliabilityBin& first = before.bins[b];
    const engine::ReliabilityBin& second = after.bins[b];
    if (first.samples == 0 && second.samples == 0) continue;
    std::vector<std::string> row{concat(fixed(first.low, 3), " to ", fixed(first.high, 3))};
    for (const engine::ReliabilityBin* bin : {&first, &second}) {
      for (std::string& cell : bin_cells(*bin)) row.push_back(std::move(cell));
    }
    table.add(std::move(row));
  }
  out << '\n';
  table.print(out);
}

nlohmann::ordered_json calibration_json(const CalibrationReport& report) {
  CalibrationJson json{{"temperature", report.temperature},
                       {"fitted",
                        {{"split", to_string(Split::kValidation)},
                         {"samples", report.fitted_samples},
                         {"negative_log_likelihood_before", report.fitted_loss_before},
                         {"negative_log_likelihood_after", report.fitted_loss_after}}},
                       {"split", to_string(report.split)},
                       {"contradiction", report.contradiction}};
  add_reliability(json, report.before, report.after);
  return json;
}

void print_calibration(const CalibrationReport& report, const std::string& stored, bool brief,
                       std::ostream& out) {
  out << "calibration: temperature " << fixed(report.temperature, 4) << ", fitted to "
      << report.fitted_samples << " validation samples (negative log-likelihood "
      << fixed(report.fitted_loss_before, 4) << ", then " << fixed(report.fitted_loss_after, 4)
      << ")";
  if (!stored.empty()) out << "; stored in " << printable(stored);
  out << '\n';
  print_end_of_range({report.temperature}, "validation samples", out);
  print_reliability(to_string(report.split), report.before, report.after, out);
  if (report.split == Split::kValidation) {
    out << "the temperature was fitted to these samples, so that other data will be calibrated "
           "less "
           "well\n";
  }
  if (!brief) print_diagram(report.before, report.after, out);
}

}  // namespace trainer::results

#include "results/decisions/calibrate.h"

#include <algorithm>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "results/decisions/contradiction.h"

namespace trainer::results {
namespace {

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

// Returns the accuracy of each bin over its mean confidence.
Series make_series(const char* name, const engine::Reliability& measured) {
  Series series{name, {}};
  for (const engine::ReliabilityBin& bin : measured.bins) {
    if (bin.samples == 0) continue;
    series.points.emplace_back(bin.confidence, share(bin.correct, bin.samples));
  }
  return series;
}

Chart draw_diagram(const ReliabilityChange& change) {
  return {"reliability",
          "Reliability",
          "confidence (mean of a bin)",
          "accuracy (share of samples)",
          {make_series("before", change.before), make_series("after", change.after),
           Series{"ideal", {{0, 0}, {1, 1}}, true}},
          true};
}

}  // namespace

void fields(FieldVisitor& v, engine::ReliabilityBin& bin) {
  v("low", bin.low, kShare, "The bin has the confidences above this one");
  v("high", bin.high, kShare, "up to this one.");
  v("samples", bin.samples, kSamples, "Samples of the bin.");
  v("correct", bin.correct, kSamples, "Those that are predicted right.");
  v("confidence", bin.confidence, kShare, "Their mean confidence.");
}

void fields(FieldVisitor& v, engine::Reliability& measured) {
  engine::Interval& interval = measured.expected_calibration_error_interval;
  v("negative_log_likelihood", measured.negative_log_likelihood,
    "Mean negative log-likelihood of the labels.");
  v("expected_calibration_error", measured.expected_calibration_error, kShare,
    "Mean distance of confidence and accuracy over the bins.");
  v("expected_calibration_error_low", interval.low, kShare, "Lower end of its 95 % interval.");
  v("expected_calibration_error_high", interval.high, kShare, "Upper end of its 95 % interval.");
  v("confidence", measured.confidence, kShare, "Mean confidence.");
  v("bins", measured.bins, "The reliability diagram.");
}

void fields(FieldVisitor& v, ReliabilityChange& change) {
  v("samples", change.before.samples, kSamples, "Samples that are measured.");
  v("correct", change.before.correct, kSamples, "Those that are predicted right.");
  v("before", change.before, "Without the temperature.");
  v("after", change.after, "With the temperature.");
}

void fields(FieldVisitor& v, CalibrationReport::Fitted& fitted) {
  v("split", fitted.split, "The split to which the temperature was fitted.");
  v("samples", fitted.samples, kSamples, "Its samples.");
  v("negative_log_likelihood_before", fitted.loss_before, "Without the temperature.");
  v("negative_log_likelihood_after", fitted.loss_after, "With the temperature.");
}

void fields(FieldVisitor& v, CalibrationReport& report) {
  v("temperature", report.temperature, kTemperature, "Divides the logits.");
  v("fitted", report.fitted, "The samples to which the temperature was fitted.");
  v("split", report.split, "The evaluated split.");
  v.newer("contradiction", report.contradiction, kContradictionMeaning);
  fields(v, report.change);
}

CalibrationReport calibrate(const engine::LabelledLogits& validation, Split split,
                            const engine::LabelledLogits& scores) {
  CalibrationReport report;
  report.temperature = engine::fit_temperature(validation);
  report.fitted.samples = validation.samples();
  report.fitted.loss_before = engine::negative_log_likelihood(validation, 1);
  report.fitted.loss_after = engine::negative_log_likelihood(validation, report.temperature);
  report.split = split;
  report.change = {engine::measure_reliability(scores, 1),
                   engine::measure_reliability(scores, report.temperature)};
  if (split != Split::kValidation) {
    report.contradiction = add_advice(
        find_loss_contradiction(to_string(split), report.change.before, report.change.after),
        "predict with --uncalibrated, or calibrate with more validation samples");
  }
  return report;
}

void add_end_of_range(Document& document, const std::vector<double>& temperatures,
                      const std::string& fitted_to) {
  const bool is_at_end = std::ranges::any_of(temperatures, [](double t) {
    return t == engine::kMinTemperature || t == engine::kMaxTemperature;
  });
  if (!is_at_end) return;
  document.add(Paragraph{concat(
      temperatures.size() == 1 ? "the" : "a", " temperature is at the end of its range: the ",
      fitted_to, " are too few or too easy (or the model is worse than chance) to calibrate it")});
}

void add_reliability(Document& document, const std::string& samples,
                     const ReliabilityChange& change) {
  const engine::Reliability &before = change.before, &after = change.after;
  document.add(Charts{draw_diagram(change)});
  Table table({samples, "before", "after"}, NumbersFrom{1}, "Before and after the temperature");
  table.add({"negative log-likelihood", fixed(before.negative_log_likelihood, 4),
             fixed(after.negative_log_likelihood, 4)});
  table.add({"expected calibration error (95 % interval)", error_text(before), error_text(after)});
  table.add({"mean confidence", percent(before.confidence), percent(after.confidence)});
  const std::string accuracy = percent(share(before.correct, before.samples));
  table.add({"accuracy", accuracy, accuracy});
  document.add(std::move(table));
}

void add_diagram(Document& document, const ReliabilityChange& change) {
  Table table({"confidence", "before: samples", "confidence", "accuracy", "after: samples",
               "confidence", "accuracy"},
              NumbersFrom{1}, "Reliability diagram");
  const std::size_t bins = std::min(change.before.bins.size(), change.after.bins.size());
  for (std::size_t b = 0; b < bins; ++b) {
    const engine::ReliabilityBin &first = change.before.bins[b], &second = change.after.bins[b];
    if (first.samples == 0 && second.samples == 0) continue;
    std::vector<std::string> row{concat(fixed(first.low, 3), " to ", fixed(first.high, 3))};
    for (const engine::ReliabilityBin* bin : {&first, &second}) {
      for (std::string& cell : bin_cells(*bin)) row.push_back(std::move(cell));
    }
    table.add(std::move(row));
  }
  document.add(BlankLine{});
  document.add(std::move(table));
}

Document show_calibration(const CalibrationReport& report, const std::string& ending, bool brief) {
  Document document;
  document.add(
      Paragraph{concat("calibration: temperature ", fixed(report.temperature, 4), ", fitted to ",
                       report.fitted.samples, " validation samples (negative log-likelihood ",
                       fixed(report.fitted.loss_before, 4), ", then ",
                       fixed(report.fitted.loss_after, 4), ")", ending)});
  add_end_of_range(document, {report.temperature}, "validation samples");
  add_reliability(document, to_string(report.split), report.change);
  if (report.split == Split::kValidation) {
    document.add(Paragraph{
        "the temperature was fitted to these samples, so that other data will be calibrated less "
        "well"});
  }
  if (!brief) add_diagram(document, report.change);
  return document;
}

}  // namespace trainer::results

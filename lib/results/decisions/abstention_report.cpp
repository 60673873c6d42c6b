#include "results/decisions/abstention_report.h"

#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "engine/metrics/metrics.h"
#include "results/decisions/calibrate.h"
#include "results/decisions/contradiction.h"

namespace trainer::results {
namespace {

// Calls `each` with the prediction of each sample.
template <class Each>
void for_each_prediction(const engine::LabelledLogits& scores, const PredictOptions& options,
                         const Each& each) {
  for (std::size_t i = 0; i < scores.labels.size(); ++i) {
    Output output;
    output.index = static_cast<std::int64_t>(i);
    output.logits = scores.row(i);
    output.label = scores.labels[i];
    each(make_prediction(output, options));
  }
}

void add_row(Table& table, const std::string& samples, const Answers& answers) {
  const engine::Interval interval = engine::wilson(answers.wrong, answers.answered);
  table.add(
      {samples,
       concat(percent(answers.coverage()), " (", answers.answered, " of ", answers.samples, ")"),
       rate_text(share(answers.wrong, answers.answered), interval, answers.wrong,
                 answers.answered)});
}

}  // namespace

// Every sample of evaluate has a label.
void fields(FieldVisitor& v, Answers& answers) {
  v("samples", answers.samples, kSamples, "Samples of the split.");
  v("answered", answers.answered, kSamples, "Those that get a class.");
  v("wrong", answers.wrong, kSamples, "Those that get a wrong one.");
  v.derived("coverage", answers.coverage(), kShare, "The share that gets a class.");
  rate_fields(v, "error", share(answers.wrong, answers.answered),
              engine::wilson(answers.wrong, answers.answered), answers.answered,
              "The share of the classes that is wrong; null without any.");
}

void fields(FieldVisitor& v, AbstentionReport& report) {
  v("allowed_error", report.allowed_error, kShare, "The error of --abstain.");
  v("confidence", report.confidence, kShare,
    "Samples of a smaller confidence get no class; null: none gets one.");
  v("temperature", report.temperature, kTemperature, "The temperature of the probabilities.");
  v("operating_point", report.criterion, "The criterion that decides about the class.");
  v("validation", report.validation, "The samples on which the confidence was found.");
  v("split", report.split, "The evaluated split.");
  v.newer("contradiction", report.contradiction, kContradictionMeaning);
  v("answers", report.answers, "Its samples.");
}

AbstentionReport make_abstention_report(double error, const PredictOptions& options,
                                        const engine::LabelledLogits& validation, Split split,
                                        const engine::LabelledLogits& scores) {
  std::vector<engine::TopPrediction> known;
  for_each_prediction(validation, options, [&](const Prediction& prediction) {
    known.push_back(to_top_prediction(prediction));
  });
  const Abstention found = find_abstention(known, error);
  Coverage coverage;
  for_each_prediction(scores, options,
                      [&](Prediction prediction) { coverage.decide(found, prediction); });
  AbstentionReport report;
  report.allowed_error = error;
  report.confidence = found.is_always() ? std::nan("") : found.confidence;
  report.temperature = options.temperature;
  report.validation = found.answers;
  report.split = split;
  report.answers = coverage.answers();
  if (split != Split::kValidation) {
    report.contradiction =
        add_advice(find_error_contradiction(to_string(split), error, report.answers),
                   "allow a smaller error, or use more validation samples");
  }
  return report;
}

Document show_abstention(const AbstentionReport& report, const std::string& ending) {
  const std::string allowed = percent(report.allowed_error);
  std::string line =
      std::isnan(report.confidence)
          ? concat("abstention: no confidence keeps the error of the validation samples at ",
                   allowed, ", so that no sample gets a class")
          : concat("abstention: a class from a confidence of ", fixed(report.confidence, 4),
                   " on, for an error of at most ", allowed);
  if (report.temperature != 1) {
    line += concat(", at the temperature ", fixed(report.temperature, 4));
  }
  if (report.criterion) {
    line += concat(", decided by the operating point ", printable(*report.criterion));
  }
  Document document;
  document.add(Paragraph{line + ending});
  Table table({"split", "samples with a class", "error of these (95 % interval)"}, NumbersFrom{1},
              "Abstention");
  add_row(table, to_string(Split::kValidation), report.validation);
  if (report.split != Split::kValidation) {
    add_row(table, to_string(report.split), report.answers);
  }
  document.add(std::move(table));
  return document;
}

}  // namespace trainer::results

#include "results/decisions/abstention_report.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "engine/metrics/metrics.h"
#include "results/decisions/contradiction.h"

namespace trainer::results {
namespace {

using AbstentionJson = nlohmann::ordered_json;

// An error without answers is null.
AbstentionJson answers_json(const Answers& answers) {
  AbstentionJson json{{"samples", answers.samples},
                      {"answered", answers.answered},
                      {"wrong", answers.wrong},
                      {"coverage", answers.coverage()}};
  const engine::Interval interval = answers.error_interval();
  for (const auto& [key, value] : {std::pair{"error", answers.error()},
                                   {"error_low", interval.low},
                                   {"error_high", interval.high}}) {
    json[key] = answers.labelled == 0 ? AbstentionJson() : AbstentionJson(value);
  }
  return json;
}

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
  const engine::Interval interval = answers.error_interval();
  table.add(
      {samples,
       concat(percent(answers.coverage()), " (", answers.answered, " of ", answers.samples, ")"),
       answers.labelled == 0
           ? "-"
           : concat(percent(answers.error()), " (", percent(interval.low), " to ",
                    percent(interval.high), ", ", answers.wrong, " of ", answers.labelled, ")")});
}

}  // namespace

AbstentionReport make_abstention_report(double error, const PredictOptions& options,
                                        const engine::LabelledLogits& validation, Split split,
                                        const engine::LabelledLogits& scores) {
  AbstentionReport report;
  report.temperature = options.temperature;
  report.split = split;
  std::vector<engine::TopPrediction> known;
  for_each_prediction(validation, options, [&](const Prediction& prediction) {
    known.push_back(to_top_prediction(prediction));
  });
  report.found = find_abstention(known, error);
  for_each_prediction(scores, options, [&](Prediction prediction) {
    report.coverage.decide(report.found, prediction);
  });
  if (split != Split::kValidation) {
    report.contradiction =
        add_advice(find_error_contradiction(to_string(split), error, report.coverage.answers()),
                   "allow a smaller error, or use more validation samples");
  }
  return report;
}

nlohmann::ordered_json abstention_json(const AbstentionReport& report) {
  const Abstention& found = report.found;
  return {{"allowed_error", found.error},
          {"confidence", found.is_always() ? AbstentionJson() : AbstentionJson(found.confidence)},
          {"temperature", report.temperature},
          {"operating_point",
           report.criterion.empty() ? AbstentionJson() : AbstentionJson(report.criterion)},
          {"validation", answers_json(found.answers)},
          {"split", to_string(report.split)},
          {"contradiction", report.contradiction},
          {"answers", answers_json(report.coverage.answers())}};
}

void print_abstention(const AbstentionReport& report, const std::string& stored,
                      std::ostream& out) {
  const Abstention& found = report.found;
  out << "abstention: ";
  if (found.is_always()) {
    out << "no confidence keeps the error of the validation samples at " << percent(found.error)
        << ", so that no sample gets a class";
  } else {
    out << "a class from a confidence of " << fixed(found.confidence, 4)
        << " on, for an error of at most " << percent(found.error);
  }
  if (report.temperature != 1) out << ", at the temperature " << fixed(report.temperature, 4);
  if (!report.criterion.empty()) {
    out << ", decided by the operating point " << printable(report.criterion);
  }
  if (!stored.empty()) out << "; stored in " << printable(stored);
  out << '\n';
  Table table({"split", "samples with a class", "error of these (95 % interval)"}, {1, 2});
  add_row(table, to_string(Split::kValidation), found.answers);
  if (report.split != Split::kValidation) {
    add_row(table, to_string(report.split), report.coverage.answers());
  }
  table.print(out);
}

}  // namespace trainer::results

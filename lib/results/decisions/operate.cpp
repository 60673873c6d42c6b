#include "results/decisions/operate.h"

#include <cmath>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "results/decisions/contradiction.h"

namespace trainer::results {
namespace {

std::vector<std::string> rate_cells(const std::string& samples,
                                    const engine::OperatingCounts& counts) {
  return {samples,
          rate_text(counts.sensitivity(), counts.sensitivity_interval(), counts.true_positives,
                    counts.true_positives + counts.false_negatives),
          rate_text(counts.specificity(), counts.specificity_interval(), counts.true_negatives,
                    counts.true_negatives + counts.false_positives)};
}

}  // namespace

std::string rate_text(double rate, const engine::Interval& interval, std::int64_t part,
                      std::int64_t whole) {
  if (whole == 0) return "-";
  return concat(percent(rate), " (", percent(interval.low), " to ", percent(interval.high), ", ",
                part, " of ", whole, ")");
}

void rate_fields(FieldVisitor& v, const std::string& name, double rate,
                 const engine::Interval& interval, std::int64_t whole, const char* meaning) {
  const auto list = [&](const std::string& key, double value, const char* text) {
    v.derived(key.c_str(), whole == 0 ? std::nan("") : value, kShare, text);
  };
  list(name, rate, meaning);
  list(name + "_low", interval.low, "Lower end of its 95 % interval (Wilson).");
  list(name + "_high", interval.high, "Upper end of its 95 % interval (Wilson).");
}

void fields(FieldVisitor& v, engine::OperatingCounts& counts) {
  v("true_positives", counts.true_positives, kSamples, "Positive samples that are called so.");
  v("false_negatives", counts.false_negatives, kSamples, "Positive samples that are not.");
  v("true_negatives", counts.true_negatives, kSamples, "Negative samples that are called so.");
  v("false_positives", counts.false_positives, kSamples, "Negative samples that are not.");
  constexpr char kMeaning[] = "The share of the samples; null without any.";
  rate_fields(v, "sensitivity", counts.sensitivity(), counts.sensitivity_interval(),
              counts.positives(), kMeaning);
  rate_fields(v, "specificity", counts.specificity(), counts.specificity_interval(),
              counts.negatives(), kMeaning);
}

void threshold_fields(FieldVisitor& v, MeasuredThreshold& threshold) {
  v("criterion", threshold.criterion, "The criterion of --operating-point.");
  v("positive_class", threshold.positive_class, "The name of the positive class.");
  v("positive_index", threshold.positive_index, Unit("index", 0), "Its index.");
  v("log_odds", threshold.log_odds,
    "Samples are positive from this logarithm of the odds on, without a temperature; null: none "
    "is.");
  const double odds = threshold.log_odds / threshold.temperature.value_or(1);
  v.derived("probability", std::isfinite(odds) ? sigmoid(odds) : std::nan(""), kShare,
            "Its probability at the temperature.");
  v.newer("temperature", threshold.temperature,
          "The temperature of the probability; null for odds without one.");
  v.newer("contradiction", threshold.contradiction, kContradictionMeaning);
}

void fields(FieldVisitor& v, OperatingReport& report) {
  threshold_fields(v, report);
  v("validation", report.found, "The samples on which the threshold was found.");
  v("split", report.split, "The evaluated split.");
  v("counts", report.counts, "Its samples.");
}

engine::OperatingCriterion read_operating_criterion(const std::string& text) {
  if (const auto criterion = engine::parse_operating_criterion(text)) return *criterion;
  throw ConfigError({}, "--operating-point: '", printable(text),
                    "' is not a criterion; give sensitivity=SHARE or "
                    "specificity=SHARE with a share above 0 and at most 1, cost=FP:FN "
                    "with the costs, above 0, of a false positive and a false negative, or "
                    "cost=FILE.csv with the costs of all classes");
}

OperatingReport find_operating_report(const std::string& criterion, std::int64_t positive,
                                      const std::string& positive_class, double temperature,
                                      const engine::LabelledLogits& validation, Split split,
                                      const engine::LabelledLogits& scores) {
  const std::size_t index = positive;
  const engine::BinaryScores known = engine::one_against_rest(validation).at(index);
  if (known.positives() == 0 || known.negatives() == 0) {
    throw DataError(to_string(Split::kValidation), "has ", known.positives(),
                    " samples of the class ", printable(positive_class), " and ", known.negatives(),
                    " others; an operating point needs both");
  }
  OperatingReport report;
  report.criterion = criterion;
  report.positive_class = positive_class;
  report.positive_index = positive;
  const engine::OperatingCriterion wanted = read_operating_criterion(criterion);
  report.log_odds = engine::find_operating_threshold(known, wanted);
  if (validation.classes() == 2) report.temperature = temperature;
  report.found = engine::count_at_threshold(known, report.log_odds);
  report.split = split;
  const engine::BinaryScores measured = engine::one_against_rest(scores).at(index);
  report.counts = engine::count_at_threshold(measured, report.log_odds);
  if (split != Split::kValidation) {
    report.contradiction = add_advice(
        find_goal_contradiction(to_string(split), wanted, report.counts,
                                engine::count_at_threshold(measured, 0)),
        "predict with --default-threshold, or find the threshold on more validation samples");
  }
  return report;
}

Table make_rates_table(const std::vector<std::pair<std::string, engine::OperatingCounts>>& rows) {
  Table table({"split", "sensitivity (95 % interval)", "specificity (95 % interval)"},
              NumbersFrom{1}, "Operating point");
  for (const auto& [samples, counts] : rows) table.add(rate_cells(samples, counts));
  return table;
}

std::string describe_threshold(const MeasuredThreshold& threshold) {
  const std::string name = printable(threshold.positive_class);
  const std::string point = concat("operating point: ", printable(threshold.criterion), ": ");
  if (!std::isfinite(threshold.log_odds)) {
    return concat(point, "no sample is called ", name, ", as no threshold below keeps it");
  }
  const double temperature = threshold.temperature.value_or(1);
  return concat(
      point, name, " from a probability of ", fixed(sigmoid(threshold.log_odds / temperature), 4),
      " on (log odds ", fixed(threshold.log_odds / temperature, 4),
      temperature == 1 ? "" : concat(", at the temperature ", fixed(temperature, 4)), ")");
}

Document show_operating_point(const OperatingReport& report, const std::string& ending) {
  Document document;
  document.add(Paragraph{describe_threshold(report) + ending});
  std::vector<std::pair<std::string, engine::OperatingCounts>> rows{
      {to_string(Split::kValidation), report.found}};
  if (report.split != Split::kValidation) rows.emplace_back(to_string(report.split), report.counts);
  document.add(make_rates_table(rows));
  return document;
}

}  // namespace trainer::results

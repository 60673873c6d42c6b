#include "commands/evaluate/operate.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"

namespace trainer::commands {
namespace {

std::string rate_text(double rate, const engine::Interval& interval, std::int64_t part,
                      std::int64_t whole) {
  return concat(percent(rate), " (", percent(interval.low), " to ", percent(interval.high), ", ",
                part, " of ", whole, ")");
}

std::vector<std::string> rate_cells(const std::string& samples,
                                    const engine::OperatingCounts& counts) {
  return {samples,
          rate_text(counts.sensitivity(), counts.sensitivity_interval(), counts.true_positives,
                    counts.true_positives + counts.false_negatives),
          rate_text(counts.specificity(), counts.specificity_interval(), counts.true_negatives,
                    counts.true_negatives + counts.false_positives)};
}

}  // namespace

engine::OperatingCriterion read_operating_criterion(const std::string& text) {
  if (const auto criterion = engine::parse_operating_criterion(text)) return *criterion;
  throw ConfigError({},
                    concat("--operating-point: '", printable(text),
                           "' is not a criterion; give sensitivity=SHARE or "
                           "specificity=SHARE with a share above 0 and at most 1, cost=FP:FN "
                           "with the costs, above 0, of a false positive and a false negative, or "
                           "cost=FILE.csv with the costs of all classes"));
}

OperatingReport find_operating_report(const std::string& criterion, std::int64_t positive,
                                      const std::string& positive_class,
                                      const engine::LabelledLogits& validation, Split split,
                                      const engine::LabelledLogits& scores) {
  const std::size_t index = positive;
  const engine::BinaryScores known = engine::one_against_rest(validation).at(index);
  if (known.positives() == 0 || known.negatives() == 0) {
    throw DataError(
        to_string(Split::kValidation),
        concat("has ", known.positives(), " samples of the class ", printable(positive_class),
               " and ", known.negatives(), " others; an operating point needs both"));
  }
  OperatingReport report;
  report.criterion = criterion;
  report.positive_class = positive_class;
  report.positive_index = positive;
  report.log_odds = engine::find_operating_threshold(known, read_operating_criterion(criterion));
  report.found = engine::count_at_threshold(known, report.log_odds);
  report.split = split;
  report.counts =
      engine::count_at_threshold(engine::one_against_rest(scores).at(index), report.log_odds);
  return report;
}

nlohmann::ordered_json operating_counts_json(const engine::OperatingCounts& counts) {
  const engine::Interval sensitivity = counts.sensitivity_interval();
  const engine::Interval specificity = counts.specificity_interval();
  return {{"true_positives", counts.true_positives}, {"false_negatives", counts.false_negatives},
          {"true_negatives", counts.true_negatives}, {"false_positives", counts.false_positives},
          {"sensitivity", counts.sensitivity()},     {"sensitivity_low", sensitivity.low},
          {"sensitivity_high", sensitivity.high},    {"specificity", counts.specificity()},
          {"specificity_low", specificity.low},      {"specificity_high", specificity.high}};
}

void print_operating_counts(
    const std::vector<std::pair<std::string, engine::OperatingCounts>>& rows, std::ostream& out) {
  Table table({"split", "sensitivity (95 % interval)", "specificity (95 % interval)"}, {1, 2});
  for (const auto& [samples, counts] : rows) table.add(rate_cells(samples, counts));
  table.print(out);
}

nlohmann::ordered_json threshold_json(const MeasuredThreshold& threshold) {
  return {{"criterion", threshold.criterion},
          {"positive_class", threshold.positive_class},
          {"positive_index", threshold.positive_index},
          {"log_odds", threshold.log_odds},
          {"probability", sigmoid(threshold.log_odds)}};
}

std::string describe_threshold(const MeasuredThreshold& threshold) {
  return concat("operating point: ", printable(threshold.criterion), ": ",
                printable(threshold.positive_class), " from a probability of ",
                fixed(sigmoid(threshold.log_odds), 4), " on (log odds ",
                fixed(threshold.log_odds, 4), ")");
}

nlohmann::ordered_json operating_point_json(const OperatingReport& report) {
  nlohmann::ordered_json json = threshold_json(report);
  json["validation"] = operating_counts_json(report.found);
  json["split"] = to_string(report.split);
  json["counts"] = operating_counts_json(report.counts);
  return json;
}

void print_operating_point(const OperatingReport& report, const std::string& stored,
                           std::ostream& out) {
  out << describe_threshold(report);
  if (!stored.empty()) out << "; stored in " << printable(stored);
  out << '\n';
  std::vector<std::pair<std::string, engine::OperatingCounts>> rows{
      {to_string(Split::kValidation), report.found}};
  if (report.split != Split::kValidation) rows.emplace_back(to_string(report.split), report.counts);
  print_operating_counts(rows, out);
}

}  // namespace trainer::commands

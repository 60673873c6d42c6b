#include "results/decisions/operate.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "results/decisions/contradiction.h"

namespace trainer::results {
namespace {

std::string rate_text(double rate, const engine::Interval& interval, std::int64_t part,
                      std::int64_t whole) {
  if (whole == 0) return "-";
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

// Returns the rate with its interval, or nulls without samples to measure it on.
void add_rate(nlohmann::ordered_json& json, const std::string& name, double rate,
              const engine::Interval& interval, std::int64_t whole) {
  for (const auto& [suffix, value] :
       {std::pair{"", rate}, {"_low", interval.low}, {"_high", interval.high}}) {
    json[name + suffix] = whole == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  }
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
                                      const std::string& positive_class, double temperature,
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

nlohmann::ordered_json operating_counts_json(const engine::OperatingCounts& counts) {
  nlohmann::ordered_json json{{"true_positives", counts.true_positives},
                              {"false_negatives", counts.false_negatives},
                              {"true_negatives", counts.true_negatives},
                              {"false_positives", counts.false_positives}};
  add_rate(json, "sensitivity", counts.sensitivity(), counts.sensitivity_interval(),
           counts.positives());
  add_rate(json, "specificity", counts.specificity(), counts.specificity_interval(),
           counts.negatives());
  return json;
}

void print_operating_counts(
    const std::vector<std::pair<std::string, engine::OperatingCounts>>& rows, std::ostream& out) {
  Table table({"split", "sensitivity (95 % interval)", "specificity (95 % interval)"}, {1, 2});
  for (const auto& [samples, counts] : rows) table.add(rate_cells(samples, counts));
  table.print(out);
}

nlohmann::ordered_json threshold_json(const MeasuredThreshold& threshold) {
  nlohmann::ordered_json json{{"criterion", threshold.criterion},
                              {"positive_class", threshold.positive_class},
                              {"positive_index", threshold.positive_index},
                              {"log_odds", nullptr},
                              {"probability", nullptr},
                              {"temperature", nullptr},
                              {"contradiction", threshold.contradiction}};
  if (threshold.temperature) json["temperature"] = *threshold.temperature;
  if (std::isfinite(threshold.log_odds)) {
    json["log_odds"] = threshold.log_odds;
    json["probability"] = sigmoid(threshold.log_odds / threshold.temperature.value_or(1));
  }
  return json;
}

std::string describe_threshold(const MeasuredThreshold& threshold) {
  const std::string name = printable(threshold.positive_class);
  const std::string point = concat("operating point: ", printable(threshold.criterion), ": ");
  if (std::isinf(threshold.log_odds)) {
    return concat(point, "no sample is called ", name, ", as no threshold below keeps it");
  }
  const double temperature = threshold.temperature.value_or(1);
  return concat(
      point, name, " from a probability of ", fixed(sigmoid(threshold.log_odds / temperature), 4),
      " on (log odds ", fixed(threshold.log_odds / temperature, 4),
      temperature == 1 ? "" : concat(", at the temperature ", fixed(temperature, 4)), ")");
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

}  // namespace trainer::results

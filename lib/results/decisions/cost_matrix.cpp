#include "results/decisions/cost_matrix.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/csv.h"
#include "base/formats/csv_lines.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "results/decisions/contradiction.h"
#include "results/decisions/prediction.h"
#include "results/evaluation/evaluation_report.h"

namespace trainer::results {
namespace {

constexpr std::size_t kMaxShownClasses = 20;  // classes whose names fit a message

// Reads the table of one file.
class CostTable {
 public:
  CostTable(std::string file, const std::vector<std::string>& classes)
      : file_(std::move(file)), classes_(classes) {}

  engine::CostMatrix read() const {
    const std::vector<CsvLine> rows = read_csv_lines(file_, "");
    const std::size_t count = classes_.size();
    if (rows.empty()) throw DataError(file_, "is empty; " + form());
    const std::vector<std::size_t> decided = find_columns(rows.front());
    if (rows.size() != count + 1) {
      fail(rows.back(),
           concat("the table has ", rows.size() - 1, " rows below its header, and the model has ",
                  count, " classes; ", form()));
    }
    engine::CostMatrix matrix{count, std::vector<double>(count * count)};
    std::vector<bool> is_read(count);
    for (std::size_t r = 1; r < rows.size(); ++r) {
      const CsvLine& row = rows[r];
      if (row.cells.size() != count + 1) {
        fail(row, concat("has ", row.cells.size(), " cells, the header has ", count + 1,
                         "; give each class one column and one row"));
      }
      const std::size_t actual = find_class(row, row.cells.front(), is_read);
      for (std::size_t c = 0; c < count; ++c) {
        matrix.costs[actual * count + decided[c]] = read_cost(row, row.cells[c + 1]);
      }
    }
    return matrix;
  }

 private:
  std::string form() const {
    std::vector<std::string> header{"true"};
    for (const std::string& name : classes_) header.push_back(csv_cell(name));
    const std::string cells = classes_.size() <= kMaxShownClasses
                                  ? concat('`', join(header, ","), '`')
                                  : concat("of `true` and the ", classes_.size(), " classes");
    return concat("expected a header ", cells,
                  ", and a row per true class with its name and its costs");
  }
  [[noreturn]] void fail(const CsvLine& row, const std::string& reason) const {
    throw DataError(concat(file_, ":", row.line), reason);
  }
  // Returns the class of each column but the first.
  std::vector<std::size_t> find_columns(const CsvLine& header) const {
    if (header.cells.size() != classes_.size() + 1) {
      fail(header, concat("the header has ", header.cells.size(), " cells; ", form()));
    }
    std::vector<bool> is_named(classes_.size());
    std::vector<std::size_t> columns;
    for (std::size_t c = 1; c < header.cells.size(); ++c) {
      columns.push_back(find_class(header, header.cells[c], is_named));
    }
    return columns;
  }
  // Returns the class of a name, and marks it in `is_named`.
  std::size_t find_class(const CsvLine& row, const std::string& name,
                         std::vector<bool>& is_named) const {
    const auto found = std::find(classes_.begin(), classes_.end(), name);
    if (found == classes_.end()) {
      fail(row, concat("'", printable(name), "' is not a class of the model; ", form()));
    }
    const auto index = static_cast<std::size_t>(found - classes_.begin());
    if (is_named[index]) {
      fail(row, concat("names the class '", printable(name),
                       "' a second time; give each class one column and one row"));
    }
    is_named[index] = true;
    return index;
  }
  double read_cost(const CsvLine& row, const std::string& cell) const {
    const std::optional<double> cost = parse_real(cell);
    if (cost && std::isfinite(*cost) && *cost >= 0) return *cost;
    fail(row, concat("'", printable(cell), "' is not a cost; expected a number of at least 0"));
  }

  std::string file_;
  const std::vector<std::string>& classes_;
};

CostedDecisions count_costs(const engine::CostMatrix& costs, const engine::LabelledLogits& scores,
                            const PredictOptions& options) {
  engine::Confusion counts(static_cast<std::int64_t>(costs.classes));
  std::int64_t correct = 0;
  CostedDecisions result;
  for (std::size_t i = 0; i < scores.labels.size(); ++i) {
    Output output;
    output.logits = scores.row(i);
    const Prediction decided = make_prediction(output, options);
    const std::int32_t actual = scores.labels[i];
    counts.add(actual, decided.predicted);
    correct += decided.predicted == actual ? 1 : 0;
    result.cost +=
        costs.at(static_cast<std::size_t>(actual), static_cast<std::size_t>(decided.predicted));
  }
  result.cost /= static_cast<double>(scores.samples());
  result.accuracy = share(correct, scores.samples());
  result.counts = count_confusions(counts);
  return result;
}

}  // namespace

void fields(FieldVisitor& v, CostedDecisions& decisions) {
  v("cost", decisions.cost, Unit("cost", 0), "Mean cost of the samples.");
  v("accuracy", decisions.accuracy, kShare, "Samples that are decided right.");
  fields(v, decisions.counts);
}

void fields(FieldVisitor& v, CostReport& report) {
  v("criterion", report.criterion, "The criterion of --operating-point.");
  v("classes", report.classes, "Names of the classes.");
  v("costs", report.costs, Unit("cost", 0).never_null(),
    "A row per true class, with the cost of each decided class.");
  v("temperature", report.temperature,
    "The temperature of the probabilities; null if each fold has its own.");
  v("split", report.split, "The evaluated samples.");
  v.newer("contradiction", report.contradiction, kContradictionMeaning);
  v("samples", report.samples, kSamples, "Their number.");
  v("likeliest", report.likeliest, "Decisions for the class of the largest probability.");
  v("least_cost", report.least_cost, "Decisions for the class of the least expected cost.");
}

std::string find_cost_file(const std::string& criterion) {
  constexpr std::string_view kCost = "cost=";
  if (!criterion.starts_with(kCost)) return "";
  const std::string value = criterion.substr(kCost.size());
  if (engine::parse_operating_criterion(criterion)) return "";
  const bool is_file = to_lower(Path(value).extension().string()) == ".csv" ||
                       std::filesystem::is_regular_file(value);
  return is_file ? value : "";
}

engine::CostMatrix read_cost_matrix(const std::string& file,
                                    const std::vector<std::string>& classes) {
  return CostTable(file, classes).read();
}

CostReport make_cost_report(const std::string& criterion, const engine::CostMatrix& costs,
                            const std::vector<std::string>& classes,
                            std::optional<double> temperature, const std::string& split,
                            const engine::LabelledLogits& scores) {
  CostReport report;
  report.criterion = criterion;
  report.classes = classes;
  report.split = split;
  report.temperature = temperature;
  PredictOptions options;
  if (scores.outputs == 1) options.loss = LossKind::kBinaryCrossEntropy;
  options.temperature = temperature.value_or(1);
  report.likeliest = count_costs(costs, scores, options);
  options.costs = costs;
  report.least_cost = count_costs(costs, scores, options);
  for (std::size_t r = 0; r < costs.classes; ++r) {
    std::vector<double>& row = report.costs.emplace_back();
    for (std::size_t c = 0; c < costs.classes; ++c) row.push_back(costs.at(r, c));
  }
  report.samples = scores.samples();
  report.contradiction =
      add_advice(find_cost_contradiction(split, report.likeliest.cost, report.least_cost.cost),
                 "predict with --default-threshold");
  return report;
}

Table make_cost_table(const CostReport& report) {
  std::vector<std::string> header{"true class \\ decided class"};
  header.insert(header.end(), report.classes.begin(), report.classes.end());
  Table table(std::move(header), NumbersFrom{1}, "Costs");
  for (std::size_t r = 0; r < std::min(report.costs.size(), report.classes.size()); ++r) {
    std::vector<std::string> row{report.classes[r]};
    for (const double cost : report.costs[r]) row.push_back(concat(cost));
    row.resize(report.classes.size() + 1);
    table.add(std::move(row));
  }
  return table;
}

Document show_costs(const CostReport& report, const std::string& ending, bool brief) {
  Document document;
  const double temperature = report.temperature.value_or(1);
  document.add(Paragraph{concat(
      "operating point: ", printable(report.criterion), ": the class of the least expected cost",
      temperature == 1 ? "" : concat(", at the temperature ", fixed(temperature, 4)), ending)});
  Table table({concat(report.split, ": decision"), "mean cost", "accuracy"}, NumbersFrom{1},
              "Cost of the decisions");
  const auto add = [&](const char* name, const CostedDecisions& decisions) {
    table.add({name, fixed(decisions.cost, 4), percent(decisions.accuracy)});
  };
  add("the likeliest class", report.likeliest);
  add("the class of the least expected cost", report.least_cost);
  document.add(std::move(table));
  ConfusionMatrix counts{report.classes, {}, "true \\ decided"};
  if (const auto& rows = report.least_cost.counts.matrix) {
    for (const auto& row : *rows) counts.counts.insert(counts.counts.end(), row.begin(), row.end());
  }
  const auto classes = std::ssize(report.classes);
  if (!brief && classes <= kMaxPrintedMatrix && std::ssize(counts.counts) == classes * classes) {
    document.add(BlankLine{});
    document.add(std::move(counts));
  }
  return document;
}

}  // namespace trainer::results

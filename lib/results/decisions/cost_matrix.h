// `trainer evaluate --operating-point cost=FILE.csv`: decides for the class with the least expected
// cost, and measures what the decisions cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/metrics/labelled_logits.h"
#include "engine/metrics/operating_point.h"
#include "results/document/document.h"
#include "results/field.h"
#include "results/metrics.h"

namespace trainer::results {

// Returns the path of the file if a criterion is "cost=FILE.csv" or "cost=" and a file that exists,
// else "".
std::string find_cost_file(const std::string& criterion);

// Reads a table of costs: a header with a cell for the true classes and then the name of each class
// that is decided for, and a row for each true class with its name and its costs. Classes may be in
// any order. Throws DataError with the line if a class is missing, named twice or unknown, or if a
// cost is not a finite number of at least 0.
engine::CostMatrix read_cost_matrix(const std::string& file,
                                    const std::vector<std::string>& classes);

// Decisions about samples.
struct CostedDecisions {
  double cost = 0, accuracy = 0;  // means over the samples
  ConfusionCounts counts;         // by true and decided class
};
void fields(FieldVisitor& v, CostedDecisions& decisions);

struct CostReport {
  std::string criterion;  // the user's text
  std::vector<std::string> classes;
  std::vector<std::vector<double>> costs;  // a row per true class, as in engine::CostMatrix
  // The temperature of the probabilities; empty if each fold of a crossval has its own.
  std::optional<double> temperature;
  std::string split;          // the name of the samples: "test"
  std::string contradiction;  // see contradiction.h
  std::int64_t samples = 0;
  CostedDecisions likeliest;   // decides for the class of the largest probability
  CostedDecisions least_cost;  // decides for the class of the least expected cost
};
void fields(FieldVisitor& v, CostReport& report);
// Decides about the samples of `scores`, of which there is at least one, by the probabilities at
// this temperature, or those of logits that are corrected already.
CostReport make_cost_report(const std::string& criterion, const engine::CostMatrix& costs,
                            const std::vector<std::string>& classes,
                            std::optional<double> temperature, const std::string& split,
                            const engine::LabelledLogits& scores);

// Returns the costs, a row per true class.
Table make_cost_table(const CostReport& report);
// Returns the mean cost and the accuracy of both kinds of decisions and, unless `brief`, the counts
// by true and decided class. `ending` ends the first line: "; stored in ...".
Document show_costs(const CostReport& report, const std::string& ending, bool brief);

}  // namespace trainer::results

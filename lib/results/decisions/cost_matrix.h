// `trainer evaluate --operating-point cost=FILE.csv`: decides for the class with the least expected
// cost, and measures what the decisions cost.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "engine/metrics/confusion.h"
#include "engine/metrics/labelled_logits.h"
#include "engine/metrics/operating_point.h"

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

// Decisions about samples, by true and decided class.
struct CostedDecisions {
  engine::Confusion counts;
  std::int64_t samples = 0, correct = 0;
  double cost = 0;  // the mean over the samples
};

struct CostReport {
  std::string criterion;  // the user's text
  engine::CostMatrix costs;
  std::vector<std::string> classes;
  std::string split;  // the name of the samples: "test"
  // The temperature of the probabilities; empty if each fold of a crossval has its own.
  std::optional<double> temperature;
  CostedDecisions likeliest;   // decides for the class of the largest probability
  CostedDecisions least_cost;  // decides for the class of the least expected cost
  std::string contradiction;   // see contradiction.h
};
// Decides about the samples of `scores`, of which there is at least one, by the probabilities at
// this temperature, or those of logits that are corrected already.
CostReport make_cost_report(const std::string& criterion, engine::CostMatrix costs,
                            const std::vector<std::string>& classes,
                            std::optional<double> temperature, const std::string& split,
                            const engine::LabelledLogits& scores);

// Returns the content of kOperatingPointFile: the criterion, the costs, and the mean cost, accuracy
// and counts of both decisions.
nlohmann::ordered_json costs_json(const CostReport& report);

// Prints the mean cost and the accuracy of both kinds of decisions and, unless `brief`, the counts
// by true and decided class. `stored` is the file that has the costs, or "".
void print_costs(const CostReport& report, const std::string& stored, bool brief,
                 std::ostream& out);

}  // namespace trainer::results

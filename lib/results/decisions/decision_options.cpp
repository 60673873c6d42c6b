#include "results/decisions/decision_options.h"

namespace trainer::results {

std::string DecisionOptions::first() const {
  if (calibrate) return "--calibrate";
  if (curves) return "--curves";
  if (!operating_point.empty()) return "--operating-point";
  return abstain ? "--abstain" : "";
}

}  // namespace trainer::results

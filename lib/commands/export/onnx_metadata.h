// What an ONNX file states about its model beside the graph.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "inference/open_model/open_model.h"

namespace trainer::commands {

// Returns the classes as a JSON list, the preprocessing of images before and inside the model, the
// run, and the decisions that the run has stored: the thresholds of several labels per image, or
// the operating point as JSON "operating_point", if it is one without mirror images. That is its
// criterion, and either "costs", a row of costs per true class, or, of two classes,
// "positive_class" and "log_odds", from which on that class is decided for; null if it never is.
// The odds are those of logits that are divided by `temperature`.
std::vector<std::pair<std::string, std::string>> make_onnx_metadata(
    const inference::OpenedModel& opened, double temperature);

}  // namespace trainer::commands

// What an ONNX file, and the JSON file beside it, state about the model.
#pragma once

#include "inference/open_model/open_model.h"
#include "model/files/onnx.h"
#include "results/exported_model.h"

namespace trainer::commands {

// Returns the description of a model that is exported with these options, with the decisions that
// the run has stored: the thresholds of several labels per image, or the operating point, if it is
// one without mirror images.
results::ExportedModel describe_model(const inference::OpenedModel& opened,
                                      const model::OnnxOptions& options);

// Returns the metadata of the file: the description as JSON "model", and as texts the classes, the
// preprocessing, the run, the thresholds and the operating point.
model::OnnxMetadata make_onnx_metadata(const inference::OpenedModel& opened,
                                       const results::ExportedModel& model);

}  // namespace trainer::commands

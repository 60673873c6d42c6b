// The Python program of `export --example`.
#pragma once

#include "base/files/files.h"
#include "results/exported_model.h"

namespace trainer::commands {

// Writes a program that predicts image files by the ONNX file beside it and the JSON file of the
// model, with the packages onnxruntime, numpy and pillow. Throws ConfigError for a model whose
// images it cannot read: those that are not resized from files, that have another number of
// channels than 1 or 3, or a range of 16-bit values.
void write_example(const results::ExportedModel& model, const Path& path);

}  // namespace trainer::commands

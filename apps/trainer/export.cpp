#include "model/export.h"

#include <iostream>

#include "commands.h"
#include "train/trained.h"

namespace trainer::app {

int export_model(const ExportArguments& arguments) {
  model::check_export_path(arguments.format, arguments.output, arguments.overwrite);
  const train::Trained trained =
      train::open_trained(arguments.run, arguments.best, arguments.overrides, environment(), warn);
  const graph::Graph model = model::build_model(trained.config.model, trained.config.data,
                                                train::sample_spec(trained), trained.config.seed);
  if (arguments.format == "keras_h5") {
    model::export_keras_h5(model, trained.file.tensors, arguments.output);
  } else if (arguments.format == "safetensors") {
    model::export_safetensors(model, trained.file.tensors, arguments.output);
  } else {
    model::export_onnx(model, trained.file.tensors, train::onnx_metadata(trained),
                       arguments.output);
  }
  std::cout << arguments.output << ": step " << trained.step << " of " << arguments.run << ", as "
            << arguments.format << '\n';
  return kExitOk;
}

}  // namespace trainer::app

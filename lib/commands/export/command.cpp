#include "commands/export/command.h"

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "commands/export/example.inl"
#include "commands/export/model_description.h"
#include "inference/decisions/stored_decisions.h"
#include "inference/open_model/run_archive.h"
#include "model/files/export.h"
#include "model/files/onnx.h"
#include "model/files/scale_logits.h"
#include "model/files/source_export.h"
#include "results/write_json.h"

namespace trainer::commands {

void fields(results::FieldVisitor& v, ExportEvent& event) {
  v.event("exported");
  v("output", event.output, "The exported file, or the folder of timm.");
  v("format", event.format, "Its format.");
  v("run", event.run, "The run, checkpoint or config that was exported.");
  v("step", event.step, results::kSteps, "The step of the checkpoint.");
  v.when_present("checkpoint", event.checkpoint, "Which checkpoint of the run: best or last.");
  v.when_present("temperature", event.temperature, "The temperature of a calibrated model.");
  v.when_present("temperature_applied", event.temperature_applied,
                 "Whether the file divides the logits by it.");
  v.when_present("description", event.description,
                 "The file that describes the input and output of an ONNX file.");
  v.when_present("example", event.example, "The Python program that uses it.");
}

namespace {

// Writes a program that predicts image files by the ONNX file beside it and the JSON file of the
// model, with the packages onnxruntime, numpy and pillow. Throws ConfigError for a model whose
// images it cannot read: those that are not resized from files, that have another number of
// channels than 1 or 3, or a range of 16-bit values.
void write_example(const results::ExportedModel& model, const Path& path) {
  const std::int64_t channels = model.input.shape.back();
  if (!model.resize || !model.resize->range.empty() || (channels != 1 && channels != 3)) {
    throw ConfigError({},
                      "--example reads image files of 8 bits with 1 or 3 channels, which this "
                      "model was not trained on; leave --example out");
  }
  write_file_atomic(path, kExample);
}

// Returns the ONNX options of the arguments, but for the metadata.
model::OnnxOptions find_onnx_options(const ExportArguments& arguments,
                                     const inference::OpenedModel& opened, double temperature) {
  model::OnnxOptions options;
  options.temperature = temperature;
  if (arguments.onnx_input == "uint8") {
    if (inference::sample_spec(opened).image_type != DType::kUInt8) {
      throw ConfigError({},
                        "--onnx-input uint8: the model was trained on numbers that are not "
                        "bytes; leave it out");
    }
    options.input = DType::kUInt8;
  }
  if (arguments.onnx_output == "probabilities") {
    options.probabilities_of = opened.config.model.loss;
  }
  return options;
}

// Throws ConfigError for options of ONNX files with another format, and for files beside the output
// that may not be replaced.
void check_onnx_arguments(const ExportArguments& arguments, const ExportEvent& event) {
  if (event.format == "onnx") {
    for (const std::string& path : {event.description, event.example}) {
      if (path.empty()) continue;
      if (path == arguments.output) {
        throw ConfigError({}, concat("--output ", printable(path),
                                     ": a file beside the model has "
                                     "this name; end it in .onnx"));
      }
      check_output_path("--output", path, arguments.overwrite);
    }
  } else if (!arguments.onnx_input.empty() || !arguments.onnx_output.empty() || arguments.example) {
    throw ConfigError({},
                      "--onnx-input, --onnx-output and --example are for ONNX files; give "
                      "--format onnx");
  }
}

// Writes the ONNX file and the files beside it.
void write_onnx(const ExportEvent& event, inference::OpenedModel& opened, const graph::Graph& model,
                const ExportArguments& arguments) {
  model::OnnxOptions options = find_onnx_options(arguments, opened, event.temperature.value_or(1));
  const results::ExportedModel description = describe_model(opened, options);
  options.metadata = make_onnx_metadata(opened, description);
  if (!event.example.empty()) write_example(description, event.example);
  model::export_onnx(model, opened.file.tensors, options, event.output);
  if (event.description.empty()) return;
  write_file_atomic(event.description, results::to_line(description));
}

// Writes the file of `event`, and returns whether its logits are divided by the temperature.
bool write_model(const ExportEvent& event, inference::OpenedModel& opened,
                 const ExportArguments& arguments, const Context& context) {
  const double temperature = event.temperature.value_or(1);
  const graph::Graph model = model::build_model(opened.config, inference::sample_spec(opened));
  std::vector<checkpoint::Tensor>& tensors = opened.file.tensors;
  if (event.format == "safetensors") {
    // Its parameters stay those of training, because training starts from such files too.
    model::export_safetensors(model, tensors, event.output, opened.classes, temperature);
    return false;
  }
  if (event.format == "onnx") {
    write_onnx(event, opened, model, arguments);
    return true;
  }
  const bool is_applied = temperature == 1 || model::divide_logits(model, temperature, tensors);
  if (event.format == "keras_h5") {
    const config::Model& config = opened.config.model;
    model::export_keras_h5(model, config, tensors, event.output, opened.classes);
    if (!arguments.quiet) context.warn(model::keras_note(model, config));
  } else {
    const auto write = event.format == "timm" ? model::export_timm : model::export_torch;
    write(opened.config, inference::sample_spec(opened), tensors, event.output, opened.classes);
  }
  return is_applied;
}

// Returns the part of the output line about the temperature.
std::string describe_temperature(const ExportEvent& event) {
  if (!event.temperature) return "";
  const std::string value = fixed(*event.temperature, 4);
  if (*event.temperature_applied) return concat("; logits are divided by the temperature ", value);
  return concat("; not calibrated: divide the logits by the temperature ", value,
                event.format == "safetensors" ? ", which its metadata has" : "");
}

std::string describe_source(const ExportEvent& event, bool is_config) {
  if (is_config) return "the untrained model";
  return concat("step ", event.step, event.checkpoint == "best" ? " (the best checkpoint)" : "");
}

}  // namespace

int execute(const ExportArguments& arguments, const Context& context) {
  const std::string format =
      model::find_export_format(arguments.format, arguments.output, arguments.overwrite);
  ExportEvent event;
  event.output = arguments.output;
  event.format = format;
  // A device or a FIFO takes the model alone.
  const bool is_file = !std::filesystem::exists(arguments.output) ||
                       std::filesystem::is_regular_file(arguments.output);
  if (format == "onnx" && is_file) {
    event.description = Path(arguments.output).replace_extension(".json").string();
    if (arguments.example) event.example = Path(arguments.output).replace_extension(".py").string();
  }
  check_onnx_arguments(arguments, event);
  inference::OpenedModel opened = open_model(arguments, context);
  event.run = opened.path;
  event.step = opened.step;
  event.checkpoint = to_string(opened.checkpoint);
  const double temperature =
      arguments.uncalibrated ? 1 : inference::find_temperature(opened, false);
  if (temperature != 1) event.temperature = temperature;
  inference::warn_of_novelty(opened, format);
  const bool is_applied = write_model(event, opened, arguments, context);
  if (event.temperature) event.temperature_applied = is_applied;
  if (arguments.json) {
    results::print_json(event, context.out);
  } else if (!arguments.quiet) {
    context.out << event.output << ": "
                << describe_source(event, inference::is_config(arguments.model)) << " of "
                << arguments.model << ", as " << format << describe_temperature(event) << '\n';
    for (const std::string& path : {event.description, event.example}) {
      if (path.empty()) continue;
      const bool is_example = path == event.example;
      context.out << path << ": "
                  << (is_example ? "predicts image files" : "describes input and output") << '\n';
    }
  }
  return kExitOk;
}

}  // namespace trainer::commands

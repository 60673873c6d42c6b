#include "commands/predict/predict.h"

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/table.h"
#include "commands.h"
#include "commands/evaluate/thresholds.h"
#include "commands/open_model/calibration_file.h"
#include "commands/predict/features.h"
#include "commands/predict/labels.h"
#include "options.h"
#include "train/open.h"

namespace trainer::app {
namespace {

// What an image file that cannot be read does to the predictions of the others.
enum class OnError {
  kFail,  // they end
  kSkip,  // none
  kName   // none, but the exit code is that of a data error
};

struct PredictArguments : ModelArguments {
  // Image files, folders of them or array files; a split of the config's data when empty.
  std::vector<std::string> images;
  std::string split;                // as of evaluate
  std::string format = "table";     // table, csv, jsonl
  std::optional<std::int64_t> top;  // classes shown, the likeliest first
  bool json = false;                // the same as format jsonl
  OnError on_error = OnError::kName;
  std::optional<std::int64_t> limit;
  bool quiet = false;
  bool logits = false;        // beside the probabilities
  bool flip = false;          // with mirror images
  bool uncalibrated = false;  // without the temperature of the run
  std::string features;       // the file for them, in place of predictions
  std::string layer;          // of the features
  bool overwrite = false;
};

// Returns the code of a data error if files were left out that --on-error skip, or the config for
// those of a split, does not leave out. `skipped`: those of them that were named.
int exit_code(const PredictArguments& arguments,
              const std::vector<commands::PredictionInput>& inputs, std::int64_t skipped) {
  if (skipped > 0) {
    warn(concat(skipped, skipped == 1 ? " file was skipped" : " files were skipped"));
  }
  const bool all = skipped == 0 && std::all_of(inputs.begin(), inputs.end(), [](const auto& input) {
                     return input.unreadable == 0;
                   });
  return all || arguments.on_error == OnError::kSkip ? kExitOk : kExitData;
}

int write_features(const PredictArguments& arguments, const commands::OpenedModel& opened,
                   const std::vector<commands::PredictionInput>& inputs) {
  commands::FeatureEngine features = commands::make_feature_engine(opened, inputs, arguments.layer);
  std::int64_t skipped = 0;
  const std::int64_t images = commands::write_features(
      features, inputs, arguments.limit, arguments.features, [&](const std::string& reason) {
        ++skipped;
        if (!arguments.quiet) warn("skipped, its features are NaN: " + reason);
      });
  if (!arguments.quiet) {
    const std::string shape = to_string(features.shape.with_batch(images));
    std::cout << arguments.features << ": features " << shape << " of layer " << features.layer
              << ", float32\n";
  }
  return exit_code(arguments, inputs, skipped);
}

// Writes the labels above their thresholds, of a model of several labels per image.
int write_labels(const PredictArguments& arguments, const commands::OpenedModel& opened,
                 const std::vector<commands::PredictionInput>& inputs) {
  if (arguments.top) {
    throw ConfigError({},
                      "--top is for one class per image; this model has several labels, and all "
                      "above their thresholds are written");
  }
  const auto engine = commands::make_engine(opened, inputs);
  commands::LabelWriter writer(arguments.json ? "jsonl" : arguments.format, opened.classes,
                               commands::read_thresholds(opened).logits, inputs, arguments.logits,
                               std::cout);
  writer.header();
  std::int64_t skipped = 0;
  for (const commands::PredictionInput& input : inputs) {
    const auto each = [&](const commands::Output& output) {
      if (output.error.empty()) return writer.write(input, output);
      ++skipped;
      if (!arguments.quiet) warn("skipped: " + output.error);
    };
    commands::for_each_output(*engine, input,
                              {opened.config.model.loss, arguments.limit, arguments.flip}, each);
  }
  return exit_code(arguments, inputs, skipped);
}

int predict(const PredictArguments& arguments) {
  if (!arguments.features.empty()) {
    check_output_path("--features", arguments.features, arguments.overwrite);
  }
  const commands::OpenedModel opened = open_model(arguments);
  const auto inputs =
      commands::open_prediction_inputs(opened, arguments.images, parse_split(arguments.split),
                                       arguments.on_error != OnError::kFail, warn);
  if (!arguments.features.empty()) return write_features(arguments, opened, inputs);
  warn(commands::note_on_predictions(opened));
  if (opened.is_multi_label()) return write_labels(arguments, opened, inputs);
  const auto engine = commands::make_engine(opened, inputs);
  commands::PredictionWriter writer(arguments.json ? "jsonl" : arguments.format, opened.classes,
                                    inputs, arguments.top, std::cout,
                                    arguments.logits ? engine->outputs() : 0);
  writer.header();
  std::int64_t skipped = 0;
  const auto each = [&](const commands::PredictionInput& input,
                        const commands::Prediction& prediction) {
    if (prediction.error.empty()) return writer.write(input, prediction);
    ++skipped;
    if (!arguments.quiet) warn("skipped: " + prediction.error);
  };
  commands::PredictOptions options{opened.config.model.loss, arguments.limit, arguments.flip};
  if (!arguments.uncalibrated) {
    options.temperature = commands::find_temperature(opened, arguments.flip, warn);
    if (options.temperature != 1) {
      warn(Notice::note(concat(opened.path,
                               ": probabilities are calibrated: logits are divided by the "
                               "temperature ",
                               fixed(options.temperature, 4), " of ", commands::kCalibrationFile)));
    }
  }
  for (const commands::PredictionInput& input : inputs) {
    commands::predict(*engine, input, options,
                      [&](const commands::Prediction& prediction) { each(input, prediction); });
  }
  return exit_code(arguments, inputs, skipped);
}

// What is given beside or in place of probabilities.
void add_results(const Command& command, PredictArguments& arguments) {
  const Option flip = command.add_flag(
      "--flip", arguments.flip,
      "Mean of the probabilities of each image and its mirror image, left to right");
  const Option logits =
      command.add_flag("--logits", arguments.logits,
                       "Also the model's logits; with --flip those of the mean probabilities");
  const Option uncalibrated =
      command.add_flag("--uncalibrated", arguments.uncalibrated,
                       "Without the temperature that `evaluate --calibrate` has stored in the run");
  const Option features =
      command
          .add_option("--features", arguments.features,
                      "Write the features of the images, in their order, to this NPY file instead")
          .type_name("FILE.npy")
          .excludes(flip)
          .excludes(logits)
          .excludes(uncalibrated);
  for (const char* other : {"--format", "--json", "--top"}) features.excludes(other);
  command
      .add_option("--layer", arguments.layer,
                  "Layer whose output the features are; default the one before the last with "
                  "weights")
      .needs(features);
  command.add_flag("--overwrite", arguments.overwrite, "Replace a file of features that exists")
      .needs(features);
}

}  // namespace

void add_predict(CommandLine& line) {
  const auto arguments = std::make_shared<PredictArguments>();
  const Command command = line.add_command("predict", "Class probabilities of images");
  command.add_option("run", arguments->model, "Run folder, checkpoint or config file (YAML)")
      .required();
  add_model(command, *arguments);
  command.add_option(
      "images", arguments->images,
      "Image files, folders of them, or IDX, NPY or NPZ files; a split of the run's data when left "
      "out");
  command
      .add_option("--split", arguments->split,
                  "Which split when no files are given; test, or validation where there is none, "
                  "when left out")
      .choices({"test", "validation", "train"});
  const Option format = command.add_option("--format", arguments->format, "table, csv or jsonl")
                            .choices({"table", "csv", "jsonl"});
  command.add_option("--top", arguments->top, "Show the K likeliest classes")
      .type_name("K")
      .at_least_one();
  command
      .add_action(
          "--on-error",
          [arguments](const std::string& value) {
            arguments->on_error = value == "skip" ? OnError::kSkip : OnError::kFail;
          },
          "fail at an image file that cannot be read, or skip it and exit with 0; when left out "
          "it is skipped and named, and the exit code is 3")
      .choices({"fail", "skip"});
  command.add_option("--limit", arguments->limit, "Only the first N images").at_least_one();
  command.add_flag("--json", arguments->json, "The same as --format jsonl").excludes(format);
  add_results(command, *arguments);
  add_overrides(command, arguments->overrides, Shorthands::kDevice);
  command.add_flag("--quiet", arguments->quiet, "Count the files that are skipped, name none");
  command.run([arguments] { return predict(*arguments); });
}

}  // namespace trainer::app

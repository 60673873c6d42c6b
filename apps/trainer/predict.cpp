#include "commands/predict/predict.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "commands.h"
#include "commands/ensemble/ensemble.h"
#include "commands/evaluate/thresholds.h"
#include "commands/open_model/calibration_file.h"
#include "commands/open_model/operating_point_file.h"
#include "commands/open_model/stored_result.h"
#include "commands/predict/abstain.h"
#include "commands/predict/features.h"
#include "commands/predict/heatmap.h"
#include "commands/predict/labels.h"
#include "config/values.h"
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
  bool logits = false;             // beside the probabilities
  bool flip = false;               // with mirror images
  bool uncalibrated = false;       // without the temperature of the run
  bool default_threshold = false;  // without the operating point of the run
  std::optional<double> abstain;   // the share of wrong predictions that is allowed
  std::string ensemble;            // more runs, with commas between
  std::string features;            // the file for them, in place of predictions
  std::string layer;               // of the features
  std::string heatmaps;            // the folder for them, beside predictions
  std::string heatmap_class, heatmap_layer;
  std::string heatmap_method = "grad_cam";  // grad_cam, occlusion
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
  if (!arguments.heatmaps.empty()) {
    throw ConfigError({}, "--heatmap is for one class per image; this model has several labels");
  }
  if (arguments.abstain) {
    throw ConfigError({}, "--abstain is for one class per image; this model has several labels");
  }
  if (arguments.default_threshold) {
    throw ConfigError({},
                      "--default-threshold is for one class per image; this model has several "
                      "labels, each with a threshold of its own");
  }
  const auto engine = commands::make_engine(opened, inputs);
  commands::LabelWriter writer(arguments.json ? "jsonl" : arguments.format, opened.classes,
                               commands::read_thresholds(opened, arguments.flip).logits, inputs,
                               arguments.logits, std::cout);
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

// Writes the heatmaps of predictions.
class Heatmaps {
 public:
  Heatmaps(const PredictArguments& arguments, const commands::OpenedModel& opened,
           const std::vector<commands::PredictionInput>& inputs)
      : label_(find_class(opened, arguments.heatmap_class)),
        maker_(opened, inputs,
               arguments.heatmap_method == "occlusion" ? commands::HeatmapMethod::kOcclusion
                                                       : commands::HeatmapMethod::kGradCam,
               arguments.heatmap_layer),
        folder_(arguments.heatmaps, commands::name_heatmaps(inputs, arguments.limit),
                arguments.overwrite) {}

  // Returns the path of the heatmap. `number`: of the input.
  std::string write(std::size_t number, const commands::PredictionInput& input,
                    const commands::Prediction& prediction) {
    const std::int64_t index = prediction.index;
    folder_.write(number, index,
                  maker_.draw(input.dataset(), index, label_.value_or(prediction.predicted)));
    return folder_.path(number, index);
  }

 private:
  static std::optional<std::int64_t> find_class(const commands::OpenedModel& opened,
                                                const std::string& name) {
    if (name.empty()) return std::nullopt;
    const auto found = std::find(opened.classes.begin(), opened.classes.end(), name);
    if (found != opened.classes.end()) return found - opened.classes.begin();
    constexpr std::size_t kMaxNames = 12;
    std::string known = config::suggestion(name, opened.classes);
    if (known.empty()) known = "; classes: " + join_first(opened.classes, kMaxNames);
    throw ConfigError(
        {}, concat("--heatmap-class: the model has no class '", printable(name), "'", known));
  }

  std::optional<std::int64_t> label_;  // nothing: the predicted class
  commands::HeatmapMaker maker_;
  commands::HeatmapFolder folder_;
};

// Notes what `evaluate` has stored in the run of a member, since the mean does not use it.
void note_unused_results(const commands::OpenedModel& opened) {
  const std::optional<Path> run = commands::find_run_folder(opened);
  if (!run) return;
  for (const char* name : {commands::kCalibrationFile, commands::kOperatingPointFile}) {
    if (!std::filesystem::exists(*run / name)) continue;
    warn(Notice::note(concat(printable(opened.path), ": ", name, " is not used by --ensemble")));
  }
}

int predict_mean(const PredictArguments& arguments) {
  const auto members = commands::open_ensemble(open_models(arguments, arguments.ensemble),
                                               arguments.images, parse_split(arguments.split),
                                               arguments.on_error != OnError::kFail, warn);
  const commands::EnsembleMember& first = members.front();
  for (const commands::EnsembleMember& member : members) {
    warn(commands::note_on_predictions(member.opened));
    note_unused_results(member.opened);
  }
  commands::PredictionWriter writer(arguments.json ? "jsonl" : arguments.format,
                                    first.opened.classes, first.inputs, arguments.top, std::cout);
  writer.header();
  std::int64_t skipped = 0;
  for (std::size_t input = 0; input < first.inputs.size(); ++input) {
    const auto each = [&](const commands::Prediction& prediction) {
      if (prediction.error.empty()) return writer.write(first.inputs[input], prediction);
      ++skipped;
      if (!arguments.quiet) warn("skipped: " + prediction.error);
    };
    commands::predict_ensemble(
        members, input, {first.opened.config.model.loss, arguments.limit, arguments.flip}, each);
  }
  return exit_code(arguments, first.inputs, skipped);
}

// Takes the operating point of the run, if it has one, with a note.
void set_threshold(const commands::OpenedModel& opened, bool flip,
                   commands::PredictOptions& options) {
  const auto point = commands::find_operating_point(opened, flip, warn);
  if (!point) return;
  options.threshold = commands::DecisionThreshold{point->positive_class, point->log_odds};
  const double probability = 1 / (1 + std::exp(-point->log_odds / options.temperature));
  warn(Notice::note(concat(
      opened.path, ": ", printable(opened.classes[static_cast<std::size_t>(point->positive_class)]),
      " is predicted from a probability of ", fixed(probability, 4), " on, the operating point ",
      point->criterion, " of ", commands::kOperatingPointFile,
      "; --default-threshold takes the likelier class")));
}

int predict(const PredictArguments& arguments) {
  if (!arguments.ensemble.empty()) {
    if (!arguments.heatmaps.empty()) {
      throw ConfigError({}, "--heatmap shows what one run sees; leave --ensemble out");
    }
    return predict_mean(arguments);
  }
  if (arguments.overwrite && arguments.features.empty() && arguments.heatmaps.empty()) {
    reject_missing("--overwrite", "--features or --heatmap");
  }
  if (arguments.heatmap_method == "occlusion" && !arguments.heatmap_layer.empty()) {
    reject_value("--heatmap-layer", "occlusion takes no layer; leave it out");
  }
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
  std::optional<Heatmaps> heatmaps;
  if (!arguments.heatmaps.empty()) heatmaps.emplace(arguments, opened, inputs);
  std::int64_t skipped = 0;
  const auto each = [&](std::size_t number, const commands::Prediction& prediction) {
    const commands::PredictionInput& input = inputs[number];
    if (prediction.error.empty()) {
      return writer.write(input, prediction,
                          heatmaps ? heatmaps->write(number, input, prediction) : "");
    }
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
  if (!arguments.default_threshold && opened.classes.size() == 2) {
    set_threshold(opened, arguments.flip, options);
  }
  std::optional<commands::Abstention> abstention;
  if (arguments.abstain) {
    abstention = commands::find_abstention(opened, *engine, options, *arguments.abstain, warn);
    warn(Notice::note(abstention->text()));
    writer.show_abstentions();
  }
  writer.header();
  commands::Coverage coverage;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    commands::predict(*engine, inputs[i], options, [&](const commands::Prediction& prediction) {
      if (!abstention || !prediction.error.empty()) return each(i, prediction);
      commands::Prediction decided = prediction;
      coverage.decide(*abstention, decided);
      each(i, decided);
    });
  }
  if (abstention) warn(Notice::note(coverage.text()));
  return exit_code(arguments, inputs, skipped);
}

void add_heatmaps(const Command& command, const Option& features, PredictArguments& arguments) {
  const Option heatmap =
      command
          .add_option("--heatmap", arguments.heatmaps,
                      "Also write a PNG for each image to this folder: the image, and over it in "
                      "blue to red where the model sees the predicted class")
          .type_name("FOLDER")
          .excludes(features);
  command
      .add_option("--heatmap-class", arguments.heatmap_class,
                  "Show where the model sees this class")
      .type_name("NAME")
      .needs(heatmap);
  command
      .add_option("--heatmap-layer", arguments.heatmap_layer,
                  "Layer whose output grad_cam shows; default the last one with several positions")
      .type_name("NAME")
      .needs(heatmap);
  command
      .add_option("--heatmap-method", arguments.heatmap_method,
                  "grad_cam, or occlusion: how much the probability drops where a patch hides the "
                  "image")
      .choices({"grad_cam", "occlusion"})
      .needs(heatmap);
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
  const Option default_threshold = command.add_flag(
      "--default-threshold", arguments.default_threshold,
      "Of two classes the likelier one, without the operating point that `evaluate "
      "--operating-point` has stored in the run");
  const Option abstain =
      command
          .add_option("--abstain", arguments.abstain,
                      "Give no class below the probability that keeps this share of wrong "
                      "predictions on the validation split")
          .type_name("ERROR")
          .in_range(0.0, 1.0);
  const Option ensemble = add_ensemble(command, arguments.ensemble)
                              .excludes(logits)
                              .excludes(uncalibrated)
                              .excludes(default_threshold)
                              .excludes(abstain);
  const Option features =
      command
          .add_option("--features", arguments.features,
                      "Write the features of the images, in their order, to this NPY file instead")
          .type_name("FILE.npy")
          .excludes(flip)
          .excludes(logits)
          .excludes(uncalibrated)
          .excludes(default_threshold)
          .excludes(abstain)
          .excludes(ensemble);
  for (const char* other : {"--format", "--json", "--top"}) features.excludes(other);
  command
      .add_option("--layer", arguments.layer,
                  "Layer whose output the features are; default the one before the last with "
                  "weights")
      .needs(features);
  add_heatmaps(command, features, arguments);
  command.add_flag("--overwrite", arguments.overwrite,
                   "Replace files of features or heatmaps that exist");
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

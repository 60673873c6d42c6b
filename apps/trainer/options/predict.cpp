#include "commands/predict/predict.h"

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "options/commands.h"
#include "commands/ensemble/ensemble.h"
#include "commands/evaluate/thresholds.h"
#include "commands/predict/abstain.h"
#include "commands/predict/features.h"
#include "commands/predict/heatmap_writer.h"
#include "commands/predict/labels.h"
#include "commands/predict/prediction_writer.h"
#include "commands/predict/sheet.h"
#include "commands/predict/stored_decisions.h"
#include "options/options.h"
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
  commands::HeatmapOptions heatmaps;
  std::string sheet;                 // an HTML page of predicted images
  std::int64_t sheet_samples = 200;  // images on it
  bool overwrite = false;
};

// Counts and names the files that give no prediction.
class SkippedFiles {
 public:
  explicit SkippedFiles(const PredictArguments& arguments) : arguments_(arguments) {}

  void add(const std::string& line) {
    ++count_;
    if (!arguments_.quiet) warn(line);
  }

  // Warns of their number. Returns the code of a data error if there are some, or if files of a
  // split were left out that the config does not leave out, unless --on-error skip is given.
  int exit_code(const std::vector<commands::PredictionInput>& inputs) const {
    if (count_ > 0) {
      warn(concat(count_, count_ == 1 ? " file was skipped" : " files were skipped"));
    }
    const bool all = count_ == 0 && std::ranges::all_of(inputs, [](const auto& input) {
                       return input.unreadable == 0;
                     });
    return all || arguments_.on_error == OnError::kSkip ? kExitOk : kExitData;
  }

 private:
  const PredictArguments& arguments_;
  std::int64_t count_ = 0;
};

// Makes the sheet; nothing unless one is asked for.
std::optional<commands::PredictionSheet> make_sheet(
    const PredictArguments& arguments, const commands::OpenedModel& opened,
    const std::vector<commands::PredictionInput>& inputs) {
  if (arguments.sheet.empty()) return std::nullopt;
  return commands::PredictionSheet(inputs, opened.classes, arguments.limit,
                                   arguments.sheet_samples);
}

void write_sheet(const PredictArguments& arguments,
                 const std::optional<commands::PredictionSheet>& sheet) {
  if (!sheet) return;
  write_file_atomic(arguments.sheet, sheet->html("Predictions of " + arguments.model));
  if (arguments.quiet) return;
  warn(Notice::note(concat("wrote ", printable(arguments.sheet), ": ", sheet->count_text())));
}

int write_features(const PredictArguments& arguments, const commands::OpenedModel& opened,
                   const std::vector<commands::PredictionInput>& inputs) {
  commands::FeatureEngine features = commands::make_feature_engine(opened, inputs, arguments.layer);
  SkippedFiles skipped(arguments);
  const std::int64_t images = commands::write_features(
      features, inputs, arguments.limit, arguments.features,
      [&](const std::string& reason) { skipped.add("skipped, its features are NaN: " + reason); });
  if (!arguments.quiet) {
    const std::string shape = to_string(features.shape.with_batch(images));
    std::cout << arguments.features << ": features " << shape << " of layer " << features.layer
              << ", float32\n";
  }
  return skipped.exit_code(inputs);
}

// Writes the labels above their thresholds, of a model of several labels per image.
int write_labels(const PredictArguments& arguments, const commands::OpenedModel& opened,
                 const std::vector<commands::PredictionInput>& inputs) {
  const std::pair<const char*, bool> unfit[] = {
      {"--top", arguments.top.has_value()},
      {"--heatmap", !arguments.heatmaps.folder.empty()},
      {"--sheet", !arguments.sheet.empty()},
      {"--abstain", arguments.abstain.has_value()},
      {"--default-threshold", arguments.default_threshold}};
  for (const auto& [option, is_given] : unfit) {
    if (!is_given) continue;
    throw ConfigError({}, concat(option,
                                 " is for one class per image; this model has several labels, each "
                                 "with a threshold of its own"));
  }
  const auto engine = commands::make_engine(opened, inputs);
  commands::LabelWriter writer(arguments.json ? "jsonl" : arguments.format, opened.classes,
                               commands::read_thresholds(opened, arguments.flip).logits, inputs,
                               arguments.logits, std::cout);
  writer.header();
  SkippedFiles skipped(arguments);
  for (const commands::PredictionInput& input : inputs) {
    const auto each = [&](const commands::Output& output) {
      if (output.error.empty()) return writer.write(input, output);
      skipped.add("skipped: " + output.error);
    };
    commands::for_each_output(*engine, input,
                              {opened.config.model.loss, arguments.limit, arguments.flip}, each);
  }
  return skipped.exit_code(inputs);
}

int predict_mean(const PredictArguments& arguments) {
  const auto members = commands::open_ensemble(open_models(arguments, arguments.ensemble),
                                               arguments.images, parse_split(arguments.split),
                                               arguments.on_error != OnError::kFail, warn);
  const commands::EnsembleMember& first = members.front();
  for (const commands::EnsembleMember& member : members) {
    warn(commands::note_on_predictions(member.opened));
    commands::note_unused_results(member.opened, warn);
  }
  commands::PredictionWriter writer(arguments.json ? "jsonl" : arguments.format,
                                    first.opened.classes, first.inputs, arguments.top, std::cout);
  std::optional<commands::PredictionSheet> sheet =
      make_sheet(arguments, first.opened, first.inputs);
  writer.header();
  SkippedFiles skipped(arguments);
  for (std::size_t input = 0; input < first.inputs.size(); ++input) {
    const auto each = [&](const commands::Prediction& prediction) {
      if (!prediction.error.empty()) return skipped.add("skipped: " + prediction.error);
      if (sheet) sheet->add(input, prediction);
      writer.write(first.inputs[input], prediction);
    };
    commands::predict_ensemble(
        members, input, {first.opened.config.model.loss, arguments.limit, arguments.flip}, each);
  }
  write_sheet(arguments, sheet);
  return skipped.exit_code(first.inputs);
}

void check_sheet_path(const PredictArguments& arguments) {
  if (arguments.sheet.empty()) return;
  const std::string ending = Path(arguments.sheet).extension().string();
  if (ending != ".html" && ending != ".htm") {
    reject_value("--sheet", "is an HTML page; give a name that ends in .html");
  }
  check_output_path("--sheet", arguments.sheet, arguments.overwrite);
}

int predict(const PredictArguments& arguments) {
  if (arguments.overwrite && arguments.features.empty() && arguments.heatmaps.folder.empty() &&
      arguments.sheet.empty()) {
    reject_missing("--overwrite", "--features, --heatmap or --sheet");
  }
  check_sheet_path(arguments);
  const bool is_occlusion = arguments.heatmaps.method == commands::HeatmapMethod::kOcclusion;
  if (is_occlusion && !arguments.heatmaps.layer.empty()) {
    reject_value("--heatmap-layer", "occlusion takes no layer; leave it out");
  }
  if (!arguments.ensemble.empty()) return predict_mean(arguments);
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
  std::optional<commands::HeatmapWriter> heatmaps;
  if (!arguments.heatmaps.folder.empty()) {
    commands::HeatmapOptions heatmap = arguments.heatmaps;
    heatmap.overwrite = arguments.overwrite;
    heatmaps.emplace(heatmap, opened, inputs, arguments.limit);
  }
  std::optional<commands::PredictionSheet> sheet = make_sheet(arguments, opened, inputs);
  SkippedFiles skipped(arguments);
  const auto each = [&](std::size_t number, const commands::Prediction& prediction) {
    const commands::PredictionInput& input = inputs[number];
    if (!prediction.error.empty()) return skipped.add("skipped: " + prediction.error);
    if (sheet) sheet->add(number, prediction);
    writer.write(input, prediction, heatmaps ? heatmaps->write(number, input, prediction) : "");
  };
  commands::PredictOptions options{opened.config.model.loss, arguments.limit, arguments.flip};
  if (!arguments.uncalibrated) commands::use_temperature(opened, options, warn);
  if (!arguments.default_threshold) commands::use_operating_point(opened, options, warn);
  std::optional<commands::Abstention> abstention;
  if (arguments.abstain) {
    abstention = commands::find_abstention(opened, *engine, options, *arguments.abstain, warn);
    warn(Notice::note(abstention->text()));
    writer.show_abstentions(abstention->confidence);
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
  write_sheet(arguments, sheet);
  return skipped.exit_code(inputs);
}

void add_heatmaps(const Command& command, commands::HeatmapOptions& options) {
  const Option heatmap =
      command
          .add_option("--heatmap", options.folder,
                      "Also write a PNG for each image to this folder: the image, and over it in "
                      "blue to red where the model sees the predicted class")
          .type_name("FOLDER")
          .excludes("--features")
          .excludes("--ensemble");
  command.add_option("--heatmap-class", options.class_name, "Show where the model sees this class")
      .type_name("NAME")
      .needs(heatmap);
  command
      .add_option("--heatmap-layer", options.layer,
                  "Layer whose output grad_cam shows; default the last one with several positions")
      .type_name("NAME")
      .needs(heatmap);
  command
      .add_action(
          "--heatmap-method",
          [&options](const std::string& value) {
            options.method = value == "occlusion" ? commands::HeatmapMethod::kOcclusion
                                                  : commands::HeatmapMethod::kGradCam;
          },
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
      "The likeliest class, without the operating point that `evaluate --operating-point` has "
      "stored in the run");
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
  add_heatmaps(command, arguments.heatmaps);
  const Option sheet =
      command
          .add_option("--sheet", arguments.sheet,
                      "Also write an HTML page with pictures of the images, by predicted class")
          .type_name("FILE.html")
          .excludes(features);
  command
      .add_option("--samples", arguments.sheet_samples,
                  "Images on the sheet at most, evenly spaced over all; default 200")
      .needs(sheet)
      .at_least_one();
  command.add_flag("--overwrite", arguments.overwrite,
                   "Replace files of features, heatmaps or a sheet that exist");
}

}  // namespace

void add_predict(CommandLine& line) {
  const auto arguments = std::make_shared<PredictArguments>();
  const Command command = line.add_command("predict", "Class probabilities of images");
  command.add_option("run", arguments->model, "Run folder, checkpoint or config file (YAML)")
      .required();
  add_model(command, *arguments);
  command.add_option("images", arguments->images,
                     "Image files, folders or zip archives of them, or IDX, NPY or NPZ files; a "
                     "split of the run's data when left out");
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

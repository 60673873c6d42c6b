#include "base/error.h"
#include "commands/predict/command.h"
#include "options/options.h"

namespace trainer::app {
namespace {

// Rules over several options.
void check_predict_options(const commands::PredictArguments& arguments) {
  if (arguments.overwrite && arguments.features.empty() && arguments.heatmaps.folder.empty() &&
      arguments.sheet.empty()) {
    reject_missing("--overwrite", "--features, --heatmap or --sheet");
  }
  const std::string ending = Path(arguments.sheet).extension().string();
  if (!arguments.sheet.empty() && ending != ".html" && ending != ".htm") {
    reject_value("--sheet", "is an HTML page; give a name that ends in .html");
  }
  const bool is_occlusion = arguments.heatmaps.method == inference::HeatmapMethod::kOcclusion;
  if (is_occlusion && !arguments.heatmaps.layer.empty()) {
    reject_value("--heatmap-layer", "occlusion takes no layer; leave it out");
  }
}

void add_heatmaps(const Command& command, commands::HeatmapOptions& options) {
  const Option heatmap =
      command
          .add_option("--heatmap FOLDER", options.folder,
                      "Also write a PNG for each image to this folder: the image, and over it in "
                      "blue to red where the model sees the predicted class")
          .excludes({"--features", "--ensemble"});
  command
      .add_option("--heatmap-class NAME", options.class_name,
                  "Show where the model sees this class")
      .needs(heatmap);
  command
      .add_option("--heatmap-layer NAME", options.layer,
                  "Layer whose output grad_cam shows; default the last one with several positions")
      .needs(heatmap);
  command
      .add_action(
          "--heatmap-method",
          [&options](const std::string& value) {
            options.method = value == "occlusion" ? inference::HeatmapMethod::kOcclusion
                                                  : inference::HeatmapMethod::kGradCam;
          },
          "grad_cam, or occlusion: how much the probability drops where a patch hides the image")
      .choices({"grad_cam", "occlusion"})
      .needs(heatmap);
}

// What is given beside or in place of probabilities.
void add_results(const Command& command, commands::PredictArguments& arguments) {
  command.add_flag("--flip", arguments.flip,
                   "Mean of the probabilities of each image and its mirror image, left to right");
  command.add_flag("--logits", arguments.logits,
                   "Also the model's logits; with --flip those of the mean probabilities");
  command.add_flag("--uncalibrated", arguments.uncalibrated,
                   "Without the temperature that `evaluate --calibrate` has stored in the run");
  command.add_flag(
      "--default-threshold", arguments.default_threshold,
      "The likeliest class, without the operating point that `evaluate --operating-point` has "
      "stored in the run");
  command.add_flag(
      "--no-novelty", arguments.no_novelty,
      "A class for all images, without the limit that `evaluate --novelty` has stored in the run");
  command
      .add_option("--abstain ERROR", arguments.abstain,
                  "Give no class below the probability that keeps this share of wrong "
                  "predictions on the validation split")
      .in_range(0.0, 1.0);
  add_ensemble(command, arguments.ensemble)
      .excludes({"--logits", "--uncalibrated", "--default-threshold", "--no-novelty", "--abstain"});
  const Option features =
      command
          .add_option("--features FILE.npy", arguments.features,
                      "Write the features of the images, in their order, to this NPY file instead")
          .excludes({"--flip", "--logits", "--uncalibrated", "--default-threshold", "--no-novelty",
                     "--abstain", "--ensemble", "--format", "--json", "--top"});
  command
      .add_option("--layer", arguments.layer,
                  "Layer whose output the features are; default the one before the last with "
                  "weights")
      .needs(features);
  add_heatmaps(command, arguments.heatmaps);
  const Option sheet =
      command
          .add_option("--sheet FILE.html", arguments.sheet,
                      "Also write an HTML page with pictures of the images, by predicted class")
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
  const auto arguments = std::make_shared<commands::PredictArguments>();
  const Command command = line.add_command("predict", "Class probabilities of images");
  command.add_option("run", arguments->model, "Run folder, checkpoint or config file (YAML)")
      .required();
  add_model(command, *arguments);
  command.add_option("images", arguments->images,
                     "Image files, folders or zip archives of them, lists of them (CSV), IDX, NPY "
                     "or NPZ files, or - for names on standard input; a split of the run's data "
                     "when left out");
  command
      .add_option("--split", arguments->split,
                  "Which split when no files are given; test, or validation where there is none, "
                  "when left out")
      .choices({"test", "validation", "train"});
  const Option format = command.add_option("--format", arguments->format, "table, csv or jsonl")
                            .choices({"table", "csv", "jsonl"});
  command.add_option("--top K", arguments->top, "Show the K likeliest classes").at_least_one();
  command
      .add_action(
          "--on-error",
          [arguments](const std::string& value) {
            arguments->on_error =
                value == "skip" ? commands::OnError::kSkip : commands::OnError::kFail;
          },
          "fail at an image file that cannot be read, or skip it and exit with 0; when left out "
          "it is skipped and named, and the exit code is 3")
      .choices({"fail", "skip"});
  command.add_option("--limit", arguments->limit, "Only the first N images").at_least_one();
  command.add_flag("--json", arguments->json, "The same as --format jsonl").excludes(format);
  add_results(command, *arguments);
  add_overrides(command, arguments->overrides, Shorthands::kDevice);
  command
      .add_flag("--speed", arguments->speed,
                "Also the rates of reading and predicting; in JSON as a last line of its own")
      .excludes({"--ensemble", "--features"});
  command.add_flag("--quiet", arguments->quiet, "Count the files that are skipped, name none");
  command.run([arguments] {
    check_predict_options(*arguments);
    return commands::execute(*arguments, make_context());
  });
}

}  // namespace trainer::app

#include "inference/predict.h"

#include <algorithm>
#include <iostream>

#include "commands.h"
#include "options.h"
#include "train/open.h"

namespace trainer::app {
namespace {

struct PredictArguments {
  std::string run;      // a run folder, a checkpoint or a config
  std::string weights;  // of a config
  // Image files, folders of them or array files; a split of the config's data when empty.
  std::vector<std::string> images;
  std::string split;                // as of evaluate
  std::string format = "table";     // table, csv, jsonl
  std::optional<std::int64_t> top;  // classes shown, the likeliest first
  bool json = false;                // the same as format jsonl
  bool skip_damaged = false;        // image files that cannot be read are named and left out
  std::optional<std::int64_t> limit;
  bool best = false;
  std::vector<config::Override> overrides;
  bool quiet = false;
};

int predict(const PredictArguments& arguments) {
  const inference::Trained trained = inference::open_model(
      {arguments.run, arguments.best, arguments.weights}, arguments.overrides, environment(), warn);
  const auto inputs = inference::open_prediction_inputs(trained, arguments.images, arguments.split,
                                                        arguments.skip_damaged, warn);
  const auto engine = inference::make_engine(trained, inputs);
  inference::PredictionWriter writer(arguments.json ? "jsonl" : arguments.format, trained.classes,
                                     inputs, arguments.top, std::cout);
  writer.header();
  std::int64_t skipped = 0;
  const auto each = [&](const inference::PredictionInput& input,
                        const inference::Prediction& prediction) {
    if (prediction.error.empty()) return writer.write(input, prediction);
    ++skipped;
    if (!arguments.quiet) warn("skipped: " + prediction.error);
  };
  for (const inference::PredictionInput& input : inputs) {
    inference::predict(*engine, input, trained.config.model.loss, arguments.limit,
                       [&](const inference::Prediction& prediction) { each(input, prediction); });
  }
  if (skipped > 0) warn(std::to_string(skipped) + " files were skipped");
  const bool all = std::all_of(inputs.begin(), inputs.end(),
                               [](const auto& input) { return input.unreadable == 0; });
  return all ? kExitOk : kExitData;
}

}  // namespace

void add_predict(CLI::App& app, int& code) {
  const auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command = app.add_subcommand("predict", "Class probabilities of images");
  command->add_option("run", arguments->run, "Run folder, checkpoint or config file (YAML)")
      ->required();
  add_weights(*command, arguments->weights);
  command->add_option(
      "images", arguments->images,
      "Image files, folders of them, or IDX, NPY or NPZ files; a split of the run's data when left "
      "out");
  command
      ->add_option("--split", arguments->split,
                   "Which split when no files are given; test, or validation where there is none, "
                   "when left out")
      ->check(CLI::IsMember({"test", "validation", "train"}));
  CLI::Option* format = command->add_option("--format", arguments->format, "table, csv or jsonl")
                            ->check(CLI::IsMember({"table", "csv", "jsonl"}));
  command->add_option("--top", arguments->top, "Show the K likeliest classes")
      ->type_name("K")
      ->check(at_least_one());
  command
      ->add_option_function<std::string>(
          "--on-error",
          [arguments](const std::string& value) { arguments->skip_damaged = value == "skip"; },
          "fail at an image file that cannot be read, or name and skip it; default fail")
      ->check(CLI::IsMember({"fail", "skip"}));
  command->add_option("--limit", arguments->limit, "Only the first N images")
      ->check(at_least_one());
  command->add_flag("--json", arguments->json, "The same as --format jsonl")->excludes(format);
  command->add_flag("--best", arguments->best, "The best checkpoint, not the last");
  add_overrides(*command, arguments->overrides, Shorthands::kDevice);
  command->add_flag("--quiet", arguments->quiet, "Count the files that are skipped, name none");
  command->callback([arguments, &code] { code = predict(*arguments); });
}

}  // namespace trainer::app

#include "commands/predict/command.h"

#include <utility>

#include "base/files/files.h"
#include "base/text.h"
#include "commands/ensemble/ensemble.h"
#include "commands/evaluate/thresholds.h"
#include "commands/predict/abstain.h"
#include "commands/predict/features.h"
#include "commands/predict/labels.h"
#include "commands/predict/prediction_writer.h"
#include "commands/predict/sheet.h"
#include "commands/predict/stored_decisions.h"

namespace trainer::commands {
namespace {

// Makes the sheet; nothing unless one is asked for.
std::optional<PredictionSheet> make_sheet(const PredictArguments& arguments,
                                          const OpenedModel& opened,
                                          const std::vector<PredictionInput>& inputs) {
  if (arguments.sheet.empty()) return std::nullopt;
  return PredictionSheet(inputs, opened.classes, arguments.limit, arguments.sheet_samples);
}

void write_prediction_sheet(const PredictArguments& arguments,
                            const std::optional<PredictionSheet>& sheet, const Context& context) {
  if (!sheet) return;
  write_file_atomic(arguments.sheet, sheet->html("Predictions of " + arguments.model));
  if (arguments.quiet) return;
  context.warn(
      Notice::note(concat("wrote ", printable(arguments.sheet), ": ", sheet->count_text())));
}

int predict_features(const PredictArguments& arguments, const OpenedModel& opened,
                     const std::vector<PredictionInput>& inputs, const Context& context) {
  FeatureEngine features = make_feature_engine(opened, inputs, arguments.layer);
  SkippedFiles skipped(arguments.on_error, arguments.quiet, context);
  const std::int64_t images = write_features(
      features, inputs, arguments.limit, arguments.features,
      [&](const std::string& reason) { skipped.add("skipped, its features are NaN: " + reason); });
  if (!arguments.quiet) {
    const std::string shape = to_string(features.shape.with_batch(images));
    context.out << arguments.features << ": features " << shape << " of layer " << features.layer
                << ", float32\n";
  }
  return skipped.exit_code(inputs);
}

// Writes the labels above their thresholds, of a model of several labels per image.
int write_labels(const PredictArguments& arguments, const OpenedModel& opened,
                 const std::vector<PredictionInput>& inputs, const Context& context) {
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
  const auto engine = make_engine(opened, inputs);
  LabelWriter writer(arguments.json ? "jsonl" : arguments.format, opened.classes,
                     read_thresholds(opened, arguments.flip).logits, inputs, arguments.logits,
                     context.out);
  writer.header();
  SkippedFiles skipped(arguments.on_error, arguments.quiet, context);
  for (const PredictionInput& input : inputs) {
    const auto each = [&](const Output& output) {
      if (output.error.empty()) return writer.write(input, output);
      skipped.add("skipped: " + output.error);
    };
    for_each_output(*engine, input, {opened.config.model.loss, arguments.limit, arguments.flip},
                    each);
  }
  return skipped.exit_code(inputs);
}

int predict_mean(const PredictArguments& arguments, const Context& context) {
  const auto members = open_ensemble(open_models(arguments, arguments.ensemble, context),
                                     arguments.images, parse_split(arguments.split),
                                     arguments.on_error != OnError::kFail, context.warn);
  const EnsembleMember& first = members.front();
  for (const EnsembleMember& member : members) {
    context.warn(note_on_predictions(member.opened));
    note_unused_results(member.opened, context.warn);
  }
  PredictionWriter writer(arguments.json ? "jsonl" : arguments.format, first.opened.classes,
                          first.inputs, arguments.top, context.out);
  std::optional<PredictionSheet> sheet = make_sheet(arguments, first.opened, first.inputs);
  writer.header();
  SkippedFiles skipped(arguments.on_error, arguments.quiet, context);
  for (std::size_t input = 0; input < first.inputs.size(); ++input) {
    const auto each = [&](const Prediction& prediction) {
      if (!prediction.error.empty()) return skipped.add("skipped: " + prediction.error);
      if (sheet) sheet->add(input, prediction);
      writer.write(first.inputs[input], prediction);
    };
    predict_ensemble(members, input,
                     {first.opened.config.model.loss, arguments.limit, arguments.flip}, each);
  }
  write_prediction_sheet(arguments, sheet, context);
  return skipped.exit_code(first.inputs);
}

}  // namespace

int execute(const PredictArguments& arguments, const Context& context) {
  if (!arguments.sheet.empty()) {
    check_output_path("--sheet", arguments.sheet, arguments.overwrite);
  }
  if (!arguments.ensemble.empty()) return predict_mean(arguments, context);
  if (!arguments.features.empty()) {
    check_output_path("--features", arguments.features, arguments.overwrite);
  }
  const OpenedModel opened = open_model(arguments, context);
  const auto inputs = open_prediction_inputs(opened, arguments.images, parse_split(arguments.split),
                                             arguments.on_error != OnError::kFail, context.warn);
  if (!arguments.features.empty()) return predict_features(arguments, opened, inputs, context);
  context.warn(note_on_predictions(opened));
  if (opened.is_multi_label()) return write_labels(arguments, opened, inputs, context);
  const auto engine = make_engine(opened, inputs);
  PredictionWriter writer(arguments.json ? "jsonl" : arguments.format, opened.classes, inputs,
                          arguments.top, context.out, arguments.logits ? engine->outputs() : 0);
  std::optional<HeatmapWriter> heatmaps;
  if (!arguments.heatmaps.folder.empty()) {
    HeatmapOptions heatmap = arguments.heatmaps;
    heatmap.overwrite = arguments.overwrite;
    heatmaps.emplace(heatmap, opened, inputs, arguments.limit);
  }
  std::optional<PredictionSheet> sheet = make_sheet(arguments, opened, inputs);
  SkippedFiles skipped(arguments.on_error, arguments.quiet, context);
  const auto each = [&](std::size_t number, const Prediction& prediction) {
    const PredictionInput& input = inputs[number];
    if (!prediction.error.empty()) return skipped.add("skipped: " + prediction.error);
    if (sheet) sheet->add(number, prediction);
    writer.write(input, prediction, heatmaps ? heatmaps->write(number, input, prediction) : "");
  };
  PredictOptions options{opened.config.model.loss, arguments.limit, arguments.flip};
  if (!arguments.uncalibrated) use_temperature(opened, options, context.warn);
  if (!arguments.default_threshold) use_operating_point(opened, options, context.warn);
  std::optional<Abstention> abstention;
  if (arguments.abstain) {
    abstention = find_abstention(opened, *engine, options, *arguments.abstain, context.warn);
    context.warn(Notice::note(abstention->text()));
    writer.show_abstentions(abstention->confidence);
  }
  writer.header();
  Coverage coverage;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    predict(*engine, inputs[i], options, [&](const Prediction& prediction) {
      if (!abstention || !prediction.error.empty()) return each(i, prediction);
      Prediction decided = prediction;
      coverage.decide(*abstention, decided);
      each(i, decided);
    });
  }
  if (abstention) context.warn(Notice::note(coverage.text()));
  write_prediction_sheet(arguments, sheet, context);
  return skipped.exit_code(inputs);
}

}  // namespace trainer::commands

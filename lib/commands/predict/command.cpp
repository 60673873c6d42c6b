#include "commands/predict/command.h"

#include <istream>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "commands/predict/labels.h"
#include "commands/predict/prediction_writer.h"
#include "commands/predict/sheet.h"
#include "data/samples/splits.h"
#include "inference/decisions/novelty.h"
#include "inference/decisions/stored_decisions.h"
#include "inference/decisions/thresholds.h"
#include "inference/predict/ensemble.h"
#include "inference/predict/features.h"
#include "results/decisions/abstain.h"
#include "results/evaluation/find_class.h"
#include "results/prediction_speed.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

// Returns the class to show; nothing for the predicted one.
std::optional<std::int64_t> find_label(const HeatmapOptions& options,
                                       const inference::OpenedModel& opened) {
  if (options.class_name.empty()) return std::nullopt;
  return results::find_class(opened.classes, options.class_name, "--heatmap-class");
}

// Draws the heatmaps of predictions into a folder.
class HeatmapWriter {
 public:
  // Makes the folder. Throws ConfigError as find_class(), HeatmapMaker and HeatmapFolder do, and
  // then makes nothing.
  HeatmapWriter(const PredictArguments& arguments, const inference::OpenedModel& opened,
                const std::vector<inference::PredictionInput>& inputs)
      : label_(find_label(arguments.heatmaps, opened)),
        maker_(opened, inputs, arguments.heatmaps.method, arguments.heatmaps.layer),
        folder_(arguments.heatmaps.folder, inference::name_heatmaps(inputs, arguments.limit),
                arguments.overwrite) {}

  // Writes the heatmap of a prediction for `inputs[input]`, which is `data`. Returns its path.
  std::string write(std::size_t input, const inference::PredictionInput& data,
                    const results::Prediction& prediction) {
    const std::int64_t index = prediction.index;
    folder_.write(input, index,
                  maker_.draw(data.dataset(), index, label_.value_or(prediction.predicted)));
    return folder_.path(input, index);
  }

 private:
  const std::optional<std::int64_t> label_;
  inference::HeatmapMaker maker_;
  inference::HeatmapFolder folder_;
};

// Where the predictions of one class per image go: the lines, and the heatmaps and the sheet if
// they are asked for.
class ClassOutput {
 public:
  // `logits` as of PredictionWriter. The other arguments outlive the object.
  ClassOutput(const PredictArguments& arguments, const inference::OpenedModel& opened,
              const std::vector<inference::PredictionInput>& inputs, std::int64_t logits,
              const Context& context)
      : arguments_(arguments),
        inputs_(inputs),
        context_(context),
        writer_(arguments.json ? "jsonl" : arguments.format, opened.classes, inputs, arguments.top,
                context.out, logits),
        skipped_(arguments.on_error, arguments.quiet, context) {
    if (!arguments.heatmaps.folder.empty()) heatmaps_.emplace(arguments, opened, inputs);
    if (!arguments.sheet.empty()) {
      sheet_.emplace(inputs, opened.classes, arguments.limit, arguments.sheet_samples);
    }
  }

  // Call show_novelty() and show_abstentions() before header(), and header() before the first
  // add().
  void show_novelty() { writer_.show_novelty(); }
  void show_abstentions(double confidence) { writer_.show_abstentions(confidence); }
  void header() { writer_.header(); }

  void add(std::size_t number, const results::Prediction& prediction) {
    const inference::PredictionInput& input = inputs_[number];
    if (!prediction.error.empty()) return skipped_.add("skipped: " + prediction.error);
    if (sheet_) sheet_->add(number, prediction);
    writer_.write(input, prediction, heatmaps_ ? heatmaps_->write(number, input, prediction) : "");
  }

  // Writes the sheet. Returns the exit code.
  int finish() const {
    if (sheet_) {
      write_file_atomic(arguments_.sheet, sheet_->html("Predictions of " + arguments_.model));
      if (!arguments_.quiet) {
        context_.warn(Notice::note(
            concat("wrote ", printable(arguments_.sheet), ": ", sheet_->count_text())));
      }
    }
    return skipped_.exit_code(inputs_);
  }

 private:
  const PredictArguments& arguments_;
  const std::vector<inference::PredictionInput>& inputs_;
  const Context& context_;
  PredictionWriter writer_;
  SkippedFiles skipped_;
  std::optional<HeatmapWriter> heatmaps_;
  std::optional<PredictionSheet> sheet_;
};

int predict_features(const PredictArguments& arguments, const inference::OpenedModel& opened,
                     const std::vector<inference::PredictionInput>& inputs,
                     const Context& context) {
  inference::FeatureEngine features =
      inference::make_feature_engine(opened, inputs, arguments.layer);
  SkippedFiles skipped(arguments.on_error, arguments.quiet, context);
  const std::int64_t images = inference::write_features(
      features, inputs, arguments.limit, arguments.features,
      [&](const std::string& reason) { skipped.add("skipped, its features are NaN: " + reason); });
  if (!arguments.quiet) {
    const std::string shape = to_string(features.shape.with_batch(images));
    context.out << arguments.features << ": features " << shape << " of layer " << features.layer
                << ", float32\n";
  }
  return skipped.exit_code(inputs);
}

// Reports the rates of several image files, which are read while others are predicted, and with
// --speed those of any images.
void report_rates(const PredictArguments& arguments,
                  const std::vector<inference::PredictionInput>& inputs,
                  results::PredictionRates& rates, const Context& context) {
  if (rates.images == 0) return;
  const bool json = arguments.json || arguments.format == "jsonl";
  if (arguments.speed && json) context.out << results::to_line(rates);
  const bool are_files = rates.images > 1 && inputs.front().one_per_file;
  if ((arguments.speed && !json) || (are_files && !arguments.quiet)) {
    context.warn(Notice::note(rates.text()));
  }
}

// The model, and the limit of novelty if the run has one that is used.
struct Predictor {
  std::unique_ptr<engine::Engine> engine;
  std::optional<inference::StoredNovelty> novelty;
  std::int64_t features = 0;  // see results::PredictOptions

  // Returns the novelty of the image of `output`.
  std::optional<results::Novelty> judge(const results::Output& output,
                                        const std::vector<std::string>& classes) const {
    if (!novelty) return std::nullopt;
    return novelty->judge(output.features, classes);
  }
};

Predictor open_predictor(const PredictArguments& arguments, const inference::OpenedModel& opened,
                         const std::vector<inference::PredictionInput>& inputs) {
  Predictor predictor;
  if (!arguments.no_novelty) predictor.novelty = inference::find_novelty(opened, arguments.flip);
  if (!predictor.novelty) {
    predictor.engine = inference::make_engine(opened, inputs);
    return predictor;
  }
  inference::FeatureEngine scoring = inference::make_scoring_engine(opened, inputs);
  predictor.engine = std::move(scoring.engine);
  predictor.features = scoring.shape.elements();
  inference::check_width(opened, *predictor.novelty, predictor.features);
  return predictor;
}

// Writes the labels above their thresholds, of a model of several labels per image.
int write_labels(const PredictArguments& arguments, const inference::OpenedModel& opened,
                 const std::vector<inference::PredictionInput>& inputs, const Context& context) {
  const std::pair<const char*, bool> unfit[] = {
      {"--top", arguments.top.has_value()},
      {"--heatmap", !arguments.heatmaps.folder.empty()},
      {"--sheet", !arguments.sheet.empty()},
      {"--abstain", arguments.abstain.has_value()},
      {"--default-threshold", arguments.default_threshold}};
  for (const auto& [option, is_given] : unfit) {
    if (!is_given) continue;
    throw ConfigError({}, option,
                      " is for one class per image; this model has several labels, each "
                      "with a threshold of its own");
  }
  const Predictor predictor = open_predictor(arguments, opened, inputs);
  LabelWriter writer(arguments.json ? "jsonl" : arguments.format, opened.classes,
                     inference::read_thresholds(opened, arguments.flip).logits, inputs,
                     arguments.logits, predictor.novelty.has_value(), context.out);
  writer.header();
  SkippedFiles skipped(arguments.on_error, arguments.quiet, context);
  results::PredictionRates rates;
  results::PredictOptions options{opened.config.model.loss, arguments.limit, arguments.flip};
  options.rates = &rates;
  options.features = predictor.features;
  for (const inference::PredictionInput& input : inputs) {
    const auto each = [&](const results::Output& output) {
      if (!output.error.empty()) return skipped.add("skipped: " + output.error);
      writer.write(input, output, predictor.judge(output, opened.classes));
    };
    inference::for_each_output(*predictor.engine, input, options, each);
  }
  report_rates(arguments, inputs, rates, context);
  return skipped.exit_code(inputs);
}

int predict_mean(const PredictArguments& arguments, const Context& context) {
  const auto members = inference::open_ensemble(open_models(arguments, arguments.ensemble, context),
                                                arguments.images, parse_split(arguments.split),
                                                arguments.on_error != OnError::kFail);
  const inference::EnsembleMember& first = members.front();
  for (const inference::EnsembleMember& member : members) {
    context.warn(inference::note_on_predictions(member.opened));
    inference::note_unused_results(member.opened);
  }
  ClassOutput output(arguments, first.opened, first.inputs, 0, context);
  output.header();
  for (std::size_t input = 0; input < first.inputs.size(); ++input) {
    inference::predict_ensemble(
        members, input, {first.opened.config.model.loss, arguments.limit, arguments.flip},
        [&](const results::Prediction& prediction) { output.add(input, prediction); });
  }
  return output.finish();
}

std::vector<inference::PredictionInput> open_validation_inputs(
    const inference::OpenedModel& opened) {
  try {
    return inference::open_prediction_inputs(opened, {}, Split::kValidation, false);
  } catch (const data::MissingSplit&) {
    throw ConfigError(
        {}, "--abstain finds the confidence on the validation split, and the data of ",
        printable(opened.path), " has none; name one with --set data.validation.path=PLACE");
  }
}

// Predicts the validation split of the model's data, and finds the confidence below which the model
// abstains: a probability of the predicted class. Throws ConfigError for a model whose outputs are
// not the probabilities of classes that exclude each other, and without a validation split.
results::Abstention find_abstention(const inference::OpenedModel& opened, engine::Engine& engine,
                                    const results::PredictOptions& options, double error) {
  const std::string reason = engine::why_no_class_probabilities(
      opened.config.model.loss, engine.replica().outputs() - options.features);
  if (!reason.empty()) {
    throw ConfigError({}, "--abstain needs a model that gives each image one class, but of ",
                      printable(opened.path), ' ', reason);
  }
  results::PredictOptions whole = options;
  whole.limit.reset();
  std::vector<engine::TopPrediction> predictions;
  for (const inference::PredictionInput& input : open_validation_inputs(opened)) {
    inference::predict(engine, input, whole, [&](const results::Prediction& prediction) {
      if (!prediction.error.empty() || !prediction.label) return;
      predictions.push_back(results::to_top_prediction(prediction));
    });
  }
  return results::find_abstention(predictions, error);
}

// Replaces `-` by the lines of standard input, each the name of an image.
std::vector<std::string> read_names(const std::vector<std::string>& images,
                                    const Context& context) {
  std::vector<std::string> names;
  for (const std::string& image : images) {
    if (image != "-" || context.in == nullptr) {
      names.push_back(image);
      continue;
    }
    const std::size_t before = names.size();
    for (std::string line; std::getline(*context.in, line);) {
      if (!line.empty()) names.push_back(line);
    }
    if (names.size() == before) {
      throw ConfigError({}, "-: standard input names no images; give one name per line");
    }
  }
  return names;
}

}  // namespace

int execute(const PredictArguments& given, const Context& context) {
  PredictArguments arguments = given;
  arguments.images = read_names(given.images, context);
  if (!arguments.sheet.empty()) {
    check_output_path("--sheet", arguments.sheet, arguments.overwrite);
  }
  if (!arguments.ensemble.empty()) return predict_mean(arguments, context);
  if (!arguments.features.empty()) {
    check_output_path("--features", arguments.features, arguments.overwrite);
  }
  const inference::OpenedModel opened = open_model(arguments, context);
  if (given.images.empty() && context.has_piped_text && context.has_piped_text()) {
    context.warn(
        "no images are named, so that a split of the data is predicted; to predict the "
        "files that standard input names, give `-` behind the run");
  }
  const auto inputs = inference::open_prediction_inputs(
      opened, arguments.images, parse_split(arguments.split), arguments.on_error != OnError::kFail);
  if (!arguments.features.empty()) return predict_features(arguments, opened, inputs, context);
  context.warn(inference::note_on_predictions(opened));
  if (opened.is_multi_label()) return write_labels(arguments, opened, inputs, context);
  const Predictor predictor = open_predictor(arguments, opened, inputs);
  const std::int64_t logits = predictor.engine->replica().outputs() - predictor.features;
  ClassOutput output(arguments, opened, inputs, arguments.logits ? logits : 0, context);
  results::PredictOptions options{opened.config.model.loss, arguments.limit, arguments.flip};
  options.features = predictor.features;
  if (predictor.novelty) output.show_novelty();
  if (!arguments.uncalibrated) inference::use_temperature(opened, options);
  if (!arguments.default_threshold) inference::use_operating_point(opened, options);
  std::optional<results::Abstention> abstention;
  if (arguments.abstain) {
    abstention = find_abstention(opened, *predictor.engine, options, *arguments.abstain);
    context.warn(Notice::note(abstention->text()));
    inference::warn_of_abstention(opened, arguments.flip, *arguments.abstain);
    output.show_abstentions(abstention->confidence);
  }
  output.header();
  results::PredictionRates rates;
  options.rates = &rates;
  results::Coverage coverage;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto each = [&](const results::Prediction& prediction) {
      if (!prediction.error.empty()) return output.add(i, prediction);
      results::Prediction decided = prediction;
      decided.novelty = predictor.judge(prediction, opened.classes);
      if (abstention) coverage.decide(*abstention, decided);
      output.add(i, decided);
    };
    inference::predict(*predictor.engine, inputs[i], options, each);
  }
  if (abstention) context.warn(Notice::note(coverage.text()));
  report_rates(arguments, inputs, rates, context);
  return output.finish();
}

}  // namespace trainer::commands

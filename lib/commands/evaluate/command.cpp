#include "commands/evaluate/command.h"

#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/split.h"
#include "base/text.h"
#include "commands/evaluate/follow.h"
#include "engine/evaluate.h"
#include "engine/metrics/calibration.h"
#include "engine/metrics/operating_point.h"
#include "hooks/data_report.h"
#include "inference/decisions/scored_split.h"
#include "inference/decisions/stored_decisions.h"
#include "inference/decisions/stored_result.h"
#include "inference/decisions/thresholds.h"
#include "inference/open_model/open_model.h"
#include "inference/open_model/run_archive.h"
#include "inference/predict/ensemble.h"
#include "inference/predict/predict.h"
#include "model/build_model.h"
#include "results/decisions/abstention_report.h"
#include "results/decisions/calibrate.h"
#include "results/decisions/cost_matrix.h"
#include "results/decisions/curves.h"
#include "results/decisions/decision_options.h"
#include "results/decisions/operate.h"
#include "results/evaluation/evaluated_event.h"
#include "results/evaluation/find_class.h"
#include "results/write_json.h"
#include "train/open.h"

namespace trainer::commands {
namespace {

// Points of a curve.
constexpr std::size_t kMaxStoredPoints = 1000;

// The place and the form of printed results.
struct DecisionOutput {
  std::string run;  // the name of the model in JSON
  bool json = false;
  bool quiet = false;  // prints only lines of results
  std::ostream& out;
};

// Collects the scores of an evaluation, and prints and stores what the options ask for.
class Decisions {
 public:
  // The model, the engine and the data set must outlive it. `evaluation` are the options of the
  // evaluation, with which the validation split is evaluated where it is needed. Throws ConfigError
  // for options that this model cannot follow.
  Decisions(results::DecisionOptions options, const inference::OpenedModel& opened,
            engine::Engine& engine, engine::EvaluateOptions evaluation, Split split,
            const data::Dataset& dataset);

  // Returns the options of the evaluation, which collects the scores.
  engine::EvaluateOptions evaluate_options();
  // Call it after the evaluation. Stores the results in the run of the model, and prints them.
  // Throws DataError for scores that are not finite.
  void print(const DecisionOutput& output);

 private:
  // Checks the criterion and the positive class, and reads the costs.
  void check_operating_point();
  // Returns the first option that finds a number on the validation split; "" if none does.
  std::string first_fitted() const;
  // Evaluates the validation split when its scores are needed first.
  const engine::LabelledLogits& find_validation_scores();
  void calibrate(const DecisionOutput& output);
  void report_curves(const DecisionOutput& output);
  void find_operating_point(const DecisionOutput& output);
  void decide_by_costs(const DecisionOutput& output);
  void abstain(const DecisionOutput& output);
  template <class Report, class Show>
  void store_and_print(const DecisionOutput& output, const char* event, const char* file,
                       const Report& report, const Show& show) const;
  template <class Report, class Show>
  void print(const DecisionOutput& output, const char* event, const Report& report,
             const std::string& stored, const Show& show) const;
  // Returns the temperature that this command has found, or else that of the run.
  double choose_temperature();

  results::DecisionOptions options_;
  const inference::OpenedModel& opened_;
  engine::Engine& engine_;
  engine::EvaluateOptions evaluation_;
  Split split_;
  const data::Dataset& dataset_;
  engine::LabelledLogits scores_;  // scores of the evaluated split
  std::optional<inference::OpenedSplit>
      validation_split_;  // set if it is needed beside the evaluated split
  std::optional<engine::LabelledLogits> validation_;
  std::optional<engine::CostMatrix> costs_;  // the operating point's costs, in place of a threshold
  // Results that later options of the command use, also if no run stores them.
  std::optional<double> temperature_;
  std::optional<results::DecisionThreshold> threshold_;  // set only for two classes
};

Decisions::Decisions(results::DecisionOptions options, const inference::OpenedModel& opened,
                     engine::Engine& engine, engine::EvaluateOptions evaluation, Split split,
                     const data::Dataset& dataset)
    : options_(std::move(options)),
      opened_(opened),
      engine_(engine),
      evaluation_(std::move(evaluation)),
      split_(split),
      dataset_(dataset) {
  if (options_.first().empty()) return;
  inference::check_class_probabilities(opened_, engine_, dataset_, options_.first());
  check_operating_point();
  if (split_ != Split::kValidation && !first_fitted().empty()) {
    validation_split_ = inference::open_validation(opened_, first_fitted());
  }
}

std::string Decisions::first_fitted() const {
  if (options_.calibrate) return "--calibrate";
  if (!options_.operating_point.empty() && !costs_) return "--operating-point";
  return options_.abstain ? "--abstain" : "";
}

void Decisions::check_operating_point() {
  const std::string& criterion = options_.operating_point;
  const std::string file = results::find_cost_file(criterion);
  if (!file.empty()) {
    costs_ = results::read_cost_matrix(file, opened_.classes);
    if (!options_.positive_class.empty() && !options_.curves) {
      throw ConfigError(
          {}, concat("--positive-class has no meaning for --operating-point ", printable(criterion),
                     ", which has the costs of all classes; leave it out"));
    }
  } else if (!criterion.empty()) {
    results::read_operating_criterion(criterion);
  }
  const bool has_threshold = !criterion.empty() && !costs_;
  if (has_threshold || !options_.positive_class.empty()) {
    results::find_positive_class(opened_.classes, options_.positive_class);
  }
}

engine::EvaluateOptions Decisions::evaluate_options() {
  engine::EvaluateOptions options = evaluation_;
  if (!options_.first().empty()) {
    options.each_batch = inference::keep_scores(dataset_, engine_.replica().outputs(), scores_);
  }
  return options;
}

void Decisions::print(const DecisionOutput& output) {
  if (options_.first().empty()) return;
  inference::check_scores(scores_, split_);
  if (options_.calibrate) calibrate(output);
  if (options_.curves) report_curves(output);
  if (costs_) {
    decide_by_costs(output);
  } else if (!options_.operating_point.empty()) {
    find_operating_point(output);
  }
  if (options_.abstain) abstain(output);
}

const engine::LabelledLogits& Decisions::find_validation_scores() {
  if (split_ == Split::kValidation) return scores_;
  if (!validation_) {
    validation_ = inference::score_validation(opened_, engine_, evaluation_, *validation_split_);
  }
  return *validation_;
}

// Stores the result in the file of the run, warns if the evaluated split contradicts it, and prints
// it: as a JSON line with this event, or as the document that `show` makes of the report and of the
// end of the first line.
template <class Report, class Show>
void Decisions::store_and_print(const DecisionOutput& output, const char* event, const char* file,
                                const Report& report, const Show& show) const {
  const std::string stored = inference::store_result(opened_, evaluation_.flip, file, report);
  if (!report.contradiction.empty()) opened_.warn(concat(opened_.path, ": ", report.contradiction));
  print(output, event, report, stored, show);
}

template <class Report, class Show>
void Decisions::print(const DecisionOutput& output, const char* event, const Report& report,
                      const std::string& stored, const Show& show) const {
  if (output.json) {
    const auto file = stored.empty() ? std::nullopt : std::optional(stored);
    return results::print_json(results::ResultEvent<Report>{event, output.run, report, file},
                               output.out);
  }
  output.out << (output.quiet ? "" : "\n")
             << results::render_text(show(report, stored.empty() ? "" : "; stored in " + stored));
}

void Decisions::calibrate(const DecisionOutput& output) {
  const results::CalibrationReport report =
      results::calibrate(find_validation_scores(), split_, scores_);
  temperature_ = report.temperature;
  store_and_print(output, "calibrated", results::kCalibrationFile, report,
                  [&](const auto& shown, const std::string& ending) {
                    return results::show_calibration(shown, ending, output.quiet);
                  });
}

void Decisions::report_curves(const DecisionOutput& output) {
  const std::vector<std::string>& classes = opened_.classes;
  const std::int64_t positive = results::find_curve_class(classes, options_.positive_class);
  const results::CurvesReport report =
      results::compute_curves(scores_, to_string(split_), classes, positive);
  // The file has fewer points than the line of JSON, so that it does not grow with the samples.
  const std::string stored =
      inference::store_result(opened_, evaluation_.flip, results::kCurvesFile,
                              results::thin_curves(report, kMaxStoredPoints));
  print(output, "curves", report, stored, results::show_curves);
}

void Decisions::find_operating_point(const DecisionOutput& output) {
  const std::vector<std::string>& classes = opened_.classes;
  const std::int64_t positive = results::find_positive_class(classes, options_.positive_class);
  const results::OperatingReport report = results::find_operating_report(
      options_.operating_point, positive, classes.at(positive),
      classes.size() == 2 ? choose_temperature() : 1, find_validation_scores(), split_, scores_);
  if (classes.size() == 2) threshold_ = results::DecisionThreshold{positive, report.log_odds};
  store_and_print(output, "operating_point", results::kOperatingPointFile, report,
                  results::show_operating_point);
}

void Decisions::decide_by_costs(const DecisionOutput& output) {
  const results::CostReport report =
      results::make_cost_report(options_.operating_point, *costs_, opened_.classes,
                                choose_temperature(), to_string(split_), scores_);
  store_and_print(output, "operating_point", results::kOperatingPointFile, report,
                  [&](const auto& shown, const std::string& ending) {
                    return results::show_costs(shown, ending, output.quiet);
                  });
}

void Decisions::abstain(const DecisionOutput& output) {
  results::PredictOptions options;
  options.loss = evaluation_.loss;
  options.flip = evaluation_.flip;
  options.temperature = choose_temperature();
  options.costs = costs_;
  options.threshold = threshold_;
  std::string criterion = options_.operating_point;
  if (!costs_ && !threshold_) criterion = inference::use_operating_point(opened_, options);
  results::AbstentionReport report = results::make_abstention_report(
      *options_.abstain, options, find_validation_scores(), split_, scores_);
  if (!criterion.empty()) report.criterion = std::move(criterion);
  store_and_print(output, "abstention", results::kAbstentionFile, report, results::show_abstention);
}

double Decisions::choose_temperature() {
  if (!temperature_) temperature_ = inference::find_temperature(opened_, evaluation_.flip);
  return *temperature_;
}

// Returns `arguments` for the model of `run`.
ModelArguments make_model_arguments(const EvaluateArguments& arguments, const std::string& run) {
  ModelArguments model = arguments;
  model.model = run;
  return model;
}

int evaluate_model(const EvaluateArguments& arguments, const std::string& run,
                   const Context& context) {
  if (arguments.follow) return follow(arguments, run, context);
  const inference::OpenedModel opened = open_model(make_model_arguments(arguments, run), context);
  std::optional<engine::ThresholdGoal> goal;
  if (!arguments.thresholds.empty()) {
    goal = inference::parse_thresholds(arguments.thresholds, opened, arguments.split);
  }
  const inference::OpenedSplit split = inference::open_split_or_default(
      opened, goal ? Split::kValidation : parse_split(arguments.split));
  context.warn(hooks::left_out(split.files(), split.split));
  const graph::Graph model = model::build_model(opened.config.model, opened.config.data,
                                                train::sample_spec(split.data), opened.config.seed);
  engine::Engine engine(model, opened.config, engine::open_backends(opened.config, opened.platform),
                        engine::Use::kEvaluate);
  engine.load(opened.file, opened.path);
  engine::EvaluateOptions options = engine::evaluate_options(opened.config);
  options.flip = arguments.flip;
  Decisions decisions(arguments.decisions, opened, engine, options, split.split, split.dataset());
  options = decisions.evaluate_options();
  results::LabelThresholds thresholds;
  const std::optional<engine::Metrics> metrics =
      split.dataset().spec().is_multi_label()
          ? inference::evaluate_labels(engine, split.dataset(), opened, goal, options, thresholds)
          : engine::evaluate(engine, split.dataset(), options);
  context.warn(engine::why_not_finite(*metrics, opened.config.data, split.split, split.dataset()));
  context.warn(inference::note_on_predictions(opened));
  const results::EvaluationReport report{
      run, opened.step, opened.checkpoint, split.split, split.data.classes, *metrics, thresholds};
  if (arguments.json) {
    results::print_json(results::make_event(report), context.out);
  } else {
    context.out << results::render_text(results::describe_evaluation(report, arguments.quiet));
  }
  decisions.print({run, arguments.json, arguments.quiet, context.out});
  return kExitOk;
}

int evaluate_mean(const EvaluateArguments& arguments, const std::string& run,
                  const Context& context) {
  const inference::EnsembleScores scores = inference::evaluate_ensemble(
      open_models(make_model_arguments(arguments, run), arguments.ensemble, context),
      parse_split(arguments.split), arguments.flip);
  if (arguments.json) {
    results::print_json(scores, context.out);
  } else {
    inference::print_ensemble(scores, arguments.quiet, context.out);
  }
  return kExitOk;
}

}  // namespace

int execute(const EvaluateArguments& arguments, const Context& context) {
  const std::vector<std::string>& runs = arguments.runs;
  if (arguments.follow && runs.size() > 1) {
    throw ConfigError({}, concat("--follow waits for the checkpoints of one run; evaluate ",
                                 runs[1], " by a command of its own"));
  }
  if (!arguments.ensemble.empty()) {
    if (runs.size() > 1) {
      throw ConfigError({}, concat("--ensemble: give one run before it, and ", runs[1],
                                   " in its list, with commas between"));
    }
    return evaluate_mean(arguments, runs[0], context);
  }
  // One after another, each below its name where there are several.
  for (const std::string& run : runs) {
    if (runs.size() > 1 && !arguments.json) {
      context.out << (&run == &runs.front() || arguments.quiet ? "" : "\n") << run << ":\n";
    }
    if (const int code = evaluate_model(arguments, run, context); code != kExitOk) return code;
  }
  return kExitOk;
}

}  // namespace trainer::commands

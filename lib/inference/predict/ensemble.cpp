#include "inference/predict/ensemble.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "data/class_names.h"
#include "engine/evaluate.h"
#include "engine/metrics/ensemble.h"
#include "results/train_events.h"
#include "train/class_order.h"

namespace trainer::inference {
namespace {

void check_same_outputs(const OpenedModel& first, const OpenedModel& other) {
  if (first.classes != other.classes) {
    throw DataError(other.path, "has the classes [", data::list_classes(other.classes), "], but ",
                    first.path, " has [", data::list_classes(first.classes), "]",
                    train::describe_class_difference(first.classes, other.classes),
                    "; the runs of an ensemble need the same classes in the same order");
  }
  if (first.is_multi_label()) {
    throw DataError(first.path,
                    "gives an image several labels; an ensemble needs one class per image");
  }
  if (first.config.model.loss != other.config.model.loss) {
    throw DataError(other.path, "has the loss ", spell(other.config.model.loss), ", but ",
                    first.path, " has ", spell(first.config.model.loss),
                    "; the runs of an ensemble need the same loss");
  }
}

void check_same_images(const EnsembleMember& first, const EnsembleMember& other) {
  const auto fail = [&](const std::string& what) {
    throw DataError(other.opened.path, "has other images than ", first.opened.path, ": ", what,
                    "; name images that no run was trained on, or --split test");
  };
  for (std::size_t i = 0; i < first.inputs.size(); ++i) {
    const data::Dataset &one = first.inputs[i].dataset(), &two = other.inputs[i].dataset();
    if (first.inputs[i].name != other.inputs[i].name) {
      fail(concat("the ", other.inputs[i].name, " split in place of ", first.inputs[i].name));
    }
    if (one.size() != two.size()) fail(concat(two.size(), " in place of ", one.size()));
    for (std::int64_t image = 0; image < one.size(); ++image) {
      if (one.describe(image) == two.describe(image)) continue;
      fail(concat(printable(two.describe(image)), " in place of ", printable(one.describe(image))));
    }
  }
}

// The logits of all images of an input, by member: [images, outputs].
struct Outputs {
  std::vector<std::vector<float>> logits;
  std::vector<std::optional<std::int32_t>> labels;
  std::vector<std::string> errors;
  std::size_t width = 0;

  std::size_t images() const { return labels.size(); }
  std::span<const float> of(std::size_t member, std::size_t image) const {
    return std::span(logits[member]).subspan(image * width, width);
  }
  // Returns the logits of the mean of all members but `left_out`.
  std::vector<float> mean(LossKind loss, std::size_t image,
                          std::optional<std::size_t> left_out = {}) const {
    std::vector<std::span<const float>> parts;
    for (std::size_t member = 0; member < logits.size(); ++member) {
      if (member != left_out) parts.push_back(of(member, image));
    }
    std::vector<float> result(width);
    engine::average_probabilities(loss, parts, result);
    return result;
  }
};

Outputs compute_outputs(const std::vector<EnsembleMember>& members, std::size_t input,
                        const results::PredictOptions& options) {
  Outputs outputs;
  for (const EnsembleMember& member : members) {
    const auto engine = make_engine(member.opened, member.inputs);
    const std::size_t width = engine->replica().outputs();
    if (outputs.width != 0 && outputs.width != width) {
      throw DataError(member.opened.path, "gives ", width, " outputs, but ", members[0].opened.path,
                      " gives ", outputs.width, "; the runs of an ensemble need the same outputs");
    }
    outputs.width = width;
    std::vector<float>& logits = outputs.logits.emplace_back();
    for_each_output(*engine, member.inputs[input], options, [&](const results::Output& output) {
      const std::size_t image = output.index;
      if (outputs.images() <= image) {
        outputs.labels.push_back(output.label);
        outputs.errors.emplace_back();
      }
      if (!output.error.empty()) outputs.errors[image] = output.error;
      logits.insert(logits.end(), output.logits.begin(), output.logits.end());
      logits.resize((image + 1) * width);
    });
  }
  return outputs;
}

// Sums the metrics of one way to predict.
class Scores {
 public:
  Scores(LossKind loss, std::int64_t outputs, std::int64_t top_k)
      : loss_(loss), sums_(loss, outputs, top_k) {}
  void add(std::span<const float> logits, std::int32_t label) {
    const auto loss = static_cast<float>(engine::sample_loss(loss_, logits, label));
    sums_.add(logits, std::span(&loss, 1), std::span(&label, 1));
  }
  engine::Metrics result() const { return sums_.result(); }

 private:
  LossKind loss_;
  engine::MetricsAccumulator sums_;
};

// Metrics as keys of JSON.
struct NamedMetrics {
  engine::Metrics metrics;
};

void fields(results::FieldVisitor& v, NamedMetrics& named) {
  results::FurtherMetrics further = results::find_further_metrics(named.metrics);
  v("count", named.metrics.count, results::kSamples, "Images.");
  v("loss", named.metrics.loss, "Mean loss.");
  v.when_present("accuracy", named.metrics.accuracy, results::kShare, "Accuracy.");
  v.when_present("top_k_accuracy", further.top_k_accuracy, results::kShare,
                 "Images whose class is among the most probable.");
  fields(v, further.means);
}

// Returns "+0.52" or "-0.10" for a difference of shares in percent.
std::string format_gain(double gain) { return concat(gain < 0 ? "" : "+", fixed(gain * 100, 2)); }

}  // namespace

std::vector<EnsembleMember> open_ensemble(std::vector<OpenedModel> runs,
                                          const std::vector<std::string>& files,
                                          std::optional<Split> split, bool skip) {
  std::vector<EnsembleMember> members;
  for (OpenedModel& run : runs) {
    if (!members.empty()) check_same_outputs(members[0].opened, run);
    std::vector<PredictionInput> inputs = open_prediction_inputs(run, files, split, skip);
    members.push_back({std::move(run), std::move(inputs)});
    check_same_images(members[0], members.back());
  }
  return members;
}

void predict_ensemble(const std::vector<EnsembleMember>& members, std::size_t input,
                      const results::PredictOptions& options,
                      const std::function<void(const results::Prediction&)>& each) {
  const Outputs outputs = compute_outputs(members, input, options);
  for (std::size_t image = 0; image < outputs.images(); ++image) {
    results::Prediction prediction;
    prediction.index = static_cast<std::int64_t>(image);
    prediction.error = outputs.errors[image];
    std::vector<float> logits;
    if (prediction.error.empty()) {
      logits = outputs.mean(options.loss, image);
      prediction.logits = logits;
      prediction.label = outputs.labels[image];
      prediction.predicted = engine::predicted_class(logits, options.loss);
      prediction.probabilities = results::compute_probabilities(logits, options.loss);
    }
    each(prediction);
  }
}

EnsembleScores evaluate_ensemble(std::vector<OpenedModel> runs, std::optional<Split> split,
                                 bool flip) {
  const std::vector<EnsembleMember> members = open_ensemble(std::move(runs), {}, split, false);
  const config::Config& config = members[0].opened.config;
  const LossKind loss = config.model.loss;
  const data::Dataset& images = members[0].inputs[0].dataset();
  if (!engine::has_classes(images, loss)) {
    throw ConfigError({},
                      "--ensemble: the samples have no classes, so that no accuracy of the runs "
                      "can be compared");
  }
  results::PredictOptions options;
  options.loss = loss;
  options.flip = flip;
  const Outputs outputs = compute_outputs(members, 0, options);
  const auto width = static_cast<std::int64_t>(outputs.width);
  const Scores none(loss, width, config.evaluate.top_k);
  Scores all = none;
  std::vector<Scores> alone(members.size(), none), without(members.size(), none);
  for (std::size_t image = 0; image < outputs.images(); ++image) {
    const std::int32_t label = *outputs.labels[image];
    all.add(outputs.mean(loss, image), label);
    for (std::size_t member = 0; member < members.size(); ++member) {
      alone[member].add(outputs.of(member, image), label);
      without[member].add(outputs.mean(loss, image, member), label);
    }
  }
  EnsembleScores scores;
  scores.split = *parse_split(members[0].inputs[0].name);
  scores.classes = members[0].opened.classes;
  scores.metrics = all.result();
  for (std::size_t member = 0; member < members.size(); ++member) {
    scores.members.push_back({members[member].opened.path, members[member].opened.step,
                              alone[member].result(), without[member].result()});
  }
  return scores;
}

void print_ensemble(const EnsembleScores& scores, bool brief, std::ostream& out) {
  const engine::Metrics& metrics = scores.metrics;
  out << to_string(scores.split) << ": mean of " << scores.members.size() << " runs: loss "
      << fixed(metrics.loss, 4) << ", accuracy " << percent(metrics.accuracy) << " (95 % interval "
      << percent(metrics.accuracy_interval.low) << " to " << percent(metrics.accuracy_interval.high)
      << ", " << metrics.correct << " of " << metrics.count << ")";
  if (!std::isnan(metrics.auc)) out << ", AUC " << fixed(metrics.auc, 4);
  out << '\n';
  if (brief) return;
  out << '\n';
  Table table({"run", "step", "loss", "accuracy", "without it", "adds"}, {1, 2, 3, 4, 5});
  for (const MemberScores& member : scores.members) {
    table.add({printable(member.run), std::to_string(member.step), fixed(member.alone.loss, 4),
               percent(member.alone.accuracy), percent(member.without.accuracy),
               format_gain(metrics.accuracy - member.without.accuracy)});
  }
  table.print(out);
}

static void fields(results::FieldVisitor& v, MemberScores& member) {
  v("run", member.run, "The run.");
  v("step", member.step, results::kSteps, "The step of its checkpoint.");
  v.derived("alone", NamedMetrics{member.alone}, "Metrics of the run alone.");
  v.derived("without", NamedMetrics{member.without}, "Metrics of the mean of the other runs.");
}

void fields(results::FieldVisitor& v, EnsembleScores& scores) {
  NamedMetrics named{scores.metrics};
  v.event("ensemble");
  v("split", scores.split, "The evaluated split.");
  fields(v, named);
  v("accuracy_low", scores.metrics.accuracy_interval.low, results::kShare,
    "Lower end of the 95 % interval of the accuracy (Wilson).");
  v("accuracy_high", scores.metrics.accuracy_interval.high, results::kShare,
    "Upper end of the 95 % interval of the accuracy (Wilson).");
  v("runs", scores.members, "The runs, in the order in which they were named.");
}

}  // namespace trainer::inference

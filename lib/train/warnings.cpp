#include "train/warnings.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>
#include <span>

#include "base/error.h"
#include "base/formats/table.h"
#include "config/keys.h"
#include "train/schedule/stages.h"

namespace trainer::train {
namespace {

namespace keys = config::keys;
using config::Duration;
using config::Freeze;

std::string line(const SourceLoc& loc, const std::string& key, const std::string& message) {
  return concat(loc.known() ? to_string(loc) + ": " : "", key, ": ", message);
}

// Returns whether it selects any layers.
bool selects(const Freeze& freeze) {
  return freeze.kind != Freeze::Kind::kNone &&
         !(freeze.kind == Freeze::Kind::kCount && freeze.count == 0);
}

bool freezes_weights(const graph::Graph& model) {
  for (const graph::LayerInfo& layer : model.layers) {
    if (!layer.trainable && !layer.parameters.empty()) return true;
  }
  return false;
}

void warn_of_freeze(const config::Model& model, const std::vector<graph::Graph>& models,
                    std::vector<std::string>& warnings) {
  const config::Backbone& backbone = *model.backbone;
  for (std::size_t stage = 0; stage < models.size(); ++stage) {
    const bool later = stage > 0;
    const Freeze& freeze = later ? backbone.unfreeze[stage - 1].freeze : backbone.freeze;
    if (!selects(freeze) || freezes_weights(models[stage])) continue;
    warnings.push_back(line(
        later ? backbone.unfreeze[stage - 1].loc : backbone.loc,
        later ? concat(keys::kBackboneUnfreeze, "[", stage - 1, "].freeze") : keys::kBackboneFreeze,
        "selects no layer that has weights, so that all are trained; write none if that is meant"));
  }
  if (!backbone.weights.empty() || !model.weights.empty()) return;
  if (models.empty() || !freezes_weights(models[0])) return;
  warnings.push_back(line(backbone.loc, keys::kBackboneFreeze,
                          "the frozen layers keep the random numbers that they start with; give "
                          "model.backbone.weights, or train them"));
}

// The moving statistics that follow the batches slowest.
struct SlowStatistics {
  double momentum = 0;  // 0: no such statistics change in training
  SourceLoc loc;        // of the layer
};

enum class Origin { kWeights, kInitialisers };  // of the first values of statistics

SlowStatistics find_slowest(std::span<const graph::Graph> models, Origin origin) {
  SlowStatistics slowest;
  for (const graph::Graph& model : models) {
    std::set<std::string> updated;
    for (const graph::LayerInfo& layer : model.layers) {
      const Origin of_layer = layer.weights.empty() ? Origin::kInitialisers : Origin::kWeights;
      const bool updates = layer.trainable && !layer.moving_statistics;
      if (updates && of_layer == origin) updated.insert(layer.name);
    }
    for (const graph::Node& node : model.nodes) {
      const auto* update = std::get_if<graph::UpdateStatistics>(&node.op);
      if (update == nullptr || !updated.contains(node.name)) continue;
      // Without the digits that the conversion to float has added.
      const double momentum = std::round(static_cast<double>(update->momentum) * 1e6) / 1e6;
      if (momentum > slowest.momentum) slowest = {momentum, node.loc};
    }
  }
  return slowest;
}

// Batches of fewer samples have noisy statistics.
constexpr std::int64_t kMinBatchOfStatistics = 16;
// Moving statistics lag if they keep more than this share of their first values until the end of
// the run.
constexpr double kMaxOldShare = 0.05;
// The momentum to recommend; a run of 29 steps replaces the first values with it.
constexpr double kFastMomentum = 0.9;

// Returns the share of their first values that moving statistics keep after all steps of the run.
double old_share(const SlowStatistics& statistics, const TrainingPlan& steps) {
  return std::pow(statistics.momentum, static_cast<double>(steps.total_steps));
}

// Returns "after the 10 steps of this run 99 % of the moving statistics are still WHAT (momentum
// 0.999)".
std::string describe_lag(const SlowStatistics& statistics, const TrainingPlan& steps,
                         const std::string& what) {
  return concat("after the ", steps.total_steps, " steps of this run ",
                std::lround(100 * old_share(statistics, steps)),
                " % of the moving statistics are still ", what, " (momentum ", statistics.momentum,
                ")");
}

// Warns about a backbone with weights whose batch norm uses the statistics of small batches, or
// whose moving statistics are a mixture of two data sets at the end.
void warn_of_pretrained_norm(const config::Backbone& backbone, std::span<const graph::Graph> models,
                             const TrainingPlan& steps, std::vector<std::string>& warnings) {
  const SlowStatistics statistics = find_slowest(models, Origin::kWeights);
  if (statistics.momentum == 0) return;
  const std::int64_t batch = steps.batch / std::max<std::int64_t>(1, steps.replicas);
  std::string reason;
  if (old_share(statistics, steps) > kMaxOldShare) {
    reason = describe_lag(statistics, steps, "those of the weights");
  } else if (batch < kMinBatchOfStatistics) {
    reason = concat("batches of ", batch, " samples have noisy statistics");
  }
  if (reason.empty()) return;
  warnings.push_back(line(backbone.loc, "model.backbone.batch_norm",
                          concat("trains on the statistics of batches, and ", reason,
                                 "; write batch_norm: eval to keep those of the weights")));
}

// Warns about batch norm without weights whose moving statistics, which evaluation uses, lag behind
// those of the batches at the end of the run. `backbone` may be null.
void warn_of_slow_norm(const config::Backbone* backbone, std::span<const graph::Graph> models,
                       const TrainingPlan& steps, std::vector<std::string>& warnings) {
  const SlowStatistics statistics = find_slowest(models, Origin::kInitialisers);
  if (statistics.momentum == 0 || steps.total_steps == 0) return;
  if (old_share(statistics, steps) <= kMaxOldShare) return;
  std::string advice;
  if (statistics.momentum < 1) {
    const double enough = std::ceil(std::log(kMaxOldShare) / std::log(statistics.momentum));
    advice = concat("train for ", static_cast<std::int64_t>(enough), " steps or more");
  }
  const bool is_of_backbone =
      backbone != nullptr && to_string(backbone->loc) == to_string(statistics.loc);
  if (!is_of_backbone) {  // the momentum of a backbone is not a key
    const double root = std::pow(kMaxOldShare, 1 / static_cast<double>(steps.total_steps));
    const double fast = std::min(kFastMomentum, std::floor(100 * root) / 100);
    advice =
        concat("write batch_norm: {momentum: ", fast, "}", advice.empty() ? "" : ", or ", advice);
  }
  warnings.push_back(
      line(statistics.loc, is_of_backbone ? keys::kBackbone : "batch_norm",
           concat(describe_lag(statistics, steps, "their first values, 0 and 1"),
                  ", so that evaluation normalises differently from training; ", advice)));
}

// Returns whether the run ends before `at`; false if that is unknown.
bool comes_too_late(const Duration& at, const config::Train& train) {
  if (at.unit == Duration::Unit::kSteps) return train.max_steps && at.count >= *train.max_steps;
  return !train.max_steps && at.count >= train.epochs.value_or(1);
}

void warn_of_late_stages(const config::Config& config, const std::optional<TrainingPlan>& steps,
                         std::vector<std::string>& warnings) {
  const std::vector<config::Unfreeze>& entries = config.model.backbone->unfreeze;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool late = steps ? Stages(config, *steps).first_steps()[i + 1] >= steps->total_steps
                            : comes_too_late(entries[i].at, config.train);
    if (!late) continue;
    warnings.push_back(line(entries[i].loc, concat("model.backbone.unfreeze[", i, "].at"),
                            concat("the run ends before ", to_string(entries[i].at),
                                   "; what it would unfreeze stays frozen")));
  }
}

constexpr double kHighAdaptiveRate = 1, kHighRate = 100;

// The learning rates with which a run diverges in its first steps. They are smaller for optimizers
// that divide by the size of past gradients.
void warn_of_high_rate(const config::Config& config, std::vector<std::string>& warnings) {
  std::visit(
      [&](const auto& kind) {
        const bool plain = std::is_same_v<std::decay_t<decltype(kind)>, config::Sgd>;
        if (kind.learning_rate <= (plain ? kHighRate : kHighAdaptiveRate)) return;
        warnings.push_back(
            line(config.optimizer.loc, "optimizer",
                 concat("a learning_rate of ", kind.learning_rate,
                        " is far above what this optimizer is used with; the loss will become "
                        "huge. Usual is learning_rate: ",
                        plain ? "1.0e-2" : "1.0e-3")));
      },
      config.optimizer.kind);
}

// A larger share of the draws is worth a warning.
constexpr double kMaxCutShare = 0.1;

// The numbers that the pixels 0 and 255 of a channel become by normalization.
struct NumberRange {
  double low = 0, high = 0;
  // Returns the share of N(0, 1) that is outside.
  double cut_share() const {
    return (std::erfc(-low / std::numbers::sqrt2) + std::erfc(high / std::numbers::sqrt2)) / 2;
  }
};

// Returns the range of the channel that cuts most of N(0, 1).
NumberRange find_narrowest_range(const config::Normalize& normalize) {
  NumberRange narrowest{-1e9, 1e9};
  for (std::size_t c = 0; c < normalize.listed_channels(); ++c) {
    const double mean = normalize.find_mean(c), std = normalize.find_std(c);
    const auto [low, high] = std::minmax({(0 - mean) / std, (255 * normalize.scale - mean) / std});
    const NumberRange range{low, high};
    if (range.cut_share() > narrowest.cut_share()) narrowest = range;
  }
  return narrowest;
}

// Warns about erased pixels from N(0, 1) where normalization gives pixels a narrower range, such as
// [0, 1], which cuts most of the draws.
void warn_of_cut_noise(const config::Data& data, std::vector<std::string>& warnings) {
  using Mode = config::RandomErasing::Mode;
  for (std::size_t i = 0; i < data.train.augment.size(); ++i) {
    const config::Augmentation& entry = data.train.augment[i];
    const auto* erasing = std::get_if<config::RandomErasing>(&entry.kind);
    if (erasing == nullptr || (erasing->mode != Mode::kRand && erasing->mode != Mode::kPixel)) {
      continue;
    }
    const NumberRange range = find_narrowest_range(config::find_normalize(data));
    if (range.cut_share() <= kMaxCutShare) continue;
    warnings.push_back(
        line(entry.loc, concat("data.train.augment[", i, "].random_erasing.mode"),
             concat(spell(erasing->mode),
                    " draws numbers of the normalized image from N(0, 1), and pixels are from ",
                    fixed(range.low, 2), " to ", fixed(range.high, 2), " there, to which ",
                    percent(range.cut_share()),
                    " of the draws are cut; give data.normalize the mean and the std of the "
                    "images, or take preprocess: torch for photos")));
  }
}

}  // namespace

std::vector<std::string> config_warnings(const config::Config& config,
                                         const std::optional<model::SampleSpec>& sample,
                                         const std::optional<TrainingPlan>& steps) {
  std::vector<std::string> warnings;
  if (!config.model.weights_warning.empty()) warnings.push_back(config.model.weights_warning);
  warn_of_high_rate(config, warnings);
  warn_of_cut_noise(config.data, warnings);
  const auto* backbone = config.model.backbone ? &*config.model.backbone : nullptr;
  // A plain model has no warnings without the steps.
  const bool needs_models = backbone != nullptr || steps;
  if (needs_models && sample && (sample->classes > 0 || sample->label_is_index)) {
    std::vector<std::int64_t> first(backbone == nullptr ? 1 : backbone->unfreeze.size() + 1);
    std::iota(first.begin(), first.end(), 0);  // the layers do not depend on the steps
    const std::vector<graph::Graph> models = stage_models(config, *sample, first);
    if (backbone != nullptr) warn_of_freeze(config.model, models, warnings);
    if (steps) {
      const std::vector<std::int64_t> starts = Stages(config, *steps).first_steps();
      const auto reached = std::ranges::count_if(
          starts, [&](std::int64_t start) { return start < steps->total_steps; });
      const auto trained = std::span(models).first(reached);
      if (backbone != nullptr) warn_of_pretrained_norm(*backbone, trained, *steps, warnings);
      warn_of_slow_norm(backbone, trained, *steps, warnings);
    }
  }
  if (backbone != nullptr) warn_of_late_stages(config, steps, warnings);
  return warnings;
}

}  // namespace trainer::train

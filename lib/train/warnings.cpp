#include "train/warnings.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>

#include "base/error.h"
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

// Returns the highest momentum of the moving statistics that start from weights and change in
// training; 0 without such statistics.
double find_pretrained_momentum(std::span<const graph::Graph> models) {
  double momentum = 0;
  for (const graph::Graph& model : models) {
    std::set<std::string> pretrained;
    for (const graph::LayerInfo& layer : model.layers) {
      const bool updates = layer.trainable && !layer.moving_statistics;
      if (updates && !layer.weights.empty()) pretrained.insert(layer.name);
    }
    for (const graph::Node& node : model.nodes) {
      const auto* update = std::get_if<graph::UpdateStatistics>(&node.op);
      if (update == nullptr || !pretrained.contains(node.name)) continue;
      momentum = std::max(momentum, static_cast<double>(update->momentum));
    }
  }
  return momentum;
}

// Batches of fewer samples have noisy statistics.
constexpr std::int64_t kMinBatchOfStatistics = 16;
// A run is short if more than this share of the statistics at its end is that of the weights.
constexpr double kMaxOldShare = 0.05;

// Warns about a backbone with weights whose batch norm uses the statistics of small batches, or
// whose moving statistics are a mixture of two data sets at the end.
void warn_of_batch_norm(const config::Backbone& backbone, std::span<const graph::Graph> models,
                        const TrainingPlan& steps, std::vector<std::string>& warnings) {
  const double momentum = find_pretrained_momentum(models);
  if (momentum == 0) return;
  const std::int64_t batch = steps.batch / std::max<std::int64_t>(1, steps.replicas);
  const double old_share = std::pow(momentum, static_cast<double>(steps.total_steps));
  std::string reason;
  if (old_share > kMaxOldShare) {
    reason =
        concat("after the ", steps.total_steps, " steps of this run ", std::lround(100 * old_share),
               " % of the moving statistics are still those of the weights (momentum ",
               std::round(momentum * 1e6) / 1e6, ")");
  } else if (batch < kMinBatchOfStatistics) {
    reason = concat("batches of ", batch, " samples have noisy statistics");
  }
  if (reason.empty()) return;
  warnings.push_back(line(backbone.loc, "model.backbone.batch_norm",
                          concat("trains on the statistics of batches, and ", reason,
                                 "; write batch_norm: eval to keep those of the weights")));
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

}  // namespace

std::vector<std::string> config_warnings(const config::Config& config,
                                         const std::optional<model::SampleSpec>& sample,
                                         const std::optional<TrainingPlan>& steps) {
  std::vector<std::string> warnings;
  warn_of_high_rate(config, warnings);
  if (!config.model.backbone) return warnings;
  const config::Backbone& backbone = *config.model.backbone;
  if (sample && (sample->classes > 0 || sample->label_is_index)) {
    std::vector<std::int64_t> first(backbone.unfreeze.size() + 1);
    std::iota(first.begin(), first.end(), 0);  // the layers do not depend on the steps
    const std::vector<graph::Graph> models = stage_models(config, *sample, first);
    warn_of_freeze(config.model, models, warnings);
    if (steps) {
      const std::vector<std::int64_t> starts = Stages(config, *steps).first_steps();
      const auto reached = std::ranges::count_if(
          starts, [&](std::int64_t start) { return start < steps->total_steps; });
      warn_of_batch_norm(backbone, std::span(models).first(static_cast<std::size_t>(reached)),
                         *steps, warnings);
    }
  }
  warn_of_late_stages(config, steps, warnings);
  return warnings;
}

}  // namespace trainer::train

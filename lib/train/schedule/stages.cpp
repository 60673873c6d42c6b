#include "train/schedule/stages.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "config/keys.h"

namespace trainer::train {
namespace {

namespace keys = config::keys;

const std::vector<config::Unfreeze>& unfreeze_entries(const config::Config& config) {
  static const std::vector<config::Unfreeze> kNone;
  return config.model.backbone ? config.model.backbone->unfreeze : kNone;
}

std::int64_t first_step(const config::Duration& at, const TrainingPlan& plan) {
  const bool epochs = at.unit == config::Duration::Unit::kEpochs;
  return steps_in(at.count, epochs ? plan.steps_per_epoch : 1);
}

std::set<std::string> trained_parameters(const graph::Graph& model) {
  std::set<std::string> names;
  for (const graph::LayerInfo& layer : model.layers) {
    if (!layer.trainable) continue;
    for (const graph::ValueId id : layer.parameters) names.insert(model[id].name);
  }
  return names;
}

graph::Graph build(const config::Config& config, const model::SampleSpec& sample,
                   std::size_t stage) {
  const config::Config changed = stage_config(config, stage);
  try {
    return model::build_model(changed, sample);
  } catch (const ConfigError& error) {
    if (stage == 0) throw;
    std::vector<Diagnostic> diagnostics = error.diagnostics();
    for (Diagnostic& one : diagnostics) {
      const std::string of = keys::kBackboneFreeze;
      if (!one.message.starts_with(of)) continue;
      one.message = concat(keys::kBackboneUnfreeze, "[", stage - 1, "].freeze",
                           one.message.substr(of.size()));
    }
    throw ConfigError(std::move(diagnostics));
  }
}

}  // namespace

config::Config stage_config(config::Config config, std::size_t stage) {
  if (stage > 0) config.model.backbone->freeze = unfreeze_entries(config).at(stage - 1).freeze;
  return config;
}

std::vector<graph::Graph> stage_models(const config::Config& config,
                                       const model::SampleSpec& sample,
                                       const std::vector<std::int64_t>& first_steps) {
  std::vector<graph::Graph> models;
  std::map<std::string, std::int64_t> since;  // first update of each trained parameter
  for (std::size_t stage = 0; stage < first_steps.size(); ++stage) {
    graph::Graph model = build(config, sample, stage);
    const std::set<std::string> trained = trained_parameters(model);
    std::erase_if(since, [&](const auto& entry) { return !trained.contains(entry.first); });
    for (const std::string& name : trained) since.try_emplace(name, first_steps[stage]);
    for (graph::Value& value : model.values) {
      const auto found = since.find(value.name);
      if (value.role == graph::Role::kParameter && found != since.end()) {
        value.updates_before = found->second;
      }
    }
    models.push_back(std::move(model));
  }
  return models;
}

Stages::Stages(const config::Config& config, const TrainingPlan& plan) : first_steps_{0} {
  for (std::size_t i = 0; i < unfreeze_entries(config).size(); ++i) {
    const config::Unfreeze& entry = unfreeze_entries(config)[i];
    const std::int64_t step = first_step(entry.at, plan);
    if (step <= first_steps_.back()) {
      throw ConfigError(entry.loc, "model.backbone.unfreeze[", i, "].at: ", to_string(entry.at),
                        " is step ", step, ", not after step ", first_steps_.back(),
                        " of the entry before; list them in the order in which they come");
    }
    first_steps_.push_back(step);
  }
}

std::size_t Stages::at(std::int64_t step) const {
  const auto next = std::ranges::upper_bound(first_steps_, step);
  return static_cast<std::size_t>(next - first_steps_.begin()) - 1;
}

optim::LearningRate staged_learning_rate(const config::Config& config, const TrainingPlan& plan) {
  optim::LearningRate rate = learning_rate(config, plan);
  std::vector<double> factors{1};
  for (const config::Unfreeze& entry : unfreeze_entries(config)) {
    factors.push_back(entry.learning_rate_multiplier);
  }
  if (factors.size() == 1) return rate;
  return [rate, factors, stages = Stages(config, plan)](std::int64_t step) {
    return rate(step) * factors[stages.at(step)];
  };
}

}  // namespace trainer::train

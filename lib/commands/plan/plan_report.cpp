#include "commands/plan/plan_report.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "commands/plan/resolved.h"
#include "compile/compile.h"
#include "config/keys.h"
#include "config/pretrained.h"
#include "data/open.h"
#include "data/samples/splits.h"
#include "hooks/data_report.h"
#include "optim/optim.h"
#include "train/open.h"
#include "train/schedule/stages.h"
#include "train/servers/parameter_servers.h"

namespace trainer::commands {
namespace {

namespace keys = config::keys;

constexpr std::int64_t kMaxRatePoints = 11;
constexpr std::int64_t kMaxSampledRates = 100'000;  // of the learning rate, for its range

constexpr const char* kDefault = "default";

std::string describe(const config::Origin& origin) {
  const std::string place = to_string(origin.loc);
  switch (origin.kind) {
    case config::Origin::Kind::kDefault:
      return kDefault;
    case config::Origin::Kind::kFile:
      return place;
    case config::Origin::Kind::kSet:
      return place.empty() ? "--set" : place;
    case config::Origin::Kind::kEnvironment:
      return concat("$", origin.detail, origin.loc.known() ? " at " + place : "");
    case config::Origin::Kind::kWeights:
      return origin.detail;
  }
  return "";
}

// Returns the key that decides the variant of a backbone that the config leaves out.
const char* find_origin_of_variant(const config::Model& model) {
  const config::Backbone& backbone = *model.backbone;
  if (config::list_variants(backbone.name).size() == 1) return keys::kBackboneName;
  if (!model.weights.empty()) return keys::kWeights;
  const bool has_file = !backbone.weights.empty() && backbone.weights != config::kImagenet;
  return has_file ? keys::kBackboneWeights : keys::kBackboneName;
}

std::vector<PlanReport::Setting> list_settings(const config::LoadedConfig& loaded) {
  std::vector<PlanReport::Setting> settings;
  for (const auto& [key, value] : config::leaves(loaded.config)) {
    const auto origin = loaded.origins.find(key);
    const bool given =
        origin != loaded.origins.end() && origin->second.kind != config::Origin::Kind::kDefault;
    settings.push_back({key, value, given ? describe(origin->second) : kDefault, given});
    // What parse_config has taken from elsewhere.
    PlanReport::Setting& setting = settings.back();
    if (setting.origin != kDefault) continue;
    if (key == keys::kPreprocess && value != "null") setting.origin = keys::kBackbone;
    if (key == keys::kModelInput && value != "[]") setting.origin = keys::kBackbone;
    if (key == keys::kBackboneVariant) setting.origin = find_origin_of_variant(loaded.config.model);
    const bool size = key == keys::kResize || key == keys::kChannels;
    if (size && value != "null" && value != "[]") setting.origin = keys::kModelInput;
  }
  return settings;
}

// Returns the number of optimizer slots per trained parameter.
std::int64_t count_slots(const config::Config& config) {
  return static_cast<std::int64_t>(
      graph::list_slots(optim::update_spec(config.optimizer).update).size());
}

std::int64_t count_flops(const graph::Graph& graph, graph::Phase phase) {
  std::int64_t flops = 0;
  for (const graph::Node& node : graph.nodes) {
    if (node.phase == phase) flops += graph::flops(graph, node);
  }
  return flops;
}

// Returns the arithmetic of the graph that model::build_model() returns.
StepWork step_work(const graph::Graph& model, const config::Config& config) {
  compile::Options options;
  options.update = optim::update_spec(config.optimizer).update;
  const compile::FrozenSplit split = compile::split_frozen(model, options);
  const bool frozen = split.reason.empty();
  const graph::Graph training = compile::training_graph(frozen ? split.suffix : model, options);
  StepWork work;
  if (frozen) work.frozen = count_flops(split.prefix, graph::Phase::kForward);
  work.forward = count_flops(training, graph::Phase::kForward);
  work.backward = count_flops(training, graph::Phase::kBackward);
  return work;
}

void add_layers(PlanReport& plan, const config::Config& config, const graph::Graph& model) {
  plan.layers = model::layer_table(model);
  for (const model::LayerRow& row : plan.layers) {
    plan.parameters += row.parameters;
    plan.trainable += row.trainable_parameters;
    plan.flops += row.flops;
  }
  for (const graph::LayerInfo& layer : model.layers) {
    if (!layer.trainable || layer.moving_statistics) continue;
    for (const graph::ValueId id : layer.parameters) {
      if (model[id].role == graph::Role::kStatistic) plan.statistics += model[id].shape.elements();
    }
  }
  plan.slots = plan.trainable * count_slots(config);
  plan.work = step_work(model, config);
}

void add_rates(PlanReport& plan, const config::Config& config) {
  const train::TrainingPlan& steps = *plan.steps;
  const optim::LearningRate rate = train::staged_learning_rate(config, steps);
  const std::int64_t last = steps.total_steps - 1;
  if (last < 0) return;
  const std::int64_t points = std::min(kMaxRatePoints, steps.total_steps);
  for (std::int64_t i = 0; i < points; ++i) {
    const std::int64_t step = points == 1 ? 0 : last * i / (points - 1);
    plan.rates.push_back({step, steps.epoch(step), rate(step)});
  }
  plan.lowest_rate = plan.highest_rate = plan.rates[0].rate;
  const std::int64_t stride = std::max<std::int64_t>(1, steps.total_steps / kMaxSampledRates);
  for (std::int64_t step = 0; step <= last; step += stride) {
    plan.lowest_rate = std::min(plan.lowest_rate, rate(step));
    plan.highest_rate = std::max(plan.highest_rate, rate(step));
  }
}

void add_stages(PlanReport& plan, const config::Config& config) {
  plan.changes.resize(plan.layers.size());
  if (!config.model.backbone || config.model.backbone->unfreeze.empty()) return;
  const std::vector<config::Unfreeze>& entries = config.model.backbone->unfreeze;
  std::vector<std::int64_t> first(entries.size() + 1);
  std::iota(first.begin(), first.end(), 0);  // what is frozen does not depend on the steps
  const auto models = train::stage_models(config, *plan.data.sample, first);
  if (plan.steps) first = train::Stages(config, *plan.steps).first_steps();
  std::vector<model::LayerRow> before = plan.layers;
  for (std::size_t stage = 1; stage < models.size(); ++stage) {
    const config::Unfreeze& entry = entries[stage - 1];
    PlanReport::Stage row{to_string(entry.at),
                          plan.steps ? first[stage] : -1,
                          0,
                          0,
                          step_work(models[stage], config),
                          entry.learning_rate_multiplier};
    const std::vector<model::LayerRow> now = model::layer_table(models[stage]);
    for (std::size_t i = 0; i < now.size(); ++i) {
      row.trainable += now[i].trainable_parameters;
      row.layers += now[i].trainable_parameters > 0 ? 1 : 0;
      if (now[i].parameters == 0 || now[i].trainable == before[i].trainable) continue;
      plan.changes[i] += concat("; after ", row.at, now[i].trainable ? " trained" : " frozen");
    }
    const bool never = plan.steps && row.step >= plan.steps->total_steps;
    if (!never) plan.slots = std::max(plan.slots, row.trainable * count_slots(config));
    plan.stages.push_back(row);
    before = now;
  }
}

}  // namespace

std::int64_t PlannedData::size(Split split) const {
  for (const train::FeatureSplit& one : splits) {
    if (one.split == split) return one.samples;
  }
  return 0;
}

PlannedData plan_data(config::Config& config) {
  config.data.folders = config::FolderAccess::kReadOnly;
  PlannedData planned;
  try {
    const data::Datasets data = train::open_training_data(config);
    planned.sample = train::sample_spec(data);
    planned.classes = data.classes;
    planned.class_order = data.class_order;
    planned.splits = train::feature_splits(data);
    planned.warnings = hooks::data_warnings(data);
    if (data.scaled_decode_note) {
      if (std::string note = data.scaled_decode_note(); !note.empty()) {
        planned.notes.push_back(std::move(note));
      }
    }
    std::vector<Notice> notices = data.notices;
    notices.push_back(data.range_notice);
    notices.push_back(data.relabel_notice);
    notices.push_back(train::resolve_normalize(config, data));
    for (const Notice& notice : notices) {
      if (notice.text.empty()) continue;
      (notice.kind == Notice::Kind::kNote ? planned.notes : planned.warnings)
          .push_back(notice.text);
    }
    for (const Split split : kSplits) {
      if (data.dataset(split) == nullptr) continue;
      std::vector<std::int64_t> counts = data::class_counts(*data.dataset(split), data.num_classes);
      if (!counts.empty()) planned.class_counts[to_string(split)] = std::move(counts);
    }
  } catch (const DataError& error) {
    planned.unknown = error.what();
    planned.sample = train::expected_sample(config);
    if (planned.sample && planned.sample->classes < 1) planned.sample.reset();
    planned.classes = config.data.classes;
  }
  return planned;
}

std::optional<graph::Graph> plan_model(const config::Config& config, const PlannedData& data) {
  if (!data.sample) return std::nullopt;
  return model::build_model(config, *data.sample);
}

std::int64_t workers_in_step(const cluster::Identity& who) {
  return train::has_parameter_servers(who) ? 1 : who.size;
}

cluster::Identity planned_workers(int size) {
  cluster::Identity who;
  who.size = size;
  who.source = "--world-size";
  return who;
}

PlanReport make_plan(const config::LoadedConfig& loaded, const PlannedData& data,
                     const std::optional<graph::Graph>& model, const cluster::Identity& who) {
  PlanReport plan;
  plan.who = who;
  plan.replicas = loaded.config.parallel.replicas;
  plan.evaluates_alone = !loaded.config.parallel.evaluate;
  plan.settings = list_settings(loaded);
  plan.data = data;
  if (model) add_layers(plan, loaded.config, *model);
  if (data.size(Split::kTrain) > 0) {
    plan.steps = train::plan_steps(loaded.config, data.size(Split::kTrain), workers_in_step(who));
    if (!std::holds_alternative<config::RampUpSchedule>(loaded.config.schedule.kind)) {
      plan.rate = train::scaled_rate(loaded.config, plan.steps->replicas);
    }
    add_rates(plan, loaded.config);
  }
  if (model) add_stages(plan, loaded.config);
  fill_in(plan.settings, resolve(loaded.config, data, plan.steps, who));
  return plan;
}

std::int64_t pushed_bytes(const PlanReport& plan) {
  return 4 * (plan.trainable + 2 * plan.statistics);
}

std::int64_t pulled_bytes(const PlanReport& plan) { return 4 * (plan.trainable + plan.statistics); }

}  // namespace trainer::commands

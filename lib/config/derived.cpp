#include "config/derived.h"

#include "config/describe/schema.h"

namespace trainer::config {

Config with_replicas(const Config& config, std::int64_t replicas) {
  const std::int64_t batch = config.train.batch_size * config.parallel.replicas;
  if (batch % replicas != 0) {
    throw ConfigError(config.train.loc, "train.batch_size: a global batch of ", batch,
                      " cannot be divided among ", replicas, " replicas");
  }
  Config made = config;
  made.parallel.replicas = replicas;
  // Listed GPUs serve any number of replicas in turn.
  const std::vector<std::int64_t>& listed = config.parallel.gpus.indices;
  made.parallel.gpus.indices.clear();
  for (std::int64_t r = 0; !listed.empty() && r < replicas; ++r) {
    made.parallel.gpus.indices.push_back(listed[r % listed.size()]);
  }
  made.train.batch_size = batch / replicas;
  if (config.evaluate.batch_size) {
    // Evaluation uses the same batches too, if they can be divided.
    const std::int64_t all = *config.evaluate.batch_size * config.parallel.replicas;
    made.evaluate.batch_size.reset();
    if (all % replicas == 0) made.evaluate.batch_size = all / replicas;
  }
  made.parallel.lr_scaling = Parallel::LrScaling::kNone;
  if (auto* ramp_up = std::get_if<RampUpSchedule>(&made.schedule.kind)) {
    ramp_up->scale = RampUpSchedule::Scale::kNone;
  }
  made.parallel.lanes.reset();
  return made;
}

bool names_metric(const Config& config, std::string_view name) {
  const std::string end = concat('/', name);
  const auto* plateau = std::get_if<ReduceOnPlateauSchedule>(&config.schedule.kind);
  const Train& train = config.train;
  return config.run.best.ends_with(end) ||
         (train.early_stop && train.early_stop->metric.ends_with(end)) ||
         (train.stop_at && train.stop_at->metric.ends_with(end)) ||
         (plateau != nullptr && plateau->metric.ends_with(end));
}

std::vector<std::pair<std::string, std::string>> leaves(const Config& config,
                                                        std::string_view section) {
  std::vector<std::pair<std::string, std::string>> all = leaves(config);
  const std::string start = concat(section, '.');
  std::erase_if(all, [&](const auto& leaf) { return !leaf.first.starts_with(start); });
  return all;
}

std::string default_key(const std::string& leaf) {
  const Schema* schema = &config_schema();
  for (std::string rest = leaf; !rest.empty();) {
    const Field* field = schema->find(take_step(rest));
    if (field == nullptr) break;
    const std::string_view key = field->schema.rule.default_key;
    if (rest.empty() && !key.empty()) {
      return concat(leaf.substr(0, leaf.rfind('.') + 1), key);
    }
    schema = &field->schema;
    if (schema->kind == Schema::Kind::kList) schema = &resolved(schema->item.front());
  }
  return "";
}

std::string common_config(Config config) {
  config.run.dir.clear();
  config.parallel.threads.reset();
  return to_yaml(config);
}

}  // namespace trainer::config

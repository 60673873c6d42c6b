#include "commands/plan/resolved.h"

#include "base/error.h"
#include "config/derived.h"
#include "config/keys.h"
#include "data/samples/loader.h"
#include "engine/compile_options.h"
#include "train/run_dir.h"

namespace trainer::commands {
namespace {

namespace keys = config::keys;

// "{scale: 1, mean: [1, 2, 3], ...}"
std::string write_flow(const config::Normalize& normalize) {
  config::Config config;
  config.data.normalize = normalize;
  std::string text;
  for (const auto& [key, value] : config::leaves(config, keys::kNormalize)) {
    text += concat(text.empty() ? "{" : ", ", key.substr(key.rfind('.') + 1), ": ", value);
  }
  return text + "}";
}

std::string write_list(const Shape& shape) {
  std::string text;
  for (const std::int64_t dim : shape.dims()) text += concat(text.empty() ? "[" : ", ", dim);
  return text + "]";
}

std::string short_text(double value) { return concat(value); }

bool is_open(const std::string& value) {
  return value == "null" || value == "[]" || value == "\"\"";
}

}  // namespace

ResolvedValues resolve(const config::Config& config, const PlannedData& data,
                       const std::optional<train::TrainingPlan>& steps,
                       const cluster::Identity& who) {
  const bool images = config::is_image_format(config.data.format);
  ResolvedValues values;
  values[keys::kRunDir] = {train::run_folder(config).string(), "name"};
  values[keys::kNormalize] = {write_flow(config::find_normalize(config.data)),
                              config.data.preprocess ? keys::kPreprocess : "default"};
  if (!config.train.batch_size.is_automatic()) {
    values[keys::kEvaluateBatchSize] = {std::to_string(config.train.batch_size),
                                        keys::kTrainBatchSize};
  }
  values[keys::kLrScaling] = {"none", "default"};
  values[keys::kBucketMb] = {who.size > 1 ? short_text(engine::kRemoteBucketMb) : "0",
                             who.size > 1 ? "several processes" : "one process"};
  if (data.sample) {
    const Shape& image = data.sample->image;
    values[keys::kModelInput] = {write_list(image), images ? keys::kResize : "data"};
    values[keys::kChannels] = {std::to_string(image[2]), images ? "default" : "data"};
    values[keys::kNumClasses] = {std::to_string(data.sample->classes),
                                 config.data.classes.empty() ? "data" : keys::kClasses};
  }
  if (steps) {
    values[keys::kMaxSteps] = {std::to_string(steps->total_steps), keys::kEpochs};
    values[keys::kEpochs] = {short_text(steps->epoch(steps->total_steps)), keys::kMaxSteps};
  }
  return values;
}

ResolvedValues resolve_on_machine(const config::Config& config, const DevicePlan& device) {
  ResolvedValues values;
  const backend::ChosenSettings& chosen = device.chosen;
  if (chosen.threads) values[keys::kThreads] = {concat(*chosen.threads), "machine"};
  if (chosen.lanes) {
    values[keys::kLanes] = {concat(*chosen.lanes), chosen.lanes_reason.empty()
                                                       ? "machine"
                                                       : concat("machine: ", chosen.lanes_reason)};
  }
  if (config::is_image_format(config.data.format)) {
    const data::Reading reading =
        data::choose_reading(config.data.threads, config.data.prefetch, false);
    values[keys::kDataThreads] = {concat("up to ", reading.threads), "measured"};
    values[keys::kPrefetch] = {concat("up to ", reading.prefetch), "measured"};
  }
  return values;
}

void fill_in(std::vector<PlanReport::Setting>& settings, const ResolvedValues& values) {
  std::map<std::string, const PlanReport::Setting*> by_key;
  for (PlanReport::Setting& setting : settings) {
    by_key[setting.key] = &setting;
    if (!is_open(setting.value)) continue;
    if (const auto found = values.find(setting.key); found != values.end()) {
      setting.value = found->second.value;
      setting.origin = found->second.origin;
    }
    // The key that it follows stands before it.
    const std::string other = config::default_key(setting.key);
    if (const auto found = by_key.find(other); found != by_key.end()) {
      setting.value = found->second->value;
      setting.origin = other.substr(other.rfind('.') + 1);
    }
  }
}

}  // namespace trainer::commands

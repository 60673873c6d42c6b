#include "report/resolved.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "data/reading.h"
#include "train/run_dir.h"

namespace trainer::report {
namespace {

// "{scale: 1, mean: [1, 2, 3], ...}"
std::string flow_of(const config::Normalize& normalize) {
  constexpr std::string_view kSection = "data.normalize.";
  config::Config config;
  config.data.normalize = normalize;
  std::string text;
  for (const auto& [key, value] : config::leaves(config)) {
    if (!key.starts_with(kSection)) continue;
    text += concat(text.empty() ? "{" : ", ", key.substr(kSection.size()), ": ", value);
  }
  return text + "}";
}

std::string list_of(const Shape& shape) {
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
                       const std::optional<train::StepPlan>& steps, const cluster::Identity& who) {
  const bool images = config::is_image_format(config.data.format);
  ResolvedValues values;
  values["run.dir"] = {train::run_folder(config).string(), "name"};
  values["data.normalize"] = {flow_of(config::normalize_of(config.data)),
                              config.data.preprocess ? "data.preprocess" : "default"};
  values["evaluate.batch_size"] = {std::to_string(config.train.batch_size), "train.batch_size"};
  values["parallel.lr_scaling"] = {"none", "default"};
  values["parallel.bucket_mb"] = {who.size > 1 ? short_text(engine::kRemoteBucketMb) : "0",
                                  who.size > 1 ? "several processes" : "one process"};
  if (data.sample) {
    const Shape& image = data.sample->image;
    values["model.input"] = {list_of(image), images ? "data.resize" : "data"};
    values["data.channels"] = {std::to_string(image[2]), images ? "default" : "data"};
    values["data.num_classes"] = {std::to_string(data.sample->classes),
                                  config.data.classes.empty() ? "data" : "data.classes"};
  }
  if (steps) {
    values["train.max_steps"] = {std::to_string(steps->total_steps), "train.epochs"};
    values["train.epochs"] = {short_text(steps->epoch(steps->total_steps)), "train.max_steps"};
  }
  return values;
}

ResolvedValues resolve_on_machine(const config::Config& config, const DevicePlan& device) {
  ResolvedValues values;
  for (const backend::ChosenSetting& setting : device.chosen) {
    values[setting.key] = {setting.value, "machine"};
  }
  if (config::is_image_format(config.data.format)) {
    const data::Reading reading =
        data::reading_of(config.data.threads, config.data.prefetch, false);
    values["data.threads"] = {std::to_string(reading.threads), "machine"};
    values["data.prefetch"] = {std::to_string(reading.prefetch), "machine"};
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
    // A pool's strides, which stand behind its size.
    constexpr std::string_view kStrides = "strides";
    if (!setting.key.ends_with("_pool.strides")) continue;
    const std::string size =
        setting.key.substr(0, setting.key.size() - kStrides.size()) + "pool_size";
    if (const auto found = by_key.find(size); found != by_key.end()) {
      setting.value = found->second->value;
      setting.origin = "pool_size";
    }
  }
}

}  // namespace trainer::report

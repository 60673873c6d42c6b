#include "hooks/formats/throughput_json.h"

#include <nlohmann/json.hpp>

namespace trainer::hooks {

nlohmann::ordered_json throughput_json(const InputThroughput& throughput) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (const auto computing = throughput.images_per_second(StepInput::kNewFeatures)) {
    json["images_per_second_computing_features"] = *computing;
  }
  if (const auto cached = throughput.images_per_second(StepInput::kCachedFeatures)) {
    json["images_per_second_cached_features"] = *cached;
  }
  return json;
}

}  // namespace trainer::hooks

#include "hooks/formats/speed_json.h"

#include <nlohmann/json.hpp>

#include "hooks/metric_window.h"

namespace trainer::hooks {

using Json = nlohmann::ordered_json;

Json step_times_json(const engine::StepTimes& times, const std::vector<std::string>& names) {
  constexpr int kDigits = 6;
  Json ranks = Json::array();
  for (std::size_t i = 0; i < times.ranks(); ++i) {
    Json rank;
    if (i < names.size()) rank["name"] = names[i];
    const engine::RankTimes mean = times.mean_times(i);
    for (const engine::StepPhase phase : engine::kAllStepPhases) {
      rank[engine::column_name(phase)] = rounded(mean[phase], kDigits);
    }
    ranks.push_back(std::move(rank));
  }
  Json json{{"steps", times.steps()}, {"ranks", std::move(ranks)}, {"straggler", nullptr}};
  if (const auto straggler = times.straggler()) {
    json["straggler"] = {{"rank", straggler->rank},
                         {"own_seconds", rounded(straggler->seconds, kDigits)},
                         {"others_seconds", rounded(straggler->others, kDigits)},
                         {"phase", spell(straggler->phase)}};
  }
  return json;
}

Json throughput_json(const InputThroughput& throughput) {
  Json json = Json::object();
  if (const auto computing = throughput.images_per_second(StepInput::kNewFeatures)) {
    json["images_per_second_computing_features"] = *computing;
  }
  if (const auto cached = throughput.images_per_second(StepInput::kCachedFeatures)) {
    json["images_per_second_cached_features"] = *cached;
  }
  return json;
}

}  // namespace trainer::hooks

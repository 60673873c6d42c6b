#include "train/feature_plan.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/process/memory.h"
#include "base/text.h"
#include "config/keys.h"

namespace trainer::train {
namespace {

namespace keys = config::keys;
using config::CacheFeatures;
using Storage = FeaturePlan::Storage;

// The divisor for the share of the free memory that features may take. The rest is for the system's
// file cache and for other programs.
constexpr std::int64_t kMemoryShare = 4;  // 1 / 4

std::int64_t row_bytes(const engine::FrozenPrefix& prefix) {
  return prefix.shape().elements() * static_cast<std::int64_t>(size_of(prefix.type()));
}

Storage choose(CacheFeatures choice, std::int64_t bytes, FeatureSharing sharing) {
  if (sharing == FeatureSharing::kOneMachine) return Storage::kDisk;
  if (choice == CacheFeatures::kMemory) return Storage::kMemory;
  if (choice == CacheFeatures::kDisk || sharing == FeatureSharing::kRuns) return Storage::kDisk;
  return bytes <= available_memory() / kMemoryShare ? Storage::kMemory : Storage::kDisk;
}

// Returns why the features of a split cannot be kept; "" if they can.
std::string find_obstacle(const config::Data& data, const FeatureSplit& split) {
  if (split.random) {
    return concat("the images of the ", to_string(split.split), " split change at random");
  }
  if (split.split == Split::kTrain && data.drop_remainder && !data.shuffle) {
    return "without data.shuffle, data.drop_remainder leaves the same training samples out of "
           "every epoch";
  }
  return "";
}

}  // namespace

bool demands_features(CacheFeatures choice) {
  return choice != CacheFeatures::kAuto && choice != CacheFeatures::kOff;
}

void reject_features(const config::Config& config, const std::string& reason) {
  throw ConfigError(config.train.loc, keys::kCacheFeatures, ": ", reason, "; use auto or off");
}

FeaturePlan plan_features(const config::Config& config, const engine::Engine& engine,
                          const std::vector<FeatureSplit>& splits, double epochs,
                          FeatureSharing sharing, std::size_t stage) {
  const CacheFeatures choice = config.train.cache_features;
  const bool insists = demands_features(choice) && stage == 0;
  FeaturePlan plan;
  if (sharing == FeatureSharing::kServers) {
    plan.reason = "with parameter servers, a worker sees other samples in every epoch";
    return plan;
  }
  if (choice == CacheFeatures::kOff) {
    plan.reason = concat(keys::kCacheFeatures, " is off");
    return plan;
  }
  const engine::FrozenPrefix* prefix = engine.replica().prefix();
  if (prefix == nullptr) {
    plan.reason = engine.replica().no_prefix_reason();
    if (insists) reject_features(config, plan.reason);
    return plan;
  }
  if (sharing == FeatureSharing::kSeveralMachines) {
    plan.reason = "workers on several machines, each of which sees other images in every epoch";
  } else if (sharing == FeatureSharing::kOneMachine && choice == CacheFeatures::kMemory) {
    plan.reason = "several processes share features in files of the run folder (disk)";
  }
  if (!plan.reason.empty()) {
    if (insists) reject_features(config, plan.reason);
    return plan;
  }
  if (epochs <= 1 && choice == CacheFeatures::kAuto && sharing != FeatureSharing::kRuns) {
    plan.reason = "one epoch reads no image twice";
    return plan;
  }
  plan.reason_matters = true;
  for (const FeatureSplit& split : splits) {
    if (std::string reason = find_obstacle(config.data, split); !reason.empty()) {
      plan.reason = std::move(reason);
      if (insists) reject_features(config, plan.reason);
      continue;
    }
    plan.splits.push_back(split.split);
    plan.bytes += split.samples * row_bytes(*prefix);
  }
  if (!plan.splits.empty()) plan.storage = choose(choice, plan.bytes, sharing);
  plan.for_other_runs = sharing == FeatureSharing::kRuns;
  return plan;
}

std::string describe(const FeaturePlan& plan) {
  if (plan.storage == Storage::kNone) return "not kept: " + plan.reason;
  std::vector<std::string> names;
  for (const Split split : plan.splits) names.emplace_back(to_string(split));
  return concat("kept ",
                plan.storage == Storage::kMemory ? "in memory"
                : plan.for_other_runs            ? "in files that other runs share"
                                                 : "in files of the run folder",
                " from the first epoch on: ", join(names), ", ", plan.bytes >> 20, " MiB",
                plan.reason.empty() ? "" : "; otherwise not: " + plan.reason);
}

std::vector<FeatureSplit> feature_splits(const data::Datasets& data) {
  std::vector<FeatureSplit> splits;
  for (const Split split : kSplits) {
    const data::Dataset* const dataset = data.dataset(split).get();
    if (dataset != nullptr) splits.push_back({split, dataset->size(), dataset->spec().is_random});
  }
  return splits;
}

}  // namespace trainer::train

// Decides whether and where the features of a frozen prefix are cached.
//
// Processes on one machine share memory-mapped feature files; each writes the samples it computed.
// Processes on several machines cannot, because each sees other samples in every epoch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/open.h"
#include "engine/engine.h"
#include "hooks/hooks.h"

namespace trainer::train {

// The facts about one split that the choice depends on.
struct FeatureSplit {
  Split split = Split::kTrain;
  std::int64_t samples = 0;
  bool random = false;  // images differ from epoch to epoch
};

struct FeaturePlan {
  enum class Storage { kNone, kMemory, kDisk } storage = Storage::kNone;
  std::vector<Split> splits;    // the splits whose features are kept
  std::string reason;           // the reason for features of no split, or not of training; else ""
  bool reason_matters = false;  // true if the model has a prefix whose features could be kept
  std::int64_t bytes = 0;       // size of all features
  bool for_other_runs = false;  // true if other runs use the same files
};

// The processes that share the features.
enum class FeatureSharing {
  kAlone,
  kRuns,  // one process, and other runs in the same folder, such as the points of a sweep
  kOneMachine,
  kSeveralMachines,
  kServers  // workers of parameter servers, each of which sees other samples in every epoch
};

// Returns the plan for a run with `epochs` left in `stage` and later ones. Throws ConfigError if
// the config demands a cache that is not possible; a later stage trains without a cache instead.
FeaturePlan plan_features(const config::Config& config, const engine::Engine& engine,
                          const std::vector<FeatureSplit>& splits, double epochs,
                          FeatureSharing sharing, std::size_t stage = 0);
// Returns one line: "kept in memory from the first epoch on: train, validation, 95 MiB", or the
// reason.
std::string describe(const FeaturePlan& plan);

// Returns the splits of opened data.
std::vector<FeatureSplit> feature_splits(const data::Datasets& data);

// Returns whether the config demands a cache, so that a failure is an error. False for auto and
// off.
bool demands_features(config::CacheFeatures choice);

// Throws ConfigError at train.cache_features with the reason why features cannot be kept.
[[noreturn]] void reject_features(const config::Config& config, const std::string& reason);

}  // namespace trainer::train

#include "train/feature_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <span>

#include "base/error.h"
#include "base/text.h"

namespace trainer::train {
namespace {

using config::CacheFeatures;
using Where = FeaturePlan::Where;

// Features may take this share of the memory that is free, the rest being for the system's own
// cache of files and for other programs.
constexpr std::int64_t kMemoryShare = 4;  // 1 / 4

std::int64_t number_after(const char* path, const std::string& word) {
  std::ifstream file(path);
  for (std::string key; file >> key;) {
    std::int64_t value = 0;
    if (key == word && file >> value) return value;
  }
  return std::numeric_limits<std::int64_t>::max() / 1024;
}

// Bytes that programs may still take: of the machine, or of the control group when that is less.
std::int64_t available_memory() {
  const std::int64_t machine = number_after("/proc/meminfo", "MemAvailable:") * 1024;
  std::ifstream limit("/sys/fs/cgroup/memory.max"), used("/sys/fs/cgroup/memory.current");
  std::int64_t most = 0, taken = 0;
  if (!(limit >> most) || !(used >> taken)) return machine;
  return std::min(machine, std::max<std::int64_t>(most - taken, 0));
}

bool demanded(CacheFeatures choice) {
  return choice != CacheFeatures::kAuto && choice != CacheFeatures::kOff;
}

std::int64_t row_bytes(const engine::FrozenPrefix& prefix) {
  return prefix.shape().elements() * static_cast<std::int64_t>(size_of(prefix.type()));
}

[[noreturn]] void refuse(const config::Config& config, const std::string& reason) {
  throw ConfigError(config.train.loc,
                    concat("train.cache_features: ", reason, "; use auto or off"));
}

Where choose(CacheFeatures choice, std::int64_t bytes, Sharing sharing) {
  if (sharing == Sharing::kOneMachine) return Where::kDisk;
  if (choice == CacheFeatures::kMemory) return Where::kMemory;
  if (choice == CacheFeatures::kDisk) return Where::kDisk;
  return bytes <= available_memory() / kMemoryShare ? Where::kMemory : Where::kDisk;
}

std::string hash_of(const std::string& text) {
  Sha256 hash;
  hash.update({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  return hash.hex();
}

// The preprocessing and the network to the last digit, which a printed graph rounds.
std::string settings_of(const config::Config& config) {
  std::string text;
  for (const auto& [key, value] : config::leaves(config)) {
    if (key.starts_with("data.normalize") || key == "data.preprocess" ||
        key == "model.backbone.name" || key == "model.backbone.alpha") {
      text += key + "=" + value + "\n";
    }
  }
  return text;
}

// Features of the same split that were made of other images or weights.
void remove_others(const Path& folder, const std::string& prefix, const Path& keep) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && entry.path() != keep) std::filesystem::remove(entry.path());
  }
}

// Of the DataError that `open` throws; "" when it throws none.
template <class Open>
std::string message_of(const Open& open) {
  try {
    open();
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

// Names and inodes, which are the same for processes that see the same files.
template <class Files>
std::string identity_of(const Files& files) {
  std::set<std::string> lines;
  for (const auto& [images, file] : files) {
    struct stat status {};
    const bool there = ::stat(file.c_str(), &status) == 0;
    lines.insert(concat(file.filename().string(), ' ', there ? status.st_ino : 0, '\n'));
  }
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

}  // namespace

Sharing sharing_of(const Workers* workers) {
  if (workers == nullptr) return Sharing::kAlone;
  return workers->on_one_machine() ? Sharing::kOneMachine : Sharing::kSeveralMachines;
}

FeaturePlan plan_features(const config::Config& config, const engine::Replicas& engine,
                          const std::vector<FeatureSplit>& splits, double epochs, Sharing sharing,
                          std::size_t stage) {
  const CacheFeatures choice = config.train.cache_features;
  const bool insists = demanded(choice) && stage == 0;
  FeaturePlan plan;
  if (choice == CacheFeatures::kOff) {
    plan.reason = "train.cache_features is off";
    return plan;
  }
  const engine::FrozenPrefix* prefix = engine.prefix();
  if (prefix == nullptr) {
    plan.reason = engine.no_prefix_reason();
    if (insists) refuse(config, plan.reason);
    return plan;
  }
  if (sharing == Sharing::kSeveralMachines) {
    plan.reason = "workers on several machines, each of which sees other images in every epoch";
  } else if (sharing == Sharing::kOneMachine && choice == CacheFeatures::kMemory) {
    plan.reason = "several processes share features in files of the run folder (disk)";
  }
  if (!plan.reason.empty()) {
    if (insists) refuse(config, plan.reason);
    return plan;
  }
  if (epochs <= 1 && choice == CacheFeatures::kAuto) {
    plan.reason = "one epoch reads no image twice";
    return plan;
  }
  plan.reason_matters = true;
  for (const FeatureSplit& split : splits) {
    if (split.random) {
      plan.reason = concat("the images of the ", split.name, " split change at random");
      if (insists) refuse(config, plan.reason);
      continue;
    }
    plan.splits.push_back(split.name);
    plan.bytes += split.samples * row_bytes(*prefix);
  }
  if (!plan.splits.empty()) plan.where = choose(choice, plan.bytes, sharing);
  return plan;
}

std::string describe(const FeaturePlan& plan) {
  if (plan.where == Where::kNowhere) return "not kept: " + plan.reason;
  return concat("kept ", plan.where == Where::kMemory ? "in memory" : "in files of the run folder",
                " from the first epoch on: ", join(plan.splits), ", ", plan.bytes >> 20, " MiB",
                plan.reason.empty() ? "" : "; otherwise not: " + plan.reason);
}

std::vector<FeatureSplit> feature_splits(const data::Datasets& data) {
  std::vector<FeatureSplit> splits;
  for (const auto& [name, dataset] :
       {std::pair{"train", data.train.get()}, std::pair{"validation", data.validation.get()},
        std::pair{"test", data.test.get()}}) {
    if (dataset != nullptr) splits.push_back({name, dataset->size(), dataset->spec().is_random});
  }
  return splits;
}

FeatureCaches::FeatureCaches(const FeaturePlan& plan, const config::Config& config,
                             const engine::Replicas& engine, const data::Datasets& data,
                             const Path& run, Workers* workers) {
  if (plan.where == Where::kNowhere) return;
  const engine::FrozenPrefix& prefix = *engine.prefix();
  const bool owner = workers == nullptr || workers->is_chief();
  const Path folder = run / "features";
  const std::string made_by =
      plan.where == Where::kDisk ? prefix.key() + settings_of(config) : std::string();
  Files files;
  std::vector<Path> made;  // those that were not there before
  for (const std::string& split : plan.splits) {
    const data::Dataset* images = split == "train"        ? data.train.get()
                                  : split == "validation" ? data.validation.get()
                                                          : data.test.get();
    Path& file = files[images];
    if (plan.where != Where::kDisk) continue;
    const std::string key = hash_of(made_by + images->content_key()).substr(0, 32);
    file = folder / concat(split, "-", key, ".bin");
    if (!owner) continue;
    remove_others(folder, split + "-", file);
    if (!std::filesystem::exists(file)) made.push_back(file);
  }
  problem_ = workers != nullptr ? open_together(prefix, files, *workers)
                                : message_of([&] { open(prefix, files); });
  if (problem_.empty()) return;
  // The splits before the one that failed have reserved space that nobody will use.
  caches_.clear();
  std::error_code ignored;
  for (const Path& file : made) std::filesystem::remove(file, ignored);
  if (demanded(config.train.cache_features)) throw Error(kExitData, problem_);
}

void FeatureCaches::open(const engine::FrozenPrefix& prefix, const Files& files) {
  for (const auto& [images, file] : files) {
    caches_[images] =
        std::make_unique<data::FeatureDataset>(*images, prefix.shape(), prefix.type(), file);
  }
}

std::string FeatureCaches::open_together(const engine::FrozenPrefix& prefix, const Files& files,
                                         Workers& workers) {
  std::string problem;
  if (workers.is_chief()) problem = message_of([&] { open(prefix, files); });
  checkpoint::Metadata told{{"problem", problem}, {"files", identity_of(files)}};
  workers.of_chief(told);
  if (!told["problem"].empty()) return told["problem"];
  if (told["files"] != identity_of(files)) {
    problem = "the processes do not see the same files, or compute in different ways";
  } else if (!workers.is_chief()) {
    problem = message_of([&] { open(prefix, files); });
  }
  std::int64_t failed = problem.empty() ? 0 : 1;
  workers.control().all_reduce(std::span(&failed, 1));
  return failed > 0 && problem.empty() ? "another process cannot open the files of the run folder"
                                       : problem;
}

data::FeatureDataset* FeatureCaches::of(const data::Dataset* images) const {
  const auto found = caches_.find(images);
  return found == caches_.end() ? nullptr : found->second.get();
}

}  // namespace trainer::train

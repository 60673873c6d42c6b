#include "train/features/feature_cache.h"

#include <sys/stat.h>

#include <set>
#include <span>

#include "base/error.h"
#include "config/keys.h"

namespace trainer::train {
namespace {

namespace keys = config::keys;
using Where = FeaturePlan::Where;

std::string hash_text(const std::string& text) {
  Sha256 hash;
  hash.update({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  return hash.hex();
}

// Returns the keys of preprocessing and network with all digits, which a printed graph rounds.
std::string list_settings(const config::Config& config) {
  std::string text;
  for (const auto& [key, value] : config::leaves(config)) {
    if (key.starts_with(keys::kNormalize) || key == keys::kPreprocess ||
        key == keys::kBackboneName || key == keys::kBackboneAlpha) {
      text += key + "=" + value + "\n";
    }
  }
  return text;
}

// Removes features of the same split that were made of other images or weights.
void remove_others(const Path& folder, const std::string& prefix, const Path& keep) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && entry.path() != keep) std::filesystem::remove(entry.path());
  }
}

// Returns the message of the DataError that `open` throws; "" if it throws none.
template <class Open>
std::string catch_message(const Open& open) {
  try {
    open();
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

// Returns names and inodes, which are equal for processes that see the same files.
template <class Files>
std::string file_identities(const Files& files) {
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

FeatureCaches::FeatureCaches(const FeaturePlan& plan, const config::Config& config,
                             const engine::Replicas& engine, const data::Datasets& data,
                             const Path& run, ProcessGroup& group) {
  if (plan.where == Where::kNowhere) return;
  const engine::FrozenPrefix& prefix = *engine.prefix();
  const bool owner = group.is_chief();
  const Path folder = run / "features";
  const std::string made_by =
      plan.where == Where::kDisk ? prefix.key() + list_settings(config) : std::string();
  Files files;
  std::vector<Path> made;  // the files that did not exist before
  for (const Split split : plan.splits) {
    const data::Dataset* const images = data.dataset(split).get();
    Path& file = files[images];
    if (plan.where != Where::kDisk) continue;
    const std::string key = hash_text(made_by + images->content_key()).substr(0, 32);
    file = folder / concat(to_string(split), "-", key, ".bin");
    if (!owner) continue;
    remove_others(folder, concat(to_string(split), "-"), file);
    if (!std::filesystem::exists(file)) made.push_back(file);
  }
  problem_ = group.size() > 1 ? open_together(prefix, files, group)
                              : catch_message([&] { open(prefix, files); });
  if (problem_.empty()) return;
  // The files of earlier splits have reserved space that will not be used.
  caches_.clear();
  std::error_code ignored;
  for (const Path& file : made) std::filesystem::remove(file, ignored);
  if (demands_features(config.train.cache_features)) throw Error(kExitData, problem_);
}

void FeatureCaches::open(const engine::FrozenPrefix& prefix, const Files& files) {
  for (const auto& [images, file] : files) {
    caches_[images] =
        std::make_unique<data::FeatureDataset>(*images, prefix.shape(), prefix.type(), file);
  }
}

std::string FeatureCaches::open_together(const engine::FrozenPrefix& prefix, const Files& files,
                                         ProcessGroup& group) {
  std::string problem;
  if (group.is_chief()) problem = catch_message([&] { open(prefix, files); });
  checkpoint::Metadata chiefs{{"problem", problem}, {"files", file_identities(files)}};
  group.broadcast_from_chief(chiefs);
  if (!chiefs["problem"].empty()) return chiefs["problem"];
  if (chiefs["files"] != file_identities(files)) {
    problem = "the processes do not see the same files, or compute in different ways";
  } else if (!group.is_chief()) {
    problem = catch_message([&] { open(prefix, files); });
  }
  const bool failed = group.any_rank(!problem.empty());
  return failed && problem.empty() ? "another process cannot open the files of the run folder"
                                   : problem;
}

data::FeatureDataset* FeatureCaches::find(const data::Dataset* images) const {
  const auto found = caches_.find(images);
  return found == caches_.end() ? nullptr : found->second.get();
}

}  // namespace trainer::train

#include "train/features/feature_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/process/process.h"
#include "base/text.h"
#include "config/keys.h"

namespace trainer::train {

bool FeatureLock::try_lock() {
  if (is_held_) return true;
  // Some network file systems lock only files that are open for writing.
  if (!opened_) opened_ = Descriptor(::open(file_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (opened_ && ::flock(opened_.get(), LOCK_EX | LOCK_NB) != 0 &&
      (errno == EWOULDBLOCK || errno == EINTR)) {
    return false;
  }
  is_held_ = true;
  return true;
}

void FeatureLock::unlock() {
  opened_ = {};
  is_held_ = false;
}

namespace {

namespace keys = config::keys;
using Storage = FeaturePlan::Storage;

// Returns the keys of preprocessing and network with all digits, which a printed graph rounds. The
// layers of a head come after the features.
std::string list_settings(const config::Config& config) {
  std::string text;
  for (const auto& [key, value] : config::leaves(config)) {
    const bool is_network = key == keys::kBackboneName || key == keys::kBackboneAlpha ||
                            key.starts_with("model.layers") ||
                            key.starts_with("model.dense_classifier");
    if (is_network || key.starts_with(keys::kNormalize) || key == keys::kPreprocess) {
      text += key + "=" + value + "\n";
    }
  }
  return text;
}

// Returns the name of the file for the features of a split. `made_by` is everything that they
// depend on besides the images.
std::string name_file(Split split, const data::Dataset& images, const std::string& made_by) {
  const data::Dataset& listed = data::FeatureDataset::list_samples(images);
  const data::DatasetSpec& spec = images.spec();
  const std::string key =
      sha256(concat(made_by, listed.content_key(), " labels ", static_cast<int>(spec.label_kind),
                    ' ', spec.label_bytes()));
  return concat(&listed == &images ? to_string(split) : "samples", '-', key.substr(0, 32), ".bin");
}

// Removes features that were made of other images or weights.
template <class Files>
void remove_others(const Path& folder, const Files& files) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const bool is_used =
        std::ranges::any_of(files, [&](const auto& used) { return used.second == entry.path(); });
    if (!is_used && entry.path().extension() == ".bin") std::filesystem::remove(entry.path());
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
                             const engine::Engine& engine, const data::Datasets& data,
                             FeatureFolder folder, ProcessGroup& group)
    : folder_(std::move(folder)) {
  if (plan.storage == Storage::kNone) return;
  const engine::FrozenPrefix& prefix = *engine.replica().prefix();
  const bool in_files = plan.storage == Storage::kDisk;
  const std::string made_by = in_files ? concat(prefix.key(), list_settings(config), folder_.build,
                                                ' ', processor_name(), '\n')
                                       : std::string();
  Files files;
  std::vector<Path> made;  // the files that did not exist before
  for (const Split split : plan.splits) {
    const data::Dataset* const images = data.dataset(split).get();
    Path& file = files[images];
    if (!in_files) continue;
    file = folder_.path / name_file(split, *images, made_by);
    if (group.is_chief() && !std::filesystem::exists(file)) made.push_back(file);
  }
  if (in_files && group.is_chief() && !folder_.is_shared) remove_others(folder_.path, files);
  problem_ = group.size() > 1 ? open_together(prefix, files, group)
                              : catch_message([&] { open(prefix, files); });
  if (problem_.empty()) {
    // Processes of a group compute the features together.
    if (!in_files || !folder_.is_shared || group.size() > 1) return;
    for (const auto& [images, file] : files) locks_[file] = std::make_unique<FeatureLock>(file);
    return;
  }
  // The files of earlier splits have reserved space that will not be used.
  caches_.clear();
  std::error_code ignored;
  for (const Path& file : made) std::filesystem::remove(file, ignored);
  if (demands_features(config.train.cache_features) && !folder_.is_shared) {
    throw Error(kExitData, problem_);
  }
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

data::FeatureDataset* FeatureCaches::claim(const data::Dataset* images) {
  data::FeatureDataset* const features = find(images);
  if (features == nullptr || locks_.empty()) return features;
  if (!features->complete()) wait_for(*features, *locks_.at(features->file()));
  release_complete();
  return features;
}

void FeatureCaches::wait_for(const data::FeatureDataset& features, FeatureLock& lock) const {
  using SteadyClock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kInterval{50};
  const std::string name = printable(features.file().string());
  const auto written = [&] {
    std::error_code error;
    return std::filesystem::last_write_time(features.file(), error);
  };
  auto last_written = written();
  SteadyClock::time_point changed = SteadyClock::now();
  bool is_announced = false;
  while (!lock.try_lock() && !features.complete() && !folder_.stop_requested()) {
    if (const auto now = written(); now != last_written) {
      last_written = now;
      changed = SteadyClock::now();
    } else if (SteadyClock::now() - changed >= folder_.patience) {
      folder_.warn(
          concat("the process that computes the features of the frozen layers writes "
                 "nothing more to ",
                 name, "; this run computes them itself"));
      return;
    }
    if (!std::exchange(is_announced, true)) {
      folder_.warn(Notice::note(concat("another run computes the features of the frozen layers (",
                                       name, "); waiting for it")));
    }
    std::this_thread::sleep_for(kInterval);
  }
}

void FeatureCaches::release_complete() {
  for (const auto& [file, lock] : locks_) {
    if (!lock->is_held()) continue;
    const bool is_needed = std::ranges::any_of(caches_, [&, &path = file](const auto& cache) {
      return cache.second->file() == path && !cache.second->complete();
    });
    if (!is_needed) lock->unlock();
  }
}

}  // namespace trainer::train

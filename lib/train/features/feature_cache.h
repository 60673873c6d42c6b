// Keeps the features of a frozen prefix as data sets.
// Reasons: lib/decisions/train.md#cached-features.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/files/descriptor.h"
#include "base/files/files.h"
#include "base/notice.h"
#include "config/config.h"
#include "data/open.h"
#include "data/samples/features.h"
#include "engine/engine.h"
#include "train/feature_plan.h"
#include "train/process_group.h"

namespace trainer::train {

// Where a run keeps its files of features.
struct FeatureFolder {
  Path path;
  std::string build = {};  // the version of the program, on which the bits of features depend
  // True if other runs use the folder at the same time: their files stay, and the run waits for
  // features that another run computes.
  bool is_shared = false;
  // A run that is waited for must write to the file at least this often.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
  std::function<bool()> stop_requested = [] { return false; };  // ends the wait
  std::function<void(const Notice&)> warn = [](const Notice&) {};
};

// A lock (flock) on a file of features, with which one process computes the features that other
// runs wait for. The kernel releases it when the process ends in any way.
// The lock protects nothing: several processes may write one file. It only saves work.
class FeatureLock {
 public:
  explicit FeatureLock(Path file) : file_(std::move(file)) {}

  // Takes the lock unless another process has it. Returns whether this process has it now; true
  // also on a file system without locks, and if the file has been removed: there is nobody to wait
  // for.
  bool try_lock();
  void unlock();
  bool is_held() const { return is_held_; }

 private:
  Path file_;
  Descriptor opened_;
  bool is_held_ = false;
};

// The kept features of a run.
class FeatureCaches {
 public:
  FeatureCaches() = default;
  // Writes files in `folder` and, unless it is shared, removes files of other keys there. The
  // engine must have its weights. If the memory or the disk lacks the space, or the ranks of
  // `group` do not see the same files, nothing is kept and problem() is set; throws Error instead
  // if the config demands a cache and the folder is not shared. Collective.
  FeatureCaches(const FeaturePlan& plan, const config::Config& config, const engine::Engine& engine,
                const data::Datasets& data, FeatureFolder folder, ProcessGroup& group);
  // Returns the features of a split's data set; null if they are not kept.
  data::FeatureDataset* find(const data::Dataset* images) const;
  // Like find(). If the features are incomplete and another run computes them, waits until they are
  // complete, the other run ends or writes nothing for FeatureFolder::patience, or a stop is
  // requested. This process then computes what is missing.
  data::FeatureDataset* claim(const data::Dataset* images);
  // Returns why planned features are not kept; "" if they are.
  const std::string& problem() const { return problem_; }

 private:
  using Files = std::map<const data::Dataset*, Path>;  // an empty path: in memory
  void open(const engine::FrozenPrefix& prefix, const Files& files);
  // Opens the files on the chief and then on the other ranks. Returns the reason of any rank that
  // cannot open them; "" otherwise.
  std::string open_together(const engine::FrozenPrefix& prefix, const Files& files,
                            ProcessGroup& group);
  void wait_for(const data::FeatureDataset& features, FeatureLock& lock) const;
  // Releases the locks of files whose features are complete.
  void release_complete();

  std::string problem_;
  FeatureFolder folder_;
  std::map<const data::Dataset*, std::unique_ptr<data::FeatureDataset>> caches_;
  std::map<Path, std::unique_ptr<FeatureLock>> locks_;  // keyed by file; empty: no wait
};

}  // namespace trainer::train

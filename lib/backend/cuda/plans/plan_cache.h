// Plans for a device that are kept on disk and shared between the devices of a process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/files/files.h"

namespace trainer::backend::cuda {

// Gets a sentence for the user, without its full stop.
using Warn = std::function<void(const std::string&)>;

// Plans by key, which the planners of all devices of a process share, so that devices of one kind
// have one plan also where there is no folder. Thread-safe.
class SharedPlans {
 public:
  // `agree` is DeviceOptions::Cuda::agree.
  using Agree = std::function<std::string(const std::string& key, const std::string& plan)>;
  explicit SharedPlans(Agree agree = {}) : agree_(std::move(agree)) {}
  std::optional<std::string> find(const std::string& key) const;
  // Returns the plan that all devices of the job have for the key, the first one that was added.
  std::string add(const std::string& key, const std::string& plan);

 private:
  Agree agree_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> plans_;
};

// One file per plan, named after the SHA-256 of its key, a text that names all that the plan
// depends on. Processes may share a folder.
class PlanCache {
 public:
  // Without a folder, plans are kept in `shared` only; without both, no plan is kept.
  explicit PlanCache(Path folder, Warn warn = {}, std::shared_ptr<SharedPlans> shared = nullptr)
      : folder_(std::move(folder)), warn_(std::move(warn)), shared_(std::move(shared)) {}

  bool enabled() const { return !folder_.empty() || shared_ != nullptr; }
  // The plan stored under the key. None when there is none, or, with a warning, when its file is
  // damaged, or is another program's or another key's.
  std::optional<std::string> load(const std::string& key) const;
  // Shares `plan` and returns the plan to use, which another process may have found. Stores that
  // one unless it is what load() returned, `loaded`. Throws DataError when the file cannot be
  // written, and PeerError.
  std::string keep(const std::string& key, const std::string& plan,
                   const std::optional<std::string>& loaded) const;
  // Warns that a plan that load() returned cannot be used.
  void reject(const std::string& key, const std::string& why) const;

 private:
  std::optional<std::string> load_file(const std::string& key) const;
  Path make_path(const std::string& key) const;

  Path folder_;
  Warn warn_;
  std::shared_ptr<SharedPlans> shared_;
};

}  // namespace trainer::backend::cuda

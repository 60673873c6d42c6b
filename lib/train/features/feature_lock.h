// Lets one process compute the features of a file that other runs wait for.
#pragma once

#include "base/files/files.h"

namespace trainer::train {

// A lock (flock) on a file of features. The kernel releases it when the process ends in any way.
// The lock protects nothing: several processes may write one file. It only saves work.
class FeatureLock {
 public:
  explicit FeatureLock(Path file) : file_(std::move(file)) {}
  ~FeatureLock() { unlock(); }
  FeatureLock(const FeatureLock&) = delete;
  FeatureLock& operator=(const FeatureLock&) = delete;

  // Takes the lock unless another process has it. Returns whether this process has it now; true
  // also on a file system without locks, and if the file has been removed: there is nobody to wait
  // for.
  bool try_lock();
  void unlock();
  bool is_held() const { return is_held_; }

 private:
  Path file_;
  int fd_ = -1;
  bool is_held_ = false;
};

}  // namespace trainer::train

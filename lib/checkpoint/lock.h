// Locks a run folder against other processes.
#pragma once

#include "base/files.h"

namespace trainer::checkpoint {

// Holds <run>/lock (flock) until destroyed. The constructor throws Error with kExitConfig, naming
// the process that holds the lock.
class RunLock {
 public:
  explicit RunLock(const Path& run);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int fd_ = -1;
};

// Returns whether a process trains in the run folder, by the content of <run>/lock. Does not take
// the lock. Returns true for a process of another machine, which cannot be checked.
bool is_in_use(const Path& run);

}  // namespace trainer::checkpoint

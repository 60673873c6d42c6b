// Locks a run folder against other processes.
#pragma once

#include <string>

#include "base/files/descriptor.h"
#include "base/files/files.h"

namespace trainer::checkpoint {

// Holds <run>/lock (flock) until destroyed. The constructor throws Error with kExitConfig, naming
// the process that holds the lock. On a file system that has no locks or grants all, only a process
// of this program on this host that the file names counts as a holder, and warning() is not empty.
class RunLock {
 public:
  explicit RunLock(const Path& run);
  ~RunLock();

  // Returns a warning for the user if the file system has no locks, else "".
  const std::string& warning() const { return warning_; }

 private:
  Descriptor file_;
  std::string warning_;
};

// Returns whether a process of this program trains in the run folder, by the content of <run>/lock.
// Does not take the lock. Returns true for a process of another machine, which cannot be checked.
bool is_in_use(const Path& run);

}  // namespace trainer::checkpoint

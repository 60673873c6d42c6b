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

// The process that the content of <run>/lock names.
enum class HolderState {
  kNone,    // there is no file, or it names no process: none trains, or the last one ended itself
  kGone,    // a process of this host that has ended, or whose number another program has now
  kLiving,  // a process of this program that runs on this host
  kThis,    // the calling process
  kOtherHost,  // a process of another machine, which cannot be checked
};
// Does not take the lock.
HolderState find_holder_state(const Path& run);

// Returns whether a process of this program trains in the run folder, by find_holder_state().
// Returns true for a process of another machine, which cannot be checked.
bool is_in_use(const Path& run);

}  // namespace trainer::checkpoint

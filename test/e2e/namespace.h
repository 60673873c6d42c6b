// A process that sees file systems of its own.
#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/error.h"

namespace trainer::e2e {

// The exit code of a process that cannot have a namespace.
inline constexpr int kNoNamespace = 77;

// Gives this process a view of the file system of its own, as any user may have one. Returns false
// if the kernel does not allow it.
inline bool enter_namespace() {
  const std::string user = concat("0 ", ::getuid(), " 1"), group = concat("0 ", ::getgid(), " 1");
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << user;
  std::ofstream("/proc/self/gid_map") << group;
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

}  // namespace trainer::e2e

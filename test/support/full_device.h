// A device on which every write finds no space, for tests of what a failed or misdirected write
// does.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/files/files.h"

namespace trainer::test {

// Makes `path` such a device, and returns whether this user may write to it there. For root it is a
// node of its own, so that a test that fails cannot replace the system's /dev/full; for others, who
// cannot harm that one, a link to it.
inline bool make_full_device(const Path& path) {
  if (::geteuid() == 0) {
    if (::mknod(path.c_str(), S_IFCHR | 0600, ::makedev(1, 7)) != 0) return false;
  } else {
    std::filesystem::create_symlink("/dev/full", path);
  }
  const int descriptor = ::open(path.c_str(), O_WRONLY);
  if (descriptor >= 0) ::close(descriptor);
  return descriptor >= 0;
}

}  // namespace trainer::test

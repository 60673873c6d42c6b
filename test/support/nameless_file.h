// True if files without a name may be made in a folder.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "base/files/files.h"

namespace trainer::test {

inline bool has_nameless_files(const Path& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

}  // namespace trainer::test

#include "base/files/sync.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/files/descriptor.h"
#include "base/system_error.h"

namespace trainer {

int sync_descriptor(int descriptor) {
  // EROFS is an error of special files, like EINVAL.
  if (::fsync(descriptor) == 0 || is_unsupported(errno) || errno == EROFS) return 0;
  return errno;
}

bool can_sync_folder(const Path& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return !opened || ::fsync(opened.get()) == 0 || !is_unsupported(errno);
}

}  // namespace trainer

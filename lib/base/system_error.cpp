#include "base/system_error.h"

#include <cerrno>
#include <cstring>

namespace trainer {

std::string describe_system_error(int error) {
  const std::string text = std::strerror(error);
  switch (error) {
    case EMFILE:
      return text + "; raise the limit of open files of this process (ulimit -n)";
    case ENFILE:
      return text + "; close other programs, or raise the limit of the system (fs.file-max)";
    case EFBIG:
      return text + "; raise the limit on the size of a file of this process (ulimit -f)";
    case ENAMETOOLONG:
      return text + "; choose a shorter name, or a folder with a shorter path";
    default:
      return text;
  }
}

bool is_open_file_limit(int error) { return error == EMFILE || error == ENFILE; }

bool is_unsupported(int error) {
  switch (error) {
    case EINVAL:
    case ENOLCK:
    case ENOSYS:
    case ENOTSUP:
      return true;
    default:
      return false;
  }
}

}  // namespace trainer

// Errors of system calls as text, and their kinds.
#pragma once

#include <string>

namespace trainer {

// Returns the system's text for an error number. For a limit that the user can raise, it names the
// remedy: "Too many open files; raise the limit of open files (ulimit -n)".
std::string describe_system_error(int error);

// Returns whether the process or the system has reached its limit of open files. The file of the
// failed call may be undamaged.
bool is_open_file_limit(int error);

// Returns whether the error means that a file system lacks an operation (locks, syncing folders).
bool is_unsupported(int error);

}  // namespace trainer

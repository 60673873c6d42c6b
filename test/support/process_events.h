// Blocks a test until a process ends or writes, on events of the kernel and not by polling.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>

namespace trainer::test {

using Deadline = std::chrono::steady_clock::time_point;

// Waits until the process, which need not be a child, has ended; a zombie counts. Returns whether
// it has by the deadline. Throws std::system_error when the kernel does not support the wait.
bool wait_for_end(pid_t process, Deadline deadline);

// Waits until `condition` holds. It is evaluated at once and after every write to a file of
// `folder`. Returns false when the process has ended or the deadline has passed and the condition
// still does not hold.
bool wait_for_output(const std::filesystem::path& folder, pid_t process, Deadline deadline,
                     const std::function<bool()>& condition);

// Waits until `condition` holds, for states of the system that report no event. Returns whether it
// did within a minute. This is the only function of the tests that polls.
bool poll_until(const std::function<bool()>& condition);

}  // namespace trainer::test

#include "support/process_events.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <thread>

namespace trainer::test {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void fail(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

// Returns -1 when no process has this number any more.
int open_process(pid_t process) {
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (descriptor < 0 && errno != ESRCH) fail("pidfd_open");
  return descriptor;
}

int watch_folder(const std::filesystem::path& folder) {
  const int descriptor = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (descriptor < 0) fail("inotify_init1");
  if (::inotify_add_watch(descriptor, folder.c_str(), IN_CREATE | IN_MODIFY) < 0) {
    ::close(descriptor);
    fail("inotify_add_watch");
  }
  return descriptor;
}

// Returns false when the deadline passes before one of the descriptors is readable. A descriptor
// of -1 is never readable.
template <std::size_t kCount>
bool wait_readable(std::array<pollfd, kCount>& descriptors, Deadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const int milliseconds = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
    const int ready = ::poll(descriptors.data(), descriptors.size(), milliseconds);
    if (ready >= 0) return ready > 0;
    if (errno != EINTR) fail("poll");
  }
}

}  // namespace

bool wait_for_end(pid_t process, Deadline deadline) {
  const Descriptor end(open_process(process));
  if (end.get() < 0) return true;
  std::array<pollfd, 1> descriptors{{{end.get(), POLLIN, 0}}};
  return wait_readable(descriptors, deadline);
}

bool wait_for_output(const std::filesystem::path& folder, pid_t process, Deadline deadline,
                     const std::function<bool()>& condition) {
  const Descriptor end(open_process(process)), writes(watch_folder(folder));
  std::array<pollfd, 2> descriptors{{{end.get(), POLLIN, 0}, {writes.get(), POLLIN, 0}}};
  bool is_over = end.get() < 0;
  for (;;) {
    if (condition()) return true;
    if (is_over || !wait_readable(descriptors, deadline)) return false;
    is_over = descriptors[0].revents != 0;
    std::array<char, 1 << 14> events;  // all that are queued need one evaluation
    while (::read(writes.get(), events.data(), events.size()) > 0) {
    }
  }
}

bool poll_until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace trainer::test

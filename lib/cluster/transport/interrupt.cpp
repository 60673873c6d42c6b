#include "cluster/transport/interrupt.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <stdexcept>

#include "base/error.h"

namespace trainer::cluster {

Interrupt::Interrupt() : waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Interrupt::raise() noexcept {
  raised_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(waker_.get(), &one, sizeof one);
}

void Interrupt::wait_for(std::span<pollfd> files, Clock::time_point deadline,
                         Milliseconds timeout) const {
  files.back() = {waker_.get(), POLLIN, 0};
  const int ready = raised_ ? 0 : ::poll(files.data(), files.size(), poll_timeout(deadline));
  if (raised_) throw std::runtime_error("the call was ended");
  if (ready == 0 && Clock::now() >= deadline) {
    throw std::runtime_error(
        concat("nothing came within ", static_cast<double>(timeout.count()) / 1000, " s"));
  }
}

void Interrupt::wait_for(const Socket& socket, short events, Clock::time_point deadline,
                         Milliseconds timeout) const {
  pollfd files[2]{{socket.get(), events, 0}, {}};
  wait_for(files, deadline, timeout);
}

}  // namespace trainer::cluster

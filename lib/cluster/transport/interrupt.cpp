#include "cluster/transport/interrupt.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <stdexcept>

namespace trainer::cluster {

Interrupt::Interrupt(const Network& network)
    : network_(network), waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Interrupt::raise() noexcept {
  raised_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(waker_.get(), &one, sizeof one);
}

bool Interrupt::wait_for(std::span<pollfd> files, Clock::time_point deadline) const {
  files.back() = {waker_.get(), POLLIN, 0};
  const int ready = raised_ ? 0 : network_.wait(files, deadline);
  if (raised_) throw std::runtime_error("the call was ended");
  return ready != 0 || network_.now() < deadline;
}

bool Interrupt::wait_for(const Socket& socket, short events, Clock::time_point deadline) const {
  pollfd files[2]{{socket.get(), events, 0}, {}};
  return wait_for(files, deadline);
}

}  // namespace trainer::cluster

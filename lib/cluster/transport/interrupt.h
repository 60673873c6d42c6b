// How waits of one thread for its peers are ended by another. Inside the folder.
#pragma once

#include <poll.h>

#include <atomic>
#include <span>

#include "cluster/transport/socket.h"

namespace trainer::cluster {

class Interrupt {
 public:
  Interrupt();
  // Ends the wait that is going on, and all to come. From any thread.
  void raise() noexcept;
  bool raised() const { return raised_; }

  // Returns when one of the files is ready, perhaps for no reason. The last place of `files` is
  // kept free for what raise() wakes. Throws std::runtime_error after raise() and at the deadline;
  // `timeout` stands in its message.
  void wait_for(std::span<pollfd> files, Clock::time_point deadline, Milliseconds timeout) const;
  void wait_for(const Socket& socket, short events, Clock::time_point deadline,
                Milliseconds timeout) const;

 private:
  Socket waker_;
  std::atomic<bool> raised_{false};
};

}  // namespace trainer::cluster

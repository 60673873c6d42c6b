// Ends waits of a thread for its peers from another thread. Inside the folder.
#pragma once

#include <atomic>
#include <span>

#include "cluster/network.h"

namespace trainer::cluster {

class Interrupt {
 public:
  // `network` must outlive the object.
  explicit Interrupt(const Network& network);
  // Ends the waits that are going on, and all later ones. Any thread may call it.
  void raise() noexcept;
  bool raised() const { return raised_; }

  // Returns true when one of the files is ready, perhaps without a reason, and false at the
  // deadline. The last element of `files` is free for the descriptor that raise() wakes. Throws
  // std::runtime_error after raise().
  bool wait_for(std::span<pollfd> files, Clock::time_point deadline) const;
  bool wait_for(const Socket& socket, short events, Clock::time_point deadline) const;

 private:
  const Network& network_;
  Socket waker_;
  std::atomic<bool> raised_{false};
};

}  // namespace trainer::cluster

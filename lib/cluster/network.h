// The interface of lib/cluster to the clock, to waits and to connections.
#pragma once

#include <poll.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "cluster/transport/socket.h"

namespace trainer::cluster {

// The base class is the network and the clock of the system. A derived class replaces parts of it:
// a test puts a relay between two ranks, a simulation has a clock of its own. All members may be
// called from any thread.
class Network {
 public:
  virtual ~Network() = default;

  virtual Clock::time_point now() const;
  // poll() until the deadline: returns the number of files that are ready, 0 at the deadline, and
  // a negative number when a signal has ended the wait.
  virtual int wait(std::span<pollfd> files, Clock::time_point deadline) const;
  // Waits for a notification, or until the deadline. It may return without a reason.
  virtual void wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                    Clock::time_point deadline) const;
  void sleep(Milliseconds time) const;

  // These functions do what the functions of the same names in socket.h and local_socket.h do.
  virtual Socket listen_at(const Address& address) const;
  virtual Socket listen_on(const std::string& host, int& port) const;
  virtual Socket connect_to(const Address& address, Clock::time_point deadline,
                            std::string& reason) const;
  virtual Socket accept_from(const Socket& listener) const;
  virtual Socket listen_locally(const std::string& name) const;
  virtual Socket connect_locally(const std::string& name) const;
};

// Returns the network of the system, which is used if options contain none.
std::shared_ptr<const Network> system_network();

// Returns "1.5 s".
std::string seconds(Milliseconds time);

}  // namespace trainer::cluster

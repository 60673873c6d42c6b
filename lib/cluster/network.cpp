#include "cluster/network.h"

#include "base/error.h"
#include "cluster/transport/local_socket.h"

namespace trainer::cluster {

Clock::time_point Network::now() const { return Clock::now(); }

int Network::wait(std::span<pollfd> files, Clock::time_point deadline) const {
  return ::poll(files.data(), files.size(), poll_timeout(deadline));
}

void Network::wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                   Clock::time_point deadline) const {
  changed.wait_until(lock, deadline);
}

void Network::sleep(Milliseconds time) const {
  const Clock::time_point deadline = now() + time;
  while (now() < deadline) wait({}, deadline);
}

Socket Network::listen_at(const Address& address) const { return cluster::listen_at(address); }

Socket Network::listen_on(const std::string& host, int& port) const {
  return cluster::listen_on(host, port);
}

Socket Network::connect_to(const Address& address, Clock::time_point deadline,
                           std::string& reason) const {
  return cluster::connect_to(address, deadline, reason);
}

Socket Network::accept_from(const Socket& listener) const { return cluster::accept_from(listener); }

Socket Network::listen_locally(const std::string& name) const {
  return cluster::listen_locally(name);
}

Socket Network::connect_locally(const std::string& name) const {
  return cluster::connect_locally(name);
}

std::shared_ptr<const Network> system_network() {
  static const auto kNetwork = std::make_shared<const Network>();
  return kNetwork;
}

std::string seconds(Milliseconds time) {
  return concat(static_cast<double>(time.count()) / 1000, " s");
}

}  // namespace trainer::cluster

// A slow or broken network between two ranks of a test, of real sockets on loopback.
#pragma once

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/network.h"

namespace trainer::cluster {

// Forwards every connection to its port to the target, both ways.
class Relay {
 public:
  Relay(Address target, std::size_t bytes_per_second)
      : target_(std::move(target)), rate_(bytes_per_second) {
    listener_ = listen_on("127.0.0.1", port_);
    thread_ = std::thread([this] { serve(); });
  }
  ~Relay() {
    set_state(State::kEnded);
    thread_.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  Address address() const { return {"127.0.0.1", port_}; }
  // Forwards nothing until resume() and leaves the connections open, like a network that loses all
  // packets.
  void stall() { set_state(State::kStalled); }
  void resume() { set_state(State::kForwarding); }
  // Closes the connections.
  void cut() { set_state(State::kEnded); }

 private:
  enum class State { kForwarding, kStalled, kEnded };
  struct Pipe {
    Socket from, to;  // duplicates of the two ends
  };

  void set_state(State state) {
    state_ = state;
    ::eventfd_write(waker_.get(), 1);
  }

  void serve() {
    // Small buffers and a pause after each piece set the rate. The pause is real time, because the
    // time-outs of the ranks are.
    constexpr Milliseconds kPause{10};
    std::vector<Pipe> pipes;
    while (state_ != State::kEnded) {
      if (state_ == State::kStalled) {
        wait_while_stalled();
        continue;
      }
      bool any = false;
      if (Socket caller = accept_from(listener_)) {
        std::string reason;
        Socket called = connect_to(target_, Clock::now() + Milliseconds(60'000), reason);
        if (!called) continue;  // the rank calls again
        for (const Socket* end : {&caller, &called}) {
          const int bytes = 16 << 10;
          ::setsockopt(end->get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
          ::setsockopt(end->get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
        }
        pipes.push_back({Socket(::dup(caller.get())), Socket(::dup(called.get()))});
        pipes.push_back({std::move(called), std::move(caller)});
        any = true;
      }
      for (Pipe& pipe : pipes) any |= forward(pipe, rate_ * kPause.count() / 1000);
      std::vector<pollfd> files{{waker_.get(), POLLIN, 0}};
      if (!any) {
        files.push_back({listener_.get(), POLLIN, 0});
        for (const Pipe& pipe : pipes) {
          if (pipe.from) files.push_back({pipe.from.get(), POLLIN, 0});
        }
      }
      ::poll(files.data(), files.size(), any ? static_cast<int>(kPause.count()) : 60'000);
    }
    for (const Pipe& pipe : pipes) {
      if (pipe.from) ::shutdown(pipe.from.get(), SHUT_RDWR);
    }
  }

  void wait_while_stalled() {
    pollfd change{waker_.get(), POLLIN, 0};
    while (state_ == State::kStalled) {
      eventfd_t count = 0;
      ::eventfd_read(waker_.get(), &count);
      if (state_ == State::kStalled) ::poll(&change, 1, 60'000);
    }
  }

  // Forwards up to `max_bytes`, or the end of a connection. Returns whether there was either.
  static bool forward(Pipe& pipe, std::size_t max_bytes) {
    if (!pipe.from) return false;
    std::vector<char> bytes(max_bytes);
    const ssize_t got = ::recv(pipe.from.get(), bytes.data(), bytes.size(), 0);
    if (got < 0) return false;
    if (got == 0) {
      ::shutdown(pipe.to.get(), SHUT_WR);
      pipe.from = {};
      return true;
    }
    for (std::size_t sent = 0; sent < static_cast<std::size_t>(got);) {
      const ssize_t now = ::send(pipe.to.get(), bytes.data() + sent,
                                 static_cast<std::size_t>(got) - sent, MSG_NOSIGNAL);
      if (now > 0) sent += static_cast<std::size_t>(now);
      if (now < 0 && errno != EAGAIN) return true;
      pollfd file{pipe.to.get(), POLLOUT, 0};
      if (now < 0) ::poll(&file, 1, 1000);
    }
    return true;
  }

  const Address target_;
  const std::size_t rate_;
  int port_ = 0;
  Socket listener_;
  const Socket waker_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<State> state_{State::kForwarding};
  std::thread thread_;
};

// The relays between two ranks of a test, one for each address at which the lower rank listens for
// other ranks. The higher rank calls these addresses through the relays.
class RelayedLink {
 public:
  explicit RelayedLink(std::size_t bytes_per_second, int lower = 1, int higher = 2)
      : rate_(bytes_per_second), lower_(lower), higher_(higher) {}

  std::shared_ptr<const Network> network(int rank) {
    return std::make_shared<const End>(*this, rank);
  }
  // Adds a relay to a fixed address, such as that of rank 0, and returns it.
  Relay& add(const Address& address) {
    const std::lock_guard lock(mutex_);
    relays_.push_back(std::make_unique<Relay>(address, rate_));
    if (is_stalled_) relays_.back()->stall();
    ports_[address.port] = relays_.back()->address();
    return *relays_.back();
  }
  // Stalls the relays that there are, and those that are added later.
  void stall() {
    is_stalled_ = true;
    change_all(&Relay::stall);
  }
  void cut() { change_all(&Relay::cut); }

 private:
  class End : public Network {
   public:
    End(RelayedLink& link, int rank) : link_(link), rank_(rank) {}
    Socket listen_on(const std::string& host, int& port) const override {
      Socket socket = Network::listen_on(host, port);
      if (rank_ == link_.lower_) link_.add({host, port});
      return socket;
    }
    Socket connect_to(const Address& address, Clock::time_point deadline,
                      std::string& reason) const override {
      return Network::connect_to(rank_ == link_.higher_ ? link_.find(address) : address, deadline,
                                 reason);
    }

   private:
    RelayedLink& link_;
    int rank_;
  };

  void change_all(void (Relay::*change)()) {
    const std::lock_guard lock(mutex_);
    for (const auto& relay : relays_) ((*relay).*change)();
  }
  Address find(const Address& address) {
    const std::lock_guard lock(mutex_);
    const auto found = ports_.find(address.port);
    return found == ports_.end() ? address : found->second;
  }

  const std::size_t rate_;
  const int lower_, higher_;
  std::atomic<bool> is_stalled_{false};
  std::mutex mutex_;
  std::map<int, Address> ports_;
  std::vector<std::unique_ptr<Relay>> relays_;
};

}  // namespace trainer::cluster

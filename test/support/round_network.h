// A network that counts rounds: how many messages follow each other, each sent after the one before
// has arrived.
#pragma once

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/network.h"

namespace trainer::test {

// Holds back all that ranks send to each other until no rank has sent more for a moment, then
// delivers it at once: a round. The time of a call between ranks that are far apart is its number
// of rounds times the latency. A rank that computes for longer than the moment adds a round.
// The ranks are threads of the test, and each has a Network of its own.
class RoundNetwork {
 public:
  // Rank 0 listens at `coordinator`.
  explicit RoundNetwork(const cluster::Address& coordinator) {
    add(0, coordinator);
    thread_ = std::thread([this] { serve(); });
  }
  ~RoundNetwork() {
    ending_ = true;
    ::eventfd_write(waker_.get(), 1);
    thread_.join();
  }
  RoundNetwork(const RoundNetwork&) = delete;
  RoundNetwork& operator=(const RoundNetwork&) = delete;

  std::shared_ptr<const cluster::Network> network(int rank) {
    return std::make_shared<const End>(*this, rank);
  }
  int rounds() const { return rounds_; }

 private:
  using Socket = cluster::Socket;
  static constexpr int kQuietMilliseconds = 30;
  // A connection takes three rounds: both ends ask and confirm.
  static constexpr int kRoundsToConnect = 3;

  class End : public cluster::Network {
   public:
    End(RoundNetwork& rounds, int rank) : rounds_(rounds), rank_(rank) {}
    Socket listen_on(const std::string& host, int& port) const override {
      Socket socket = Network::listen_on(host, port);
      rounds_.add(rank_, {host, port});
      return socket;
    }
    Socket connect_to(const cluster::Address& address, cluster::Clock::time_point deadline,
                      std::string& reason) const override {
      return Network::connect_to(rounds_.find(rank_, address), deadline, reason);
    }

   private:
    RoundNetwork& rounds_;
    int rank_;
  };

  // An address of a rank, and the port through which other ranks reach it.
  struct Target {
    int rank;
    cluster::Address address;
    int port = 0;
    Socket listener{};
  };
  struct Opening {
    Socket caller;
    cluster::Address address;
    int rounds = kRoundsToConnect;
  };
  struct Pipe {
    Socket from, to;
    std::string held{};
    bool is_over = false;  // `from` has closed
  };

  void add(int rank, const cluster::Address& address) {
    Target target{rank, address};
    target.listener = cluster::listen_on("127.0.0.1", target.port);
    const std::lock_guard lock(mutex_);
    targets_.push_back(std::move(target));
    ::eventfd_write(waker_.get(), 1);
  }

  cluster::Address find(int rank, const cluster::Address& address) {
    const std::lock_guard lock(mutex_);
    for (const Target& target : targets_) {
      const bool is_meant = target.address.port == address.port && target.rank != rank;
      if (is_meant) return {"127.0.0.1", target.port};
    }
    return address;
  }

  void serve() {
    while (!ending_) {
      std::vector<pollfd> files{{waker_.get(), POLLIN, 0}};
      {
        const std::lock_guard lock(mutex_);
        for (const Target& target : targets_) files.push_back({target.listener.get(), POLLIN, 0});
      }
      bool holds = !openings_.empty();
      for (const Pipe& pipe : pipes_) {
        if (!pipe.is_over) files.push_back({pipe.from.get(), POLLIN, 0});
        holds = holds || !pipe.held.empty() || (pipe.is_over && pipe.to);
      }
      const int ready = ::poll(files.data(), files.size(), holds ? kQuietMilliseconds : 60'000);
      if (ready > 0) {
        take();
      } else if (holds) {
        deliver();
      }
    }
  }

  void take() {
    eventfd_t count = 0;
    ::eventfd_read(waker_.get(), &count);
    const std::lock_guard lock(mutex_);
    for (const Target& target : targets_) {
      while (Socket caller = cluster::accept_from(target.listener)) {
        openings_.push_back({std::move(caller), target.address});
      }
    }
    for (Pipe& pipe : pipes_) {
      if (!pipe.is_over) pipe.is_over = !cluster::receive(pipe.from, pipe.held);
    }
  }

  void deliver() {
    ++rounds_;
    for (Pipe& pipe : pipes_) {
      while (!pipe.held.empty() && cluster::transmit(pipe.to, pipe.held) && !pipe.held.empty()) {
        pollfd file{pipe.to.get(), POLLOUT, 0};
        ::poll(&file, 1, 60'000);
      }
      pipe.held.clear();
      if (!pipe.is_over || !pipe.to) continue;
      ::shutdown(pipe.to.get(), SHUT_WR);
      pipe.to = {};
    }
    for (Opening& opening : openings_) {
      if (--opening.rounds > 0) continue;
      std::string reason;
      const auto deadline = cluster::Clock::now() + cluster::Milliseconds(60'000);
      Socket called = cluster::connect_to(opening.address, deadline, reason);
      if (!called) continue;  // the caller's connection closes, and it calls again
      pipes_.push_back({Socket(::dup(opening.caller.get())), Socket(::dup(called.get()))});
      pipes_.push_back({std::move(called), std::move(opening.caller)});
    }
    std::erase_if(openings_, [](const Opening& opening) { return opening.rounds <= 0; });
  }

  std::mutex mutex_;
  std::vector<Target> targets_;
  std::vector<Opening> openings_;  // used by thread_ only, as all below
  std::vector<Pipe> pipes_;
  std::atomic<int> rounds_{0};
  std::atomic<bool> ending_{false};
  const Socket waker_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::thread thread_;
};

}  // namespace trainer::test

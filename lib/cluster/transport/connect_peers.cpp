#include "cluster/transport/connect_peers.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <iterator>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "base/process/secret.h"
#include "base/text.h"
#include "cluster/transport/local_socket.h"
#include "cluster/transport/shared_ring.h"

namespace trainer::cluster {
namespace {

// The most connections without a greeting; the oldest of more is closed.
constexpr std::size_t kMaxNewcomers = 256;
constexpr std::size_t kChallengeBytes = 32, kProofBytes = 64;
constexpr Milliseconds kMinConnectPause{10}, kMaxConnectPause{100};

std::string make_key(const std::string& name, int rank) {
  return concat("ranks/", name, '/', rank);
}

// The name under which a rank listens for ranks of its host.
std::string local_name(std::uint64_t generation, const std::string& name, int rank) {
  return concat("trainer-", to_hex(generation, 16), '-', name, '-', rank);
}

// The caller's answer to the challenge.
struct Greeting {
  std::int64_t rank = 0;
  char challenge[kChallengeBytes] = {};  // for the rank that was called
  char proof[kProofBytes] = {};
};

// A connection whose greeting has not arrived in full.
struct Newcomer {
  Socket socket;
  std::string challenge;
  Greeting greeting{};
  std::size_t read = 0;  // bytes of the greeting
  Socket memory{};       // sent with the greeting
};

class PeerConnector {
 public:
  PeerConnector(Rendezvous& rendezvous, const std::string& name, std::span<const int> peers,
                std::span<const int> neighbours, Clock::time_point deadline, Interrupt& interrupt)
      : rendezvous_(rendezvous),
        network_(rendezvous.network()),
        name_(name),
        peers_(peers),
        neighbours_(neighbours),
        rank_(rendezvous.rank()),
        deadline_(deadline),
        interrupt_(interrupt) {}

  // Calls every peer of lower number in a thread of its own, so that the time does not grow with
  // their number, and answers all other peers in this thread.
  std::vector<PeerConnection> run() {
    int port = 0;
    Socket listeners[2]{network_.listen_on(rendezvous_.self().address, port), {}};
    if (!neighbours_.empty()) {
      listeners[1] = network_.listen_locally(local_name(rendezvous_.generation(), name_, rank_));
    }
    rendezvous_.set(make_key(name_, rank_), to_string(Address{rendezvous_.self().address, port}));
    std::vector<int> lower;
    std::copy_if(peers_.begin(), peers_.end(), std::back_inserter(lower),
                 [&](int peer) { return peer < rank_; });
    std::vector<std::string> keys;
    for (const int peer : lower) keys.push_back(make_key(name_, peer));
    std::vector<std::string> addresses;
    std::vector<std::thread> callers;
    try {
      addresses = rendezvous_.get(keys);
      for (std::size_t i = 0; i < lower.size(); ++i) {
        callers.emplace_back(
            [this, i, &lower, &addresses] { run_guarded([&] { call(lower[i], addresses[i]); }); });
      }
    } catch (...) {
      keep_error();
    }
    run_guarded([&] { answer(std::span(listeners).first(listeners[1] ? 2 : 1)); });
    for (std::thread& caller : callers) caller.join();
    if (error_) std::rethrow_exception(error_);
    return std::move(found_);
  }

 private:
  template <class Call>
  void run_guarded(const Call& call) {
    try {
      call();
    } catch (...) {
      keep_error();
    }
  }

  // Keeps the first error and ends all other waits.
  void keep_error() {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
    interrupt_.raise();
  }

  void add(PeerConnection connection) {
    const std::lock_guard lock(mutex_);
    found_.push_back(std::move(connection));
  }

  std::string proof(const char* part, int from, int to, std::string_view challenge) const {
    return rendezvous_.proof({part, name_, std::to_string(from), std::to_string(to), challenge});
  }

  // Throws the std::runtime_error of a deadline at which `other` is not connected. `reason` ends
  // the message.
  [[noreturn]] void fail_late(const std::string& other, const std::string& reason = "") const {
    throw std::runtime_error(concat("no connection between rank ", rank_, " and ", other,
                                    " within ", seconds(rendezvous_.timeout()),
                                    ", the limit of parallel.timeout", reason));
  }

  // A rank that has too many callers closes some of them, which then call again.
  void call(int peer, const std::string& address) {
    const bool is_neighbour = std::ranges::find(neighbours_, peer) != neighbours_.end();
    for (auto pause = kMinConnectPause;; pause = std::min(pause * 3 / 2, kMaxConnectPause)) {
      std::string reason = "it closes the connection";
      PeerConnection other{peer, {}, {}, true};
      if (is_neighbour) {
        other.socket = network_.connect_locally(local_name(rendezvous_.generation(), name_, peer));
        if (other.socket) other.memory = SharedRing::make_memory();
      }
      if (!other.socket) {
        other.socket = network_.connect_to(parse_address(address).value(), deadline_, reason);
      }
      if (other.socket && greet(other)) {
        add(std::move(other));
        return;
      }
      if (interrupt_.raised()) throw std::runtime_error("the call was ended");
      if (network_.now() + pause >= deadline_) {
        fail_late(concat("rank ", peer, " at ", address), ": " + reason);
      }
      network_.sleep(pause);
    }
  }

  // Returns false when the other end has closed.
  bool greet(const PeerConnection& other) const {
    std::string peer_challenge(kChallengeBytes, '\0'), answer(kProofBytes, '\0');
    if (!read_all(other.socket, other.rank, peer_challenge)) return false;
    Greeting greeting{rank_, {}, {}};
    const std::string own_challenge = draw_secret(kChallengeBytes / 2);
    own_challenge.copy(greeting.challenge, kChallengeBytes);
    proof("caller", rank_, other.rank, peer_challenge + own_challenge)
        .copy(greeting.proof, kProofBytes);
    if (!send_with(other.socket, std::as_bytes(std::span(&greeting, 1)), other.memory)) {
      return false;
    }
    if (!read_all(other.socket, other.rank, answer)) return false;
    if (!same_secret(answer, proof("called", other.rank, rank_, own_challenge))) {
      throw std::runtime_error(
          concat("what listens in the place of rank ", other.rank, " does not belong to this job"));
    }
    return true;
  }

  bool read_all(const Socket& socket, int peer, std::string& text) const {
    for (std::size_t read = 0; read < text.size();) {
      const ssize_t got = ::recv(socket.get(), text.data() + read, text.size() - read, 0);
      if (got > 0) {
        read += got;
      } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (!interrupt_.wait_for(socket, POLLIN, deadline_)) fail_late(concat("rank ", peer));
      } else {
        return false;
      }
    }
    return true;
  }

  // Reads all greetings side by side, so that a connection without one delays nobody.
  void answer(std::span<const Socket> listeners) {
    auto expected = std::ranges::count_if(peers_, [&](int p) { return p > rank_; });
    std::vector<Newcomer> newcomers;
    while (expected > 0) {
      std::vector<pollfd> files;
      for (const Socket& listener : listeners) files.push_back({listener.get(), POLLIN, 0});
      for (const Newcomer& other : newcomers) files.push_back({other.socket.get(), POLLIN, 0});
      files.emplace_back();
      if (!interrupt_.wait_for(files, deadline_)) fail_late(missing());
      for (const Socket& listener : listeners) take_callers(listener, newcomers);
      for (Newcomer& newcomer : newcomers) {
        if (!read_greeting(newcomer)) continue;
        if (is_awaited(newcomer) && reply(newcomer)) {
          const int other = static_cast<int>(newcomer.greeting.rank);
          callers_.push_back(other);
          add({other, std::move(newcomer.socket), std::move(newcomer.memory), false});
          --expected;
        }
        newcomer.socket = {};
      }
      std::erase_if(newcomers, [](const Newcomer& newcomer) { return !newcomer.socket; });
    }
  }

  // Accepts only some at once, so that the ranks among them are read before more connect.
  void take_callers(const Socket& listener, std::vector<Newcomer>& newcomers) const {
    for (std::size_t taken = 0; taken < kMaxNewcomers / 2; ++taken) {
      Socket socket = network_.accept_from(listener);
      if (!socket) return;
      if (newcomers.size() == kMaxNewcomers) newcomers.erase(newcomers.begin());
      std::string challenge = draw_secret(kChallengeBytes / 2);
      std::string bytes = challenge;
      if (transmit(socket, bytes)) newcomers.push_back({std::move(socket), std::move(challenge)});
    }
  }

  // Reads the greeting and not a byte more, because the first message may follow it. Returns
  // whether it is complete. Drops the socket of a connection that has closed.
  static bool read_greeting(Newcomer& newcomer) {
    const auto rest =
        std::as_writable_bytes(std::span(&newcomer.greeting, 1)).subspan(newcomer.read);
    const ssize_t got = receive_with(newcomer.socket, rest, newcomer.memory);
    if (got > 0) newcomer.read += got;
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) newcomer.socket = {};
    return newcomer.read == sizeof(Greeting);
  }

  bool is_awaited(const Newcomer& newcomer) const {
    const std::int64_t other = newcomer.greeting.rank;
    if (other <= rank_ || std::ranges::find(peers_, other) == peers_.end()) {
      return false;
    }
    const bool is_known = std::ranges::find(callers_, other) != callers_.end();
    const std::string challenges =
        newcomer.challenge + std::string(newcomer.greeting.challenge, kChallengeBytes);
    return !is_known &&
           same_secret({newcomer.greeting.proof, kProofBytes},
                       proof("caller", static_cast<int>(other), rank_, challenges)) &&
           (!newcomer.memory || SharedRing::is_memory(newcomer.memory));
  }

  bool reply(const Newcomer& newcomer) const {
    std::string bytes = proof("called", rank_, static_cast<int>(newcomer.greeting.rank),
                              {newcomer.greeting.challenge, kChallengeBytes});
    return transmit(newcomer.socket, bytes) && bytes.empty();
  }

  // The ranks that have not called: "rank 1, rank 2".
  std::string missing() const {
    std::string text;
    for (const int peer : peers_) {
      if (peer < rank_ || std::ranges::find(callers_, peer) != callers_.end()) {
        continue;
      }
      text += concat(text.empty() ? "" : ", ", "rank ", peer);
    }
    return text;
  }

  Rendezvous& rendezvous_;
  const Network& network_;
  const std::string& name_;
  const std::span<const int> peers_, neighbours_;
  const int rank_;
  const Clock::time_point deadline_;
  Interrupt& interrupt_;
  std::vector<int> callers_;  // the ranks of higher number that have called
  std::mutex mutex_;          // guards the members below
  std::vector<PeerConnection> found_;
  std::exception_ptr error_;
};

}  // namespace

std::vector<PeerConnection> connect_peers(Rendezvous& rendezvous, const std::string& name,
                                          std::span<const int> peers,
                                          std::span<const int> neighbours,
                                          Clock::time_point deadline, Interrupt& interrupt) {
  return PeerConnector(rendezvous, name, peers, neighbours, deadline, interrupt).run();
}

}  // namespace trainer::cluster

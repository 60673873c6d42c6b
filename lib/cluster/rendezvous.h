// Rendezvous of a job's ranks: membership at the start, failure detection afterwards.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process/progress.h"
#include "cluster/identity.h"

namespace trainer::cluster {

class Network;

struct Member {
  std::string name;     // "worker:1" or "rank 1"
  std::string host;     // the host's own name
  std::string address;  // numeric, where the others reach it
  std::uint64_t process = 0;
  int local_rank = 0, local_size = 1;  // rank and number of ranks on the same host
};

struct RendezvousOptions {
  // The longest wait for all ranks, and the longest time of any call. A rank that is silent
  // for half of it counts as gone, so that errors name it before other calls time out.
  std::chrono::milliseconds timeout{60'000};
  std::string version;  // the version of the program; all ranks must run the same
  // Ranks of one host exchange numbers through shared memory if true, through sockets otherwise.
  bool shared_memory = true;
  // The secret of the job. Ranks prove that they have it and never send it. "" for none.
  std::string secret{};
  // Receives, on rank 0 and from another thread, one line about the first unauthenticated
  // connection.
  std::function<void(const std::string&)> warn{};
  // The time in which a connection to rank 0 must give its rank.
  std::chrono::milliseconds greeting{10'000};
  // Advances when data moves between any two ranks, and has the waits for other ranks.
  Progress progress = {};
  // The clock and the connections; null for those of the system.
  std::shared_ptr<const Network> network{};
};

// Counts the bytes between this rank and another one, and the waits for them, in all groups.
struct PeerTraffic {
  std::atomic<std::uint64_t> sent{0}, received{0};  // bytes
  // The number of threads of this rank that wait for data of the other rank, and of those that wait
  // until the other rank takes more data.
  std::atomic<std::uint64_t> receive_waits{0}, send_waits{0};
  // The bytes that have arrived from the host of the other rank or whose receipt it has
  // acknowledged. Unlike the first two, this number changes while data of an earlier call is on its
  // way. Each heartbeat updates it.
  std::atomic<std::uint64_t> moved{0};
};

// A process has one for a job of two or more ranks, from the start of the job to its end. Rank 0
// listens at identity.master in a thread; every rank, rank 0 too, holds a connection to it over
// which heartbeats go both ways.
//
// A rank counts as gone when its connection closes before it has left, when it is silent for too
// long, or when it has called fail(). Data between a rank and rank 0 ends a silence as heartbeats
// do, because heartbeats may be delayed behind it. The coordinator reports the first one to all
// ranks; when rank 0 itself is gone, each rank detects it. Thread-safe. SIGPIPE is ignored from
// construction on, because Gloo writes to connections that may just have closed.
class Rendezvous {
 public:
  // Returns when all ranks have joined. Throws ConfigError when a rank has another cluster, size or
  // version, or the same rank, and when rank 0 cannot listen; PeerError naming the missing ranks
  // after the timeout.
  Rendezvous(const Identity& identity, const RendezvousOptions& options);
  // Leaves the group without an error, unless during an exception or after fail().
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const;
  int size() const;
  const std::vector<Member>& members() const;  // indexed by rank
  const Member& self() const;
  // Returns "rank 2 (worker:1 on host-b, process 71)", for messages.
  std::string describe(int rank) const;
  std::chrono::milliseconds timeout() const;
  // A random number that rank 0 draws at every start: names of shared objects contain it, so that
  // those of an earlier start are never used.
  std::uint64_t generation() const;
  bool shared_memory() const;
  const Network& network() const;
  const Progress& progress() const;
  // Returns the proof that a rank of this start has the secret, for connections between ranks.
  std::string proof(std::initializer_list<std::string_view> parts) const;

  // A store that all ranks share, which keeps the first value of a key. get() waits for the key, or
  // for all of several keys. They throw PeerError.
  void set(const std::string& key, const std::string& value);
  std::string get(const std::string& key);
  std::vector<std::string> get(const std::vector<std::string>& keys);

  // Collective: all ranks give the same value, or all throw ConfigError, which names a rank that
  // differs from rank 0 and the first line in which it does. `key` is part of the message:
  // "config".
  void agree(const std::string& key, const std::string& value);
  // Does the same for several keys and values in one round trip.
  void agree(const std::vector<std::pair<std::string, std::string>>& values);

  // While a rank prepares (reads its data before its first call), the other ranks wait for it
  // beyond the time-out, up to ten times as long since the start.
  void set_preparing(bool is_preparing);

  // Reports that this rank cannot go on: all others throw PeerError "rank 2 (...) <message>".
  // `culprit` names the rank that caused it, if it is another one.
  void fail(const std::string& message, std::optional<int> culprit = {}) noexcept;
  // The failure, if any: "rank 2 (worker:1 on host-b, process 71) was killed or has crashed: ...".
  std::optional<std::string> lost() const;

  // Sets what this process is doing, for messages: "training, step 120". "" for nothing.
  void set_phase(const std::string& phase);

  // A name for the next group of ranks: the same on all, as long as all open their groups in the
  // same order.
  std::string next_group();

  // Communicators call these. begin_call() counts a call and throws PeerError after a rank is gone.
  void begin_call(const std::string& call);
  struct CallFailure {
    std::string reason;
    std::optional<int> peer{};  // the rank at the other end of the connection that failed
    bool timed_out = false;     // no data has moved for the time-out
  };
  // Throws the error of a failed call, after a short wait for the coordinator's message on which
  // rank caused it. If there is none, all ranks get the same message about this failure. The
  // connections to other ranks must be open until it returns: a rank that sees one close takes this
  // rank for the cause.
  [[noreturn]] void explain(const std::string& call, const CallFailure& failure);
  // The counts for a peer. The coordinator compares those of both ends to find a broken connection.
  PeerTraffic& traffic(int peer);
  // The last time at which data is known to have moved between any two ranks.
  std::chrono::steady_clock::time_point last_progress() const;
  // Calls `wake` (from a thread of this class, or at once) when a rank is gone, until the handle is
  // destroyed.
  using Handle = std::shared_ptr<void>;
  Handle on_loss(std::function<void()> wake);
  // Calls `measure` (from a thread of this class) before each heartbeat, until the handle is
  // destroyed. It updates PeerTraffic::moved.
  Handle before_heartbeat(std::function<void()> measure);

 private:
  class Link;
  std::unique_ptr<class Coordinator> coordinator_;
  std::unique_ptr<Link> link_;
  int groups_ = 0;
  int exceptions_;
};

}  // namespace trainer::cluster

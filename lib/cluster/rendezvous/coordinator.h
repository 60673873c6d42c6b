// The coordinator on rank 0: the members, a store of keys, and failures. Inside the folder.
// Reasons: lib/decisions/cluster.md#rank-0-detects-failures.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "cluster/network.h"
#include "cluster/transport/socket.h"

namespace trainer::cluster {

struct CoordinatorOptions {
  Address address;
  std::string job, cluster, version;               // rank 0's, which all others must have too
  std::vector<std::string> names;                  // indexed by rank; names those that are missing
  Milliseconds join_timeout{};                     // the longest wait for all ranks
  Milliseconds silence{};                          // a silent rank counts as gone after it
  Milliseconds beat{};                             // the time between two heartbeats to the ranks
  Milliseconds greeting{10'000};                   // a new connection must give its rank within it
  std::string secret{};                            // the job's secret; "" for none
  std::function<void(const std::string&)> warn{};  // called by the coordinator's thread
  std::shared_ptr<const Network> network = system_network();
};

// Serves in a thread of its own. It alone decides which rank failed first, so that all ranks name
// the same one.
class Coordinator {
 public:
  // Starts to listen. Throws ConfigError when it cannot.
  explicit Coordinator(CoordinatorOptions options);
  // Informs the ranks that rank 0 is done, and waits up to two seconds for them to close.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

 private:
  struct Connection {
    Socket socket;
    std::string in, out;
    int rank = -1;  // -1 until the hello authenticates it
    std::string challenge;
    Clock::time_point since{};  // the time when it was accepted
    bool closing = false;       // closes once `out` is written
    bool open = true;
  };
  struct Rank {
    Connection* connection = nullptr;
    std::string name, version, cluster, host, remote, address, challenge;
    std::uint64_t process = 0, calls = 0, state = 0;
    std::vector<std::uint64_t> traffic;  // kTrafficNumbers per rank
    Clock::time_point heard;
    bool joined = false;
  };
  struct Agreement {
    std::map<int, std::pair<std::uint64_t, std::string>> values;  // keyed by rank: request, value
  };

  void serve();
  void wait_for_events();
  void accept_all();
  void drop_unauthenticated();
  void drop(Connection& connection, const std::string& reason);
  // Counts a connection that is not a rank's, and warns of the first one.
  void count_rejection(const Connection& connection, const std::string& reason);
  void read(Connection& connection);
  void handle(Connection& connection, const std::string& message);
  void hello(Connection& connection, Reader& reader);
  bool accept_hello(Connection& connection, const Rank& newcomer, int rank, int size,
                    const std::string& job);
  void welcome_all();
  void set_key(const std::string& key, std::string value);
  void get_key(int rank, std::uint64_t request, const std::string& key);
  void agree(int rank, Reader& reader);
  void status(int rank, std::uint64_t request);
  void note_heartbeat(int rank, Reader& reader);
  // Stops reading and writing. flush() then frees the connection, so that nothing may point to it.
  void forget(Connection& connection);
  // Forgets the connection; its rank is lost for `reason`.
  void closed(Connection& connection, const std::string& reason);
  void check_silence();
  void check_join_deadline();
  void lose(int rank, const std::string& reason);
  bool proves_secret(const Connection& connection, const std::string& challenge,
                     const std::string& proof, int rank) const;
  void reject(Connection& connection, std::uint64_t rejection, const std::string& message);
  void reject_all(std::uint64_t rejection, const std::string& message);
  void send(int rank, Writer& message);
  void send_all(Writer message);
  void flush();
  void beat();
  std::string describe(int rank) const;
  bool all_gone() const;

  const CoordinatorOptions options_;
  const Network& network_;
  const std::uint64_t generation_;
  Socket listener_, waker_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Rank> ranks_;
  std::map<std::string, std::string> store_;
  std::map<std::string, std::vector<std::pair<int, std::uint64_t>>>
      waiting_;  // ranks that wait for a key, with their requests
  std::map<std::string, Agreement> agreements_;
  bool running_ = false;  // all ranks have been here
  Clock::time_point running_since_{};
  bool is_rejected_ = false;  // the job will not come to be
  std::string rejection_message_;
  std::uint64_t rejection_ = 0;
  bool lost_ = false;
  std::uint64_t progress_ = 0;  // heartbeats that differed from the rank's last one
  std::uint64_t rejected_ = 0;  // connections, closed ones included
  const Clock::time_point started_;
  Clock::time_point last_beat_, last_round_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace trainer::cluster

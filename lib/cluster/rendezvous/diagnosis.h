// Finds the rank or connection that stops a job, from what all ranks have reported. Inside the
// folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainer::cluster {

// The counts of one rank for another one at its last heartbeat, see PeerTraffic.
struct TrafficReport {
  std::uint64_t sent = 0, received = 0, receive_waits = 0, send_waits = 0;
};

// The last heartbeat of one rank.
struct RankReport {
  std::uint64_t state = 0;             // a State of protocol.h
  std::uint64_t calls = 0;             // the number of calls that it has begun
  std::vector<TrafficReport> traffic;  // indexed by peer
};

// The rank to name, and what follows its description in a message: "is alive, but ...".
struct Blame {
  int rank = 0;
  std::string what;
};

// Returns the description of a rank: "rank 2 (on b, process 71)".
using DescribeRank = std::function<std::string(int rank)>;

// Returns a rank that has ended before the others.
std::optional<Blame> find_rank_that_left(const std::vector<RankReport>& all);

// Returns a connection that loses data although both its ends are alive, and names both ends. One
// end waits for data, and the other end has sent more than has arrived, or cannot send more: if
// only acknowledgements are lost, all that was sent has arrived.
std::optional<Blame> find_broken_connection(const std::vector<RankReport>& all,
                                            std::chrono::milliseconds timeout,
                                            const DescribeRank& describe);

// Returns the rank with the fewest calls, if it is not `rank` and has fewer.
std::optional<Blame> find_rank_behind(const std::vector<RankReport>& all, int rank,
                                      std::uint64_t calls, std::chrono::milliseconds timeout);

// Returns what to report after the description of a rank from which `receiver` has received nothing
// for `time`: "has been silent for 2.1 s towards rank 0 (...): ...".
std::string describe_silence(std::chrono::steady_clock::duration time, const std::string& receiver);

// Returns what to report after the description of a rank whose connection to `other` has closed.
std::string describe_crash(const std::string& other);

}  // namespace trainer::cluster

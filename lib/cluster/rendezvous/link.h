// A rank's connection to the coordinator, inside the folder.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "cluster/network.h"
#include "cluster/rendezvous.h"
#include "cluster/rendezvous/diagnosis.h"
#include "cluster/rendezvous/protocol.h"
#include "cluster/transport/socket.h"

namespace trainer::cluster {

// The longest silence of a rank, and the time between its heartbeats.
inline Milliseconds silence_limit(Milliseconds timeout) { return timeout / 2; }
inline Milliseconds heartbeat_interval(Milliseconds timeout) {
  return std::clamp(timeout / 20, Milliseconds(20), Milliseconds(2000));
}

// The connection to the coordinator, and the thread that reads it and sends heartbeats.
class Rendezvous::Link {
 public:
  Link(const Identity& identity, const RendezvousOptions& options);
  ~Link();

  void set(const std::string& key, const std::string& value);
  // Sends the messages and returns their answers. `requests` are the numbers in the messages.
  std::vector<std::string> ask_all(const std::string& messages,
                                   const std::vector<std::uint64_t>& requests, const char* what);
  std::string ask(Writer& message, std::uint64_t request, const char* what);
  std::uint64_t next_request() { return ++requests_; }
  void fail(const std::string& message, int culprit);
  void leave();
  std::optional<std::string> lost() const;
  void begin_call(const std::string& call);
  std::optional<std::string> await_verdict(Milliseconds limit);
  Clock::time_point last_progress() const {
    return Clock::time_point(Clock::duration(progressed_));
  }
  std::string with_phase(const std::string& message) const;
  // Returns how long another rank may take to report a failure that both find at the time-out.
  Milliseconds grace() const { return std::min(timeout / 4, Milliseconds(2000)); }
  // Returns the last heartbeat of every rank.
  std::vector<RankReport> reports(const std::string& call);
  std::uint64_t calls() const { return calls_; }
  std::string describe(int other) const;
  Handle on_loss(std::function<void()> wake);
  Handle before_heartbeat(std::function<void()> measure);

  const int rank;
  const Milliseconds timeout;
  const bool shared_memory;
  const std::shared_ptr<const Network> network;
  const Progress progress;
  std::vector<PeerTraffic> traffic;  // indexed by rank
  std::vector<Member> members;
  std::uint64_t generation = 0;
  std::string session_key;  // the key of this start; proofs between ranks use it
  std::atomic<bool> is_preparing{false};
  mutable std::mutex mutex;
  std::string phase;

 private:
  void join(const Identity& identity, const RendezvousOptions& options);
  bool greet(const Identity& identity, const RendezvousOptions& options, Clock::time_point deadline,
             Clock::time_point patience, std::string& reason, std::string& rejection);
  bool read_answer(const std::string& message, const std::string& welcome_proof,
                   const std::string& secret, std::string& rejection);
  std::string wait_message(Clock::time_point deadline, std::string& reason);
  void serve();
  bool read_messages();
  void handle(const std::string& message);
  void send(const std::string& bytes);
  std::string await_answer(std::uint64_t request, const char* what);
  void lose(const std::string& reason);
  std::string make_heartbeat() const;
  // Measures the data that has moved, and counts it as progress. Returns whether any has moved
  // between this rank and rank 0.
  bool measure_traffic();
  void note_progress();
  Handle add_watcher(std::list<std::function<void()>>& watchers, std::function<void()> call);

  Socket socket_, waker_;
  std::string in_;
  std::condition_variable changed_;
  std::string out_;
  std::map<std::uint64_t, std::string> answers_;
  std::optional<std::string> lost_;
  std::list<std::function<void()>> watchers_;  // functions to call when a rank is lost
  std::list<std::function<void()>> measures_;  // functions to call before each heartbeat
  std::mutex watchers_mutex_;                  // guards both lists
  std::vector<std::uint64_t> moved_;           // the last measurement, by rank; thread_ uses it
  std::atomic<std::uint64_t> requests_{0}, calls_{0};
  std::uint64_t progress_count_ = 0;       // the count in the coordinator's last heartbeat
  std::atomic<Clock::rep> progressed_{0};  // the time of the last change of progress_count_
  std::string call_;
  bool ended_ = false;     // rank 0 has left
  bool stopping_ = false;  // this rank leaves
  std::thread thread_;
};

}  // namespace trainer::cluster

// Sends a run to a tracking server while it trains.
// Reasons: lib/decisions/hooks.md#a-tracking-server-is-never-waited-for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/files/files.h"
#include "hooks/mlflow/api.h"
#include "hooks/mlflow/names.h"

namespace trainer::hooks::mlflow {

struct Artifact {
  std::string name, content;
};

// What a server receives of a run besides its rows.
struct RunDescription {
  std::string url, experiment, name;
  Pairs params, tags;               // names and values that MLflow accepts
  std::vector<Artifact> artifacts;  // sent at the start
  Path id_file;                     // contains the run's id on the server, for the sessions to come
};

struct RunEnd {
  std::string status;  // FINISHED, FAILED or KILLED
  std::vector<Artifact> artifacts;
};

struct Timing {
  using Duration = std::chrono::milliseconds;
  Duration between_requests{1000};  // the time between requests with rows
  Duration first_pause{1000};       // the wait before a retry; each later pause is twice as long
  Duration max_pause{60'000};
  // For an answer at the end of the run, which takes at most three times as long.
  Duration patience{5000};
  std::size_t max_rows = 10'000;  // the number of rows that may wait; later ones are not sent
};

// Has a thread that makes the calls. All functions belong to one other thread, and none but close()
// waits for the server.
class Sender {
 public:
  // Continues the run that the id file names for this server, if the server has it. Throws
  // std::system_error if no thread can be started.
  Sender(RunDescription run, http::ClientOptions client, Timing timing);
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // Adds values of this moment.
  void add(std::int64_t step, Row::Values values);
  // Sends the rows that wait and the end, as far as the patience allows.
  void close(RunEnd end);

  // Returns the first failure, once; "" for none.
  std::string take_failure();
  // After close(): the rows of this process that the server has not confirmed, and whether it has
  // confirmed the status.
  std::int64_t rows_not_sent() const { return rows_not_sent_; }
  bool has_sent_status() const { return has_sent_status_; }

 private:
  using Clock = std::chrono::steady_clock;

  void work();
  bool open_run();
  RemoteRun find_or_create_run();
  void send_settings();
  void send_rows();
  void send_end();
  std::optional<std::vector<Row>> wait_for_rows();
  bool has_full_request() const;
  void drop_known_values(Row& row) const;
  void give_up(const std::string& reason);

  template <class Call>
  bool attempt(const Call& call, int max_tries);
  bool pause_before_retry(Timing::Duration pause);
  bool may_proceed();
  void extend_deadline();
  void report(const std::string& failure);

  const RunDescription run_;
  const Timing timing_;
  Api api_;
  RemoteRun remote_;  // used by the thread, as is last_request_
  Clock::time_point last_request_{};
  int tries_at_end_ = 2;  // used by the thread

  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::deque<Row> rows_;
  std::optional<RunEnd> end_;
  Clock::time_point deadline_, last_deadline_;  // deadlines of the end
  bool is_off_ = false;                         // nothing more can be sent
  std::string failure_;
  bool has_failed_ = false;
  std::int64_t rows_not_sent_ = 0;
  bool has_sent_status_ = false;

  std::thread thread_;
};

}  // namespace trainer::hooks::mlflow

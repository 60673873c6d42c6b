// The calls of a tracking server: MLflow's REST interface, version 2.0.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hooks/mlflow/names.h"
#include "http/client.h"

namespace trainer::hooks::mlflow {

// The server rejected a call or could not be reached.
class CallFailed : public std::runtime_error {
 public:
  CallFailed(const std::string& message, bool is_transient)
      : std::runtime_error(message), is_transient_(is_transient) {}
  // Returns whether the same call may succeed later.
  bool is_transient() const { return is_transient_; }

 private:
  bool is_transient_;
};

// Values of one time, by metric. They need not be finite.
struct Row {
  using Values = std::vector<std::pair<std::string, double>>;
  std::int64_t step = 0;
  std::int64_t time_ms = 0;  // milliseconds since 1970
  Values values;
};

// A run as the server has it.
struct RemoteRun {
  std::string id;
  std::string artifact_uri;
  std::map<std::string, std::int64_t> last_steps;  // keyed by metric
  std::map<std::string, std::string> params;
};

// All calls throw CallFailed.
class Api {
 public:
  // `proceed` is asked now and then during a call, which fails once it returns false.
  Api(std::string url, http::ClientOptions options, std::function<bool()> proceed);

  // Returns the id of the experiment of this name, which is made if there is none.
  std::string open_experiment(const std::string& name);
  RemoteRun create_run(const std::string& experiment, const std::string& name,
                       std::int64_t start_ms);
  // Returns nothing if the server has no such run, or has it in its bin.
  std::optional<RemoteRun> find_run(const std::string& id);
  // `params` and `tags` have at most kMaxParams and kMaxTags entries.
  void log_settings(const std::string& run, std::span<const Pairs::value_type> params,
                    std::span<const Pairs::value_type> tags);
  // The rows have at most kMaxMetrics values.
  void log_rows(const std::string& run, std::span<const Row> rows);
  // `status` is RUNNING, FINISHED, FAILED or KILLED. RUNNING has no end.
  void set_status(const std::string& run, const std::string& status, std::int64_t end_ms);
  // Writes a file through the server. Throws CallFailed if the artifacts of the run are elsewhere.
  void put_artifact(const RemoteRun& run, const std::string& name, const std::string& content);

 private:
  std::string get(const std::string& call, const std::string& parameter, const std::string& value);
  std::string post(const std::string& call, const std::string& body);
  std::string send(http::Request request);

  std::string url_;
  http::Client client_;
  std::function<bool()> proceed_;
};

}  // namespace trainer::hooks::mlflow

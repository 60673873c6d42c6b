#include "hooks/mlflow/api.h"

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/json_number.h"
#include "base/text.h"

namespace trainer::hooks::mlflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kCalls[] = "/api/2.0/mlflow/";
constexpr char kArtifacts[] = "/api/2.0/mlflow-artifacts/artifacts/";
constexpr long kNotFound = 404;

// A call that the server rejected because it lacks the object of the call.
class NotFound : public CallFailed {
 public:
  explicit NotFound(const std::string& message) : CallFailed(message, false) {}
};

// Returns the text as a part of a URL; slashes stay where `keeps_slashes`.
enum class Slashes { kEncode, kKeep };
std::string percent_encode(const std::string& text, Slashes slashes) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos || (c == '/' && slashes == Slashes::kKeep)) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return encoded;
}

Json parse_object(const std::string& text) {
  if (is_shallow_json(text)) {
    Json object = Json::parse(text, nullptr, false);
    if (object.is_object()) return object;
  }
  throw CallFailed("the answer is not that of an MLflow server", false);
}

std::string read_string(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Numbers of 64 bits may be texts in JSON.
std::optional<std::int64_t> read_integer(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  return found->is_string() ? parse_integer(found->get<std::string>()) : whole_number(*found);
}

const Json& find_object(const Json& object, const char* key) {
  static const Json kNone = Json::object();
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : kNone;
}

const Json& find_list(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : kNone;
}

RemoteRun read_run(const Json& json) {
  const Json& info = find_object(json, "info");
  RemoteRun run;
  run.id = read_string(info, "run_id");
  run.artifact_uri = read_string(info, "artifact_uri");
  if (run.id.empty()) throw CallFailed("the answer is not that of an MLflow server", false);
  const Json& data = find_object(json, "data");
  for (const Json& metric : find_list(data, "metrics")) {
    if (!metric.is_object()) continue;
    run.last_steps[read_string(metric, "key")] = read_integer(metric, "step").value_or(0);
  }
  for (const Json& param : find_list(data, "params")) {
    if (param.is_object()) run.params[read_string(param, "key")] = read_string(param, "value");
  }
  return run;
}

Json list_pairs(std::span<const Pairs::value_type> pairs) {
  Json list = Json::array();
  for (const auto& [key, value] : pairs) list.push_back({{"key", key}, {"value", value}});
  return list;
}

// The JSON form of Protocol Buffers has these names for numbers that JSON lacks.
Json make_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::string describe_rejection(const http::Response& response) {
  constexpr std::size_t kMaxBytes = 200;
  const Json answer =
      is_shallow_json(response.body) ? Json::parse(response.body, nullptr, false) : Json();
  const std::string message = answer.is_object() ? read_string(answer, "message") : "";
  return concat("the server answers with status ", response.status, message.empty() ? "" : ": ",
                printable(cut_text(message, kMaxBytes)));
}

bool is_missing(const http::Response& response) {
  if (response.status != kNotFound || !is_shallow_json(response.body)) return false;
  const Json answer = Json::parse(response.body, nullptr, false);
  return answer.is_object() && read_string(answer, "error_code") == "RESOURCE_DOES_NOT_EXIST";
}

}  // namespace

Api::Api(std::string url, http::ClientOptions options, std::function<bool()> proceed)
    : url_(std::move(url)), client_(std::move(options)), proceed_(std::move(proceed)) {
  while (url_.ends_with('/')) url_.pop_back();
}

std::string Api::open_experiment(const std::string& name) {
  try {
    const Json answer = parse_object(get("experiments/get-by-name", "experiment_name", name));
    return read_string(find_object(answer, "experiment"), "experiment_id");
  } catch (const NotFound&) {
    // Version 3 shows the pages of model training for this kind, and else those of language models.
    const Pairs tags{{"mlflow.experimentKind", "custom_model_development"}};
    const Json request{{"name", name}, {"tags", list_pairs(tags)}};
    return read_string(parse_object(post("experiments/create", to_json_line(request))),
                       "experiment_id");
  }
}

RemoteRun Api::create_run(const std::string& experiment, const std::string& name,
                          std::int64_t start_ms) {
  const Json request{{"experiment_id", experiment}, {"run_name", name}, {"start_time", start_ms}};
  return read_run(find_object(parse_object(post("runs/create", to_json_line(request))), "run"));
}

std::optional<RemoteRun> Api::find_run(const std::string& id) {
  try {
    const Json answer = parse_object(get("runs/get", "run_id", id));
    const Json& run = find_object(answer, "run");
    if (read_string(find_object(run, "info"), "lifecycle_stage") == "deleted") return std::nullopt;
    return read_run(run);
  } catch (const NotFound&) {
    return std::nullopt;
  }
}

void Api::log_settings(const std::string& run, std::span<const Pairs::value_type> params,
                       std::span<const Pairs::value_type> tags) {
  const Json request{{"run_id", run}, {"params", list_pairs(params)}, {"tags", list_pairs(tags)}};
  post("runs/log-batch", to_json_line(request));
}

void Api::log_rows(const std::string& run, std::span<const Row> rows) {
  Json metrics = Json::array();
  for (const Row& row : rows) {
    for (const auto& [name, value] : row.values) {
      metrics.push_back({{"key", name},
                         {"value", make_number(value)},
                         {"timestamp", row.time_ms},
                         {"step", row.step}});
    }
  }
  const Json request{{"run_id", run}, {"metrics", std::move(metrics)}};
  post("runs/log-batch", to_json_line(request));
}

void Api::set_status(const std::string& run, const std::string& status, std::int64_t end_ms) {
  Json request{{"run_id", run}, {"status", status}};
  if (status != "RUNNING") request["end_time"] = end_ms;
  post("runs/update", to_json_line(request));
}

void Api::put_artifact(const RemoteRun& run, const std::string& name, const std::string& content) {
  constexpr std::string_view kProxied = "mlflow-artifacts:/";
  // Two slashes precede the name of another server, which gets no credentials of this one.
  if (!run.artifact_uri.starts_with(kProxied) ||
      run.artifact_uri.substr(kProxied.size()).starts_with('/')) {
    throw CallFailed(concat("the artifacts of the run are in ", printable(run.artifact_uri),
                            " and not on the server, so that none is sent"),
                     false);
  }
  http::Request request;
  request.method = "PUT";
  request.url = concat(
      url_, kArtifacts,
      percent_encode(concat(run.artifact_uri.substr(kProxied.size()), '/', name), Slashes::kKeep));
  request.headers = {"Content-Type: application/octet-stream"};
  request.body = content;
  send(std::move(request));
}

std::string Api::get(const std::string& call, const std::string& parameter,
                     const std::string& value) {
  http::Request request;
  request.url =
      concat(url_, kCalls, call, '?', parameter, '=', percent_encode(value, Slashes::kEncode));
  return send(std::move(request));
}

std::string Api::post(const std::string& call, const std::string& body) {
  http::Request request;
  request.method = "POST";
  request.url = concat(url_, kCalls, call);
  request.headers = {"Content-Type: application/json"};
  request.body = body;
  return send(std::move(request));
}

std::string Api::send(http::Request request) {
  constexpr long kRedirect = 300;
  request.max_duration = std::chrono::seconds(30);
  request.proceed = [this](std::int64_t) { return proceed_(); };
  http::Response response = client_.send(request);
  if (!response.error.empty()) throw CallFailed(response.error, /*is_transient=*/true);
  if (is_missing(response)) throw NotFound(describe_rejection(response));
  if (response.status >= kRedirect) {
    throw CallFailed(describe_rejection(response), response.is_transient);
  }
  return std::move(response.body);
}

}  // namespace trainer::hooks::mlflow

#include "hooks/mlflow/sender.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/json_number.h"

namespace trainer::hooks::mlflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kNoLimit = 1 << 30;
constexpr int kMaxArtifactTries = 3;  // rows wait meanwhile

std::int64_t milliseconds_since_1970() {
  using std::chrono::duration_cast, std::chrono::milliseconds, std::chrono::system_clock;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

// Returns the id of the run on this server; "" if the file has none.
std::string read_id(const Path& file, const std::string& url) {
  if (!std::filesystem::is_regular_file(file)) return "";
  const std::string text = read_text_file(file);
  if (!is_shallow_json(text)) return "";
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("url", Json()) != url) return "";
  const Json id = json.value("run_id", Json());
  return id.is_string() ? id.get<std::string>() : "";
}

void write_id(const Path& file, const std::string& url, const std::string& id) {
  const Json json{{"url", url}, {"run_id", id}};
  write_file_atomic(file, to_json_line(json) + "\n");
}

// Returns the next `count` entries from `begin` on, or fewer at the end.
std::span<const Pairs::value_type> take(const Pairs& pairs, std::size_t begin, std::size_t count) {
  begin = std::min(begin, pairs.size());
  return std::span(pairs).subspan(begin, std::min(count, pairs.size() - begin));
}

}  // namespace

Sender::Sender(RunDescription run, http::ClientOptions client, Timing timing)
    : run_(std::move(run)),
      timing_(timing),
      api_(run_.url, std::move(client), [this] { return may_proceed(); }),
      thread_([this] { work(); }) {}

Sender::~Sender() {
  if (thread_.joinable()) close({"FAILED", {}});
}

void Sender::add(std::int64_t step, Row::Values values) {
  const std::lock_guard lock(mutex_);
  if (is_off_ || rows_.size() >= timing_.max_rows) {
    ++rows_not_sent_;
    return;
  }
  rows_.push_back({step, milliseconds_since_1970(), std::move(values)});
  changed_.notify_all();
}

void Sender::close(RunEnd end) {
  {
    const std::lock_guard lock(mutex_);
    end_ = std::move(end);
    deadline_ = Clock::now() + timing_.patience;
    last_deadline_ = Clock::now() + 3 * timing_.patience;
    changed_.notify_all();
  }
  thread_.join();
  rows_not_sent_ += std::ssize(rows_);
}

std::string Sender::take_failure() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failure_, "");
}

void Sender::work() {
  try {
    if (!open_run()) return give_up("");
    send_rows();
    send_end();
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

// Returns false if the server does not accept the run.
bool Sender::open_run() {
  const bool is_open = attempt([this] { remote_ = find_or_create_run(); }, kNoLimit) &&
                       attempt([this] { api_.set_status(remote_.id, "RUNNING", 0); }, kNoLimit);
  if (!is_open) return false;
  write_id(run_.id_file, run_.url, remote_.id);
  send_settings();
  for (const Artifact& artifact : run_.artifacts) {
    attempt([&] { api_.put_artifact(remote_, artifact.name, artifact.content); },
            kMaxArtifactTries);
  }
  return true;
}

RemoteRun Sender::find_or_create_run() {
  if (const std::string id = read_id(run_.id_file, run_.url); !id.empty()) {
    if (std::optional<RemoteRun> found = api_.find_run(id)) return *std::move(found);
  }
  return api_.create_run(api_.open_experiment(run_.experiment), run_.name,
                         milliseconds_since_1970());
}

// A server never changes a parameter. The new value of a resumed run becomes a tag.
void Sender::send_settings() {
  Pairs params, tags = run_.tags;
  for (const auto& [name, value] : run_.params) {
    const auto known = remote_.params.find(name);
    if (known == remote_.params.end()) {
      params.emplace_back(name, value);
    } else if (known->second != value) {
      tags.emplace_back(name, cut_text(value, kMaxTagBytes));
    }
  }
  for (std::size_t begin = 0; begin < std::max(params.size(), tags.size()); begin += kMaxParams) {
    static_assert(kMaxParams == kMaxTags);
    attempt(
        [&] {
          api_.log_settings(remote_.id, take(params, begin, kMaxParams),
                            take(tags, begin, kMaxTags));
        },
        kNoLimit);
  }
}

void Sender::send_rows() {
  while (const std::optional<std::vector<Row>> rows = wait_for_rows()) {
    if (rows->empty()) continue;
    if (attempt([&] { api_.log_rows(remote_.id, *rows); }, kNoLimit)) continue;
    const std::lock_guard lock(mutex_);
    rows_not_sent_ += std::ssize(*rows);
  }
}

// Returns rows for one request, which may turn out to have nothing new; nothing at the end.
std::optional<std::vector<Row>> Sender::wait_for_rows() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return end_ || !rows_.empty(); });
  changed_.wait_until(lock, last_request_ + timing_.between_requests,
                      [this] { return end_ || has_full_request(); });
  if (rows_.empty() || (end_ && Clock::now() >= deadline_)) return std::nullopt;
  std::vector<Row> taken;
  for (std::size_t values = 0; !rows_.empty(); rows_.pop_front()) {
    values += rows_.front().values.size();
    if (!taken.empty() && values > kMaxMetrics) break;
    taken.push_back(std::move(rows_.front()));
  }
  last_request_ = Clock::now();
  for (Row& row : taken) drop_known_values(row);
  std::erase_if(taken, [](const Row& row) { return row.values.empty(); });
  return taken;
}

bool Sender::has_full_request() const {
  return !rows_.empty() && rows_.size() * rows_.front().values.size() >= kMaxMetrics;
}

// A resumed run repeats the steps since its checkpoint, whose values the server cannot replace.
void Sender::drop_known_values(Row& row) const {
  std::erase_if(row.values, [&](const auto& value) {
    const auto last = remote_.last_steps.find(value.first);
    return last != remote_.last_steps.end() && row.step <= last->second;
  });
}

void Sender::send_end() {
  RunEnd end;
  {
    const std::lock_guard lock(mutex_);
    end = *end_;
  }
  const bool sent = attempt(
      [&] { api_.set_status(remote_.id, end.status, milliseconds_since_1970()); }, kNoLimit);
  {
    const std::lock_guard lock(mutex_);
    has_sent_status_ = sent;
  }
  for (const Artifact& artifact : end.artifacts) {
    if (!may_proceed()) return;
    attempt([&] { api_.put_artifact(remote_, artifact.name, artifact.content); },
            kMaxArtifactTries);
  }
}

// `reason` is "" if a failure was reported.
void Sender::give_up(const std::string& reason) {
  if (!reason.empty()) report(reason);
  const std::lock_guard lock(mutex_);
  is_off_ = true;
  rows_not_sent_ += std::ssize(rows_);
  rows_.clear();
}

// Makes the call until it succeeds. Returns false if another try is of no use, or if the run ends.
template <class Call>
bool Sender::attempt(const Call& call, int max_tries) {
  Timing::Duration pause = timing_.first_pause;
  for (int tries = 1;; ++tries, pause = std::min(2 * pause, timing_.max_pause)) {
    if (!may_proceed()) return false;
    try {
      call();
      extend_deadline();
      return true;
    } catch (const CallFailed& failed) {
      report(failed.what());
      if (!failed.is_transient() || tries == max_tries) return false;
    }
    if (!pause_before_retry(pause)) return false;
  }
}

// Returns whether to try again. At the end of the run few tries are left for all calls together, so
// that a server that is down costs little time.
bool Sender::pause_before_retry(Timing::Duration pause) {
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, pause, [this] { return end_.has_value(); })) return true;
  }
  if (--tries_at_end_ < 0) return false;
  std::this_thread::sleep_for(std::min(timing_.first_pause, timing_.patience / 10));
  return may_proceed();
}

bool Sender::may_proceed() {
  const std::lock_guard lock(mutex_);
  return !end_ || Clock::now() < deadline_;
}

// A server that answers, however slowly, gets the time for its next answer.
void Sender::extend_deadline() {
  const std::lock_guard lock(mutex_);
  deadline_ = std::min(Clock::now() + timing_.patience, last_deadline_);
}

void Sender::report(const std::string& failure) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_failed_, true)) return;
  failure_ = failure;
}

}  // namespace trainer::hooks::mlflow

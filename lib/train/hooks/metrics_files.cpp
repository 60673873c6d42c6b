#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "train/hooks.h"
#include "train/hooks/window.h"

namespace trainer::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHeader =
    "step,epoch,split,loss,accuracy,learning_rate,images_per_second,wait_share,seconds";
// Behind those, of a run with parameter servers.
constexpr const char* kStaleness = ",staleness,staleness_max";

std::int64_t count_commas(const std::string& line) {
  return std::count(line.begin(), line.end(), ',');
}

// Of a row in the file: what decides whether it stays.
struct RowKey {
  std::int64_t step = 0;
  std::string split;
};

std::optional<RowKey> csv_key(const std::string& line) {
  const std::int64_t fewest = count_commas(kHeader), most = fewest + count_commas(kStaleness);
  RowKey key;
  const char* end = line.data() + line.size();
  const auto [after, error] = std::from_chars(line.data(), end, key.step);
  if (error != std::errc() || after == end || *after != ',') return std::nullopt;
  const std::size_t epoch = line.find(',') + 1, split = line.find(',', epoch) + 1;
  if (count_commas(line) != fewest && count_commas(line) != most) return std::nullopt;
  key.split = line.substr(split, line.find(',', split) - split);
  return key;
}

std::optional<RowKey> json_key(const std::string& line) {
  const Json row = Json::parse(line, nullptr, false);
  if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer() ||
      !row.contains("split") || !row["split"].is_string()) {
    return std::nullopt;
  }
  return RowKey{row["step"].get<std::int64_t>(), row["split"].get<std::string>()};
}

bool is_header(const std::string& line) {
  return line == kHeader || line == std::string(kHeader) + kStaleness;
}

// Whether the file has the columns that only runs with servers have.
bool has_staleness(const Path& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) && line == std::string(kHeader) + kStaleness;
}

// One of the two files. Each row is flushed: a kill loses the row in writing and no other.
class RowFile {
 public:
  // Keeps the rows that a run from `first_step` on will not write again, with as many fields as
  // `header` has. The last line of a killed run, half-written, has no newline and goes. Throws
  // DataError when a line is none of ours.
  template <class KeyOf>
  RowFile(Path path, const std::string& header, std::int64_t first_step, const KeyOf& key_of)
      : path_(std::move(path)), newest_step_(first_step) {
    const std::string text = std::filesystem::exists(path_) ? read_text_file(path_) : "";
    std::string kept = header.empty() ? "" : header + '\n';
    std::int64_t number = 0;
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
         at = end + 1) {
      std::string line = text.substr(at, end - at);
      if (++number == 1 && !header.empty() && is_header(line)) continue;
      const std::optional<RowKey> key = key_of(line);
      if (!key) {
        throw DataError(concat(path_.string(), ":", number),
                        "is not a row of a run's metrics; move the file away to resume");
      }
      if (key->step > first_step) continue;
      // Of a part of the run that had no servers.
      while (count_commas(line) < count_commas(header)) line += ',';
      kept += line + '\n';
      if (key->step == first_step) present_.insert(key->split);
    }
    if (kept != text) write_file_atomic(path_, kept);
    file_.open(path_, std::ios::app);
    check();
  }

  // One row a step and split: a run that stops, or resumes after its end, evaluates again.
  void add(const RowKey& key, const std::string& line) {
    if (key.step != newest_step_) present_.clear();
    newest_step_ = key.step;
    if (!present_.insert(key.split).second) return;
    file_ << line << '\n';
    file_.flush();
    check();
  }

 private:
  void check() {
    if (!file_) throw DataError(path_.string(), "cannot be written; is the disk full?");
  }

  Path path_;
  std::int64_t newest_step_;
  std::set<std::string> present_;  // splits with a row of newest_step
  std::ofstream file_;
};

class MetricsFilesHook : public Hook {
 public:
  explicit MetricsFilesHook(const config::Duration& summary_every)
      : summary_every_(summary_every) {}

  std::string name() const override { return "metrics_files"; }

  void on_start(const RunInfo& info) override {
    total_steps_ = info.total_steps;
    every_.emplace(summary_every_, info.steps_per_epoch);
    const Path csv = info.dir / "metrics.csv";
    has_servers_ = !info.servers.empty();
    staleness_columns_ = has_servers_ || (info.first_step > 0 && has_staleness(csv));
    csv_.emplace(csv, concat(kHeader, staleness_columns_ ? kStaleness : ""), info.first_step,
                 csv_key);
    jsonl_.emplace(info.dir / "metrics.jsonl", "", info.first_step, json_key);
  }

  Request on_step(const Progress& p) override {
    window_.add(p);
    // Also at the end, but not where a run is interrupted: its rows are of the same steps as those
    // of a whole run. The first row after a resume averages the steps since then.
    if (every_->due(p.step, p.elapsed) || p.step == total_steps_) write_window();
    return Request::kContinue;
  }

  Request on_evaluation(const Evaluation& e) override {
    write({{"step", e.step},
           {"epoch", e.epoch},
           {"split", e.split},
           {"loss", e.metrics.loss},
           {"accuracy", e.metrics.accuracy},
           {"learning_rate", nullptr},
           {"images_per_second", nullptr},
           {"wait_share", nullptr},
           {"seconds", e.seconds}});
    return Request::kContinue;
  }

 private:
  void write_window() {
    Json row = {{"step", window_.last().step},
                {"epoch", window_.last().epoch},
                {"split", "train"},
                {"loss", rounded(window_.loss(), 9)},
                {"accuracy", rounded(window_.accuracy(), 9)},
                {"learning_rate", rounded(window_.last().learning_rate, 7)},
                {"images_per_second", window_.images_per_second()},
                {"wait_share", window_.wait_share()},
                {"seconds", window_.seconds()}};
    if (has_servers_) {
      row["staleness"] = window_.staleness();
      row["staleness_max"] = window_.staleness_max();
    }
    write(row);
    window_ = {};
  }

  // What is missing or not finite is null in JSON and nothing in a CSV field.
  void write(Json row) {
    if (staleness_columns_ && !row.contains("staleness")) {
      row["staleness"] = nullptr;
      row["staleness_max"] = nullptr;
    }
    const RowKey key{row["step"].get<std::int64_t>(), row["split"].get<std::string>()};
    std::string line;
    for (const auto& [column, value] : row.items()) {
      const std::string field = value.is_string() ? value.get<std::string>() : value.dump();
      if (column != "step") line += ',';
      if (field != "null") line += field;
    }
    csv_->add(key, line);
    jsonl_->add(key, row.dump());
  }

  config::Duration summary_every_;
  std::int64_t total_steps_ = 0;
  bool has_servers_ = false;
  bool staleness_columns_ = false;
  std::optional<Every> every_;
  std::optional<RowFile> csv_, jsonl_;
  Window window_;
};

}  // namespace

std::unique_ptr<Hook> make_metrics_files_hook(const config::Duration& summary_every) {
  return std::make_unique<MetricsFilesHook>(summary_every);
}

}  // namespace trainer::train

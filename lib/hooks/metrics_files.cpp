#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "hooks/formats/csv_columns.h"
#include "hooks/formats/row_file.h"
#include "hooks/hooks.h"
#include "hooks/summary_window.h"
#include "results/metrics.h"
#include "results/read_json.h"
#include "results/write_json.h"

namespace trainer::hooks {
namespace {

using results::kSplitKey;
using results::kStepKey;
using Json = nlohmann::ordered_json;
using Columns = std::vector<std::string>;

// Returns the columns of a row, in the order of the files.
Columns list_columns(const results::MetricsFileRow& row) {
  Columns columns;
  const Json json = results::to_json(row);
  for (const auto& [key, value] : json.items()) columns.push_back(key);
  return columns;
}

// Returns whether a row of any run has the column.
bool is_column(const std::string& name) {
  results::MetricsFileRow all;
  all.has_labels = all.has_ranks = all.has_servers = all.has_gaps = all.has_time = true;
  if (name.starts_with("gpu")) all.devices.push_back({name.substr(0, name.find('_')), {}, {}});
  const Columns known = list_columns(all);
  return std::ranges::find(known, name) != known.end();
}

struct CsvRows {
  CsvColumns columns;

  std::string header() const { return columns.header(); }
  bool is_header(const std::string& line) const { return columns.is_header(line); }
  std::optional<Row> operator()(const std::string& line) const {
    const auto fields = columns.fields(line);
    if (!fields || !fields->contains(kStepKey) || !fields->contains(kSplitKey)) return std::nullopt;
    const std::optional<std::int64_t> step = parse_integer(fields->at(kStepKey));
    if (!step) return std::nullopt;
    return Row{*step, fields->at(kSplitKey), columns.format_row(*fields)};
  }
};

struct JsonRows {
  std::string header() const { return ""; }
  bool is_header(const std::string&) const { return false; }
  std::optional<Row> operator()(const std::string& line) const {
    const auto key = results::find_in_line<results::RowKey>(line);
    return key ? std::optional(Row{key->step, key->split, line}) : std::nullopt;
  }
};

class MetricsFilesHook : public Hook {
 public:
  MetricsFilesHook(const config::Duration& summary_every, WallClock clock, RowFile::Warn warn)
      : window_(summary_every), clock_(std::move(clock)), warn_(std::move(warn)) {}

  std::string name() const override { return "metrics_files"; }
  std::string save() const override { return window_.save(); }
  void restore(const std::string& saved) override { window_.restore(saved); }

  void on_start(const RunInfo& info) override {
    window_.start(info);
    const Path csv = info.dir / "metrics.csv";
    empty_row_.has_labels = info.is_multi_label;
    empty_row_.has_ranks = info.ranks.size() > 1;
    empty_row_.has_servers = window_.has_servers();
    empty_row_.has_gaps = window_.has_gaps();
    empty_row_.devices = window_.devices();
    empty_row_.has_time = clock_ != nullptr;
    CsvColumns csv_columns(csv, list_columns(empty_row_), is_column);
    if (info.first_step > 0) csv_columns.add(csv_columns.found());
    columns_ = csv_columns.wanted();
    csv_.emplace(csv, info.first_step, CsvRows{csv_columns}, warn_);
    jsonl_.emplace(info.dir / "metrics.jsonl", info.first_step, JsonRows(), warn_);
  }

  Request on_step(const StepRecord& p) override {
    if (window_.add(p)) write_window();
    return Request::kContinue;
  }

  Request on_evaluation(const Evaluation& e) override {
    if (!window_.empty()) write_window();  // so that the evaluation has a row of the same step
    results::MetricsFileRow row = empty_row_;
    row.row = {e.step, e.epoch, e.split, e.metrics.loss, e.metrics.accuracy};
    row.row.seconds = e.seconds;
    if (e.metrics.top_k > 0) row.row.top_k_accuracy = e.metrics.top_k_accuracy;
    row.row.means = results::find_means(e.metrics);
    write(std::move(row));
    return Request::kContinue;
  }

  void before_checkpoint(std::int64_t) override {
    csv_->sync();
    jsonl_->sync();
  }

 private:
  void write_window() {
    const MetricWindow& steps = window_.steps();
    results::MetricsFileRow row = empty_row_;
    row.row = steps.make_row();
    row.times = steps.times();
    if (const auto straggler = steps.times().straggler()) row.straggler = straggler->rank;
    row.staleness = steps.staleness();
    row.staleness_max = steps.staleness_max();
    if (const auto gap = window_.take_gap()) row.gap_seconds = rounded(*gap, 6);
    row.devices = window_.take_uses();
    write(std::move(row));
    window_.clear();
  }

  // Writes a missing or not finite value as null in JSON and as an empty field in CSV.
  void write(results::MetricsFileRow row) {
    if (clock_) row.time = utc_time(clock_());
    const Json values = results::to_json(row);
    Json line;
    Columns fields;
    for (const std::string& column : columns_) {
      const Json value = values.contains(column) ? values.at(column) : Json();
      line[column] = value;
      const std::string field = value.is_string() ? value.get<std::string>() : value.dump();
      fields.push_back(field == "null" ? "" : field);
    }
    const std::string split = to_string(row.row.split);
    csv_->add({row.row.step, split, join(fields, ",")});
    jsonl_->add({row.row.step, split, line.dump()});
  }

  SummaryWindow window_;
  WallClock clock_;
  RowFile::Warn warn_;
  results::MetricsFileRow empty_row_;  // has the columns of the run
  Columns columns_;                    // of the CSV file
  std::optional<RowFile> csv_, jsonl_;
};

}  // namespace

std::unique_ptr<Hook> make_metrics_files_hook(const config::Duration& summary_every,
                                              WallClock clock,
                                              std::function<void(const std::string&)> warn) {
  return std::make_unique<MetricsFilesHook>(summary_every, std::move(clock), std::move(warn));
}

}  // namespace trainer::hooks

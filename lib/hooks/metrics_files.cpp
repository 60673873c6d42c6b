#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json_number.h"
#include "base/text.h"
#include "hooks/formats/csv_columns.h"
#include "hooks/formats/row_file.h"
#include "hooks/hooks.h"
#include "hooks/summary_window.h"
#include "results/metrics.h"
#include "results/write_json.h"

namespace trainer::hooks {
namespace {

using Json = nlohmann::ordered_json;

using Columns = std::vector<std::string>;

// The columns in the order of the files. After the metrics come the phases of a step, each the
// median over the ranks.
const Columns& columns() {
  static const Columns kColumns = [] {
    Columns all;
    const Json row = results::to_json(results::MetricsRow());
    for (const auto& [key, value] : row.items()) all.push_back(key);
    for (const engine::StepPhase phase : engine::kAllStepPhases) {
      all.push_back(engine::column_name(phase));
    }
    for (const char* metric : {"f1_macro", "f1_weighted", "balanced_accuracy", "auc"}) {
      all.emplace_back(metric);
    }
    return all;
  }();
  return kColumns;
}
// The next columns, of a run whose samples have several labels.
const Columns& label_columns() {
  static const Columns kColumns{"f1_micro", "subset_accuracy", "hamming_loss", "average_precision"};
  return kColumns;
}
// The next columns, of a run with several ranks: the smallest and largest time of the ranks.
const Columns& rank_columns() {
  static const Columns kColumns = [] {
    Columns all;
    for (const engine::StepPhase phase : engine::kAllStepPhases) {
      all.push_back(engine::column_name(phase) + "_min");
      all.push_back(engine::column_name(phase) + "_max");
    }
    all.emplace_back("straggler");
    return all;
  }();
  return kColumns;
}
// The next columns, of a run with parameter servers.
const Columns& server_columns() {
  static const Columns kColumns{"staleness", "staleness_max"};
  return kColumns;
}
// Returns the columns of every device that is measured, such as "gpu0_power_watts".
Columns device_columns(const std::vector<std::string>& devices) {
  Columns columns;
  for (const std::string& device : devices) {
    for (const engine::DeviceMetric& metric : engine::kDeviceMetrics) {
      columns.push_back(concat(device, "_", metric.name));
    }
    columns.push_back(concat(device, "_", engine::kDeviceEnergy));
  }
  return columns;
}
// The column after those of parameter servers, if devices have a clock: the mean gap between steps,
// in seconds.
constexpr char kGapColumn[] = "gap_seconds";
// The last column: the time at which the row was written.
constexpr char kTime[] = "time";
// Returns whether the name is one of device_columns() for any device.
bool is_device_column(const std::string& name) {
  const std::size_t end = name.find('_');
  if (end == std::string::npos || !name.starts_with("gpu")) return false;
  const Columns all = device_columns({name.substr(0, end)});
  return std::ranges::find(all, name) != all.end();
}

bool contains(const Columns& all, const std::string& name) {
  return std::ranges::find(all, name) != all.end();
}

bool is_column(const std::string& name) {
  return contains(columns(), name) || contains(label_columns(), name) ||
         contains(rank_columns(), name) || contains(server_columns(), name) || name == kGapColumn ||
         name == kTime || is_device_column(name);
}

struct CsvRows {
  CsvColumns columns;

  std::string header() const { return columns.header(); }
  bool is_header(const std::string& line) const { return columns.is_header(line); }
  std::optional<Row> operator()(const std::string& line) const {
    const auto fields = columns.fields(line);
    if (!fields || !fields->contains("step") || !fields->contains("split")) return std::nullopt;
    const std::optional<std::int64_t> step = parse_integer(fields->at("step"));
    if (!step) return std::nullopt;
    return Row{*step, fields->at("split"), columns.format_row(*fields)};
  }
};

struct JsonRows {
  std::string header() const { return ""; }
  bool is_header(const std::string&) const { return false; }
  std::optional<Row> operator()(const std::string& line) const {
    const Json row = Json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("step") || !row.contains("split") ||
        !row["split"].is_string()) {
      return std::nullopt;
    }
    const std::optional<std::int64_t> step = whole_number(row["step"]);
    if (!step) return std::nullopt;
    return Row{*step, row["split"].get<std::string>(), line};
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
    CsvColumns csv_columns(csv, columns(), is_column);
    if (info.is_multi_label) csv_columns.add(label_columns());
    if (info.ranks.size() > 1) csv_columns.add(rank_columns());
    if (window_.has_servers()) csv_columns.add(server_columns());
    if (window_.has_gaps()) csv_columns.add({kGapColumn});
    csv_columns.add(device_columns(window_.devices()));
    if (clock_) csv_columns.add({kTime});
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
    results::MetricsRow row{e.step, e.epoch, e.split, e.metrics.loss, e.metrics.accuracy};
    row.seconds = e.seconds;
    Json values = results::to_json(row);
    for (const auto& [key, value] : engine::named_metrics(e.metrics)) values[key] = value;
    write(row, std::move(values));
    return Request::kContinue;
  }

  void before_checkpoint(std::int64_t) override {
    csv_->sync();
    jsonl_->sync();
  }

 private:
  void write_window() {
    const MetricWindow& steps = window_.steps();
    const results::MetricsRow row{steps.last().step,
                                  steps.last().epoch,
                                  Split::kTrain,
                                  rounded(steps.loss(), 9),
                                  rounded(steps.accuracy(), 9),
                                  rounded(steps.last().learning_rate, 7),
                                  steps.images_per_second(),
                                  steps.wait_share(),
                                  steps.seconds(),
                                  steps.steps_per_second()};
    Json values = results::to_json(row);
    for (const auto& [column, seconds] : list_step_times(steps.times())) {
      values[column] = rounded(seconds, 6);
    }
    if (const auto straggler = steps.times().straggler()) values["straggler"] = straggler->rank;
    if (window_.has_servers()) {
      values["staleness"] = steps.staleness();
      values["staleness_max"] = steps.staleness_max();
    }
    if (const auto gap = window_.take_gap()) values[kGapColumn] = rounded(*gap, 6);
    for (const engine::DeviceUse& use : window_.take_uses()) {
      for (const auto& [name, value] : list_device_values(use)) {
        values[concat(use.device, "_", name)] = rounded(value, 9);
      }
    }
    write(row, std::move(values));
    window_.clear();
  }

  // Writes a missing or not finite value as null in JSON and as an empty field in CSV.
  void write(const results::MetricsRow& row, Json values) {
    if (clock_) values[kTime] = utc_time(clock_());
    Json line;
    Columns fields;
    for (const std::string& column : columns_) {
      const Json value = values.contains(column) ? values[column] : Json();
      line[column] = value;
      const std::string field = value.is_string() ? value.get<std::string>() : value.dump();
      fields.push_back(field == "null" ? "" : field);
    }
    csv_->add({row.step, to_string(row.split), join(fields, ",")});
    jsonl_->add({row.step, to_string(row.split), line.dump()});
  }

  SummaryWindow window_;
  WallClock clock_;
  RowFile::Warn warn_;
  Columns columns_;  // of the CSV file
  std::optional<RowFile> csv_, jsonl_;
};

}  // namespace

std::unique_ptr<Hook> make_metrics_files_hook(const config::Duration& summary_every,
                                              WallClock clock,
                                              std::function<void(const std::string&)> warn) {
  return std::make_unique<MetricsFilesHook>(summary_every, std::move(clock), std::move(warn));
}

}  // namespace trainer::hooks

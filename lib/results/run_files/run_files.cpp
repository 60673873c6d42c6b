#include "results/run_files/run_files.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/formats/csv.h"
#include "base/formats/json_member.h"
#include "base/formats/json_number.h"
#include "base/text.h"
#include "config/config.h"

namespace trainer::results {
namespace {

using SortedJson = nlohmann::json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double parse_real_or_none(const std::string& text) { return parse_real(text).value_or(kNone); }

// Returns the value of a key, or `otherwise` if it is absent, of another type or too large.
template <class T>
T get_or(const SortedJson& json, const char* key, T otherwise) {
  const auto found = json.find(key);
  if (found == json.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? printable(found->template get<T>()) : otherwise;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return whole_number(*found).value_or(otherwise);
  } else if constexpr (std::is_same_v<T, bool>) {
    return found->is_boolean() ? found->template get<T>() : otherwise;
  } else {
    return found->is_number() ? found->template get<T>() : otherwise;
  }
}

// The fields of a CSV file by column, one map a row; a last line without its end is left out.
class CsvFile {
 public:
  explicit CsvFile(const Path& path) : path_(path) {
    if (!std::filesystem::exists(path)) return;
    const std::string text = read_text_file(path);
    std::vector<std::string> lines = split_text(text, '\n');
    lines.pop_back();
    if (lines.empty()) return;
    columns_ = split_csv_row(lines.front());
    for (std::size_t i = 0; i < columns_.size(); ++i) places_.try_emplace(columns_[i], i);
    for (std::size_t i = 1; i < lines.size(); ++i) {
      rows_.push_back(split_csv_row(lines[i]));
      if (rows_.back().size() == columns_.size()) continue;
      throw DataError(concat(path.string(), ":", i + 1),
                      concat("has ", rows_.back().size(), " fields; expected ", columns_.size()));
    }
  }
  std::size_t size() const { return rows_.size(); }
  const std::vector<std::string>& columns() const { return columns_; }
  std::string operator()(std::size_t row, const std::string& column) const {
    const auto found = places_.find(column);
    return found == places_.end() ? "" : rows_[row][found->second];
  }
  std::int64_t step(std::size_t row) const {
    const auto step = parse_integer((*this)(row, "step"));
    if (step) return *step;
    throw DataError(concat(path_.string(), ":", row + 2), "has no number in the column step");
  }

 private:
  Path path_;
  std::vector<std::string> columns_;
  std::unordered_map<std::string, std::size_t> places_;  // by column
  std::vector<std::vector<std::string>> rows_;
};

// "gpu0_utilization"
bool is_of_device(const std::string& column) {
  constexpr std::size_t kMaxDigits = 4;
  if (!column.starts_with("gpu")) return false;
  const std::size_t end = column.find_first_not_of("0123456789", 3);
  return end != 3 && end <= 3 + kMaxDigits && column[end] == '_';
}

void read_metrics(const Path& path, RunFiles& run) {
  const CsvFile file(path);
  for (std::size_t i = 0; i < file.size(); ++i) {
    const auto real = [&](const std::string& column) {
      return parse_real_or_none(file(i, column));
    };
    for (const std::string& column : file.columns()) {
      if (!is_of_device(column) || !std::isfinite(real(column))) continue;
      run.devices[column].emplace_back(static_cast<double>(file.step(i)), real(column));
    }
    const std::optional<Split> split = parse_split(file(i, "split"));
    if (!split) continue;
    run.metrics.push_back({file.step(i), real("epoch"), *split, real("loss"), real("accuracy"),
                           real("learning_rate"), real("images_per_second"), real("wait_share"),
                           real("seconds"), real("auc")});
  }
}

// The largest count that is accepted, so that sums of counts do not overflow.
constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;

std::int64_t read_count(const std::string& text) {
  const std::int64_t count = parse_integer(text).value_or(0);
  return count >= 0 && count <= kMaxCount ? count : 0;
}

std::int64_t read_count(const SortedJson& json) {
  const std::optional<std::int64_t> count = whole_number(json);
  if (count && *count >= 0 && *count <= kMaxCount) return *count;
  throw std::range_error(concat("expected a number of samples, found ", json.type_name()));
}

std::int64_t read_count(const SortedJson& object, const char* key) {
  try {
    return read_count(member(object, key));
  } catch (const std::range_error& error) {
    throw std::range_error(concat(key, ": ", error.what()));
  }
}

std::vector<std::int64_t> read_row(const SortedJson& json) {
  if (!json.is_array()) throw std::range_error("expected a list of numbers of samples");
  std::vector<std::int64_t> counts;
  counts.reserve(json.size());
  for (const SortedJson& count : json) counts.push_back(read_count(count));
  return counts;
}

std::vector<std::int64_t> read_counts(const SortedJson& object, const char* key) {
  try {
    return read_row(member(object, key));
  } catch (const std::range_error& error) {
    throw std::range_error(concat(key, ": ", error.what()));
  }
}

// Reads a matrix whose rows are the true classes.
void read_confusion(const SortedJson& json, SplitResult& result) {
  if (!json.is_array()) throw std::range_error("confusion is not a matrix");
  const std::size_t classes = json.size();
  result.classes.assign(classes, {});
  for (std::size_t r = 0; r < classes; ++r) {
    const std::vector<std::int64_t> row = read_row(json[r]);
    if (row.size() != classes) {
      throw std::range_error(concat("the confusion matrix has ", classes, " rows, and row ", r + 1,
                                    " has ", row.size(), " numbers"));
    }
    for (std::size_t c = 0; c < classes; ++c) {
      if (row[c] == 0) continue;
      result.classes[r].support += row[c];
      result.classes[c].predicted += row[c];
      if (r == c) result.classes[r].correct = row[c];
      result.confusions.push_back(
          {static_cast<std::int64_t>(r), static_cast<std::int64_t>(c), row[c]});
    }
  }
  engine::keep_largest_confusions(result.confusions, result.confusions.size());
}

// Reads the counts that run.json has in place of a matrix of many classes.
void read_class_counts(const SortedJson& metrics, SplitResult& result) {
  const SortedJson& counts = metrics["class_counts"];
  const std::vector<std::int64_t> support = read_counts(counts, "support"),
                                  predicted = read_counts(counts, "predicted"),
                                  correct = read_counts(counts, "correct");
  if (predicted.size() != support.size() || correct.size() != support.size()) {
    throw std::range_error("the counts of the classes have different numbers of classes");
  }
  for (std::size_t i = 0; i < support.size(); ++i) {
    result.classes.push_back({support[i], predicted[i], correct[i]});
  }
  const auto classes = std::ssize(support);
  for (const SortedJson& entry : member(metrics, "top_confusions")) {
    const std::vector<std::int64_t> cell = read_row(entry);
    if (cell.size() != 3 || cell[0] >= classes || cell[1] >= classes) {
      throw std::range_error("an entry of top_confusions does not name two classes and a count");
    }
    result.confusions.push_back({cell[0], cell[1], cell[2]});
  }
}

// Reads the results of several labels.
void read_labels(const SortedJson& metrics, engine::MultiLabelMetrics& result) {
  if (!metrics["labels"].is_array()) throw std::range_error("labels is not a list");
  result.samples = read_count(metrics, "known_samples");
  result.exact = read_count(metrics, "exact");
  for (const SortedJson& json : metrics["labels"]) {
    engine::LabelResult& label = result.labels.emplace_back();
    label.positives = read_count(json, "positives");
    label.negatives = read_count(json, "negatives");
    label.true_positives = read_count(json, "true_positives");
    label.false_positives = read_count(json, "false_positives");
    label.auc = get_or(json, "auc", kNone);
    label.average_precision = get_or(json, "average_precision", kNone);
  }
}

void read_ledger(const Path& path, RunFiles& run) {
  const CsvFile file(path);
  for (std::size_t i = 0; i < file.size(); ++i) {
    const std::string parameters = file(i, "parameters");
    if (!parameters.empty()) {
      run.parameters[file.step(i)] = parameters;
      continue;
    }
    run.ledger.push_back({file.step(i), read_count(file(i, "samples")), file(i, "loss"),
                          file(i, "learning_rate"), file(i, "sample_ids"), file(i, "gradient_norm"),
                          parse_real(file(i, "seconds")).value_or(0),
                          parse_real(file(i, "wait_seconds")).value_or(0)});
  }
}

std::optional<double> read_rate(const SortedJson& json, const char* key) {
  const double rate = get_or(json, key, 0.0);
  return rate > 0 ? std::optional(rate) : std::nullopt;
}

Finished read_finished(const SortedJson& json) {
  Finished finished;
  finished.steps = get_or<std::int64_t>(json, "steps", 0);
  finished.reason = get_or<std::string>(json, "reason", "");
  finished.parameters_sha256 = get_or<std::string>(json, "parameters_sha256", "");
  finished.computing_features_rate = read_rate(json, "images_per_second_computing_features");
  finished.cached_features_rate = read_rate(json, "images_per_second_cached_features");
  for (const auto& [name, metrics] : member(json, "metrics").items()) {
    const std::optional<Split> split = parse_split(name);
    if (!split) continue;
    SplitResult& result = finished.splits[*split];
    result.loss = get_or(metrics, "loss", kNone);
    result.accuracy = get_or(metrics, "accuracy", kNone);
    result.count = get_or<std::int64_t>(metrics, "count", 0);
    result.correct = get_or<std::int64_t>(metrics, "correct", 0);
    if (metrics.contains("confusion")) {
      read_confusion(metrics["confusion"], result);
    } else if (metrics.contains("class_counts")) {
      read_class_counts(metrics, result);
    }
    if (metrics.contains("labels")) read_labels(metrics, result.multi_label);
  }
  return finished;
}

void read_step_times(const SortedJson& json, RunFiles& run) {
  std::vector<engine::RankTimes> means;
  run.ranks.clear();
  for (const SortedJson& rank : member(json, "ranks")) {
    run.ranks.push_back(get_or<std::string>(rank, "name", ""));
    engine::RankTimes& mean = means.emplace_back();
    for (const engine::StepPhase phase : engine::kAllStepPhases) {
      mean[phase] = get_or(rank, engine::column_name(phase).c_str(), 0.0);
    }
  }
  run.step_times.add(
      means, std::clamp<std::int64_t>(get_or<std::int64_t>(json, "steps", 0), 0, kMaxCount));
}

// Reads when and with which command the run was started.
void read_start(const SortedJson& session, RunFiles& run) {
  run.started = get_or<std::string>(session, "started", "");
  const auto command = session.find("command");
  if (command == session.end() || !command->is_array()) return;
  std::vector<std::string> words;
  for (const SortedJson& word : *command) {
    if (word.is_string()) words.push_back(printable(word.get<std::string>()));
  }
  // The folder of the program does not matter.
  if (!words.empty()) words.front() = Path(words.front()).filename().string();
  run.command = join(words, " ");
}

void read_data_notices(const SortedJson& json, RunFiles& run) {
  if (!json.contains("data_notices")) return;
  for (const SortedJson& one : json["data_notices"]) {
    const std::string text = get_or<std::string>(one, "text", "");
    if (text.empty()) continue;
    const bool is_note = get_or<std::string>(one, "kind", "") == "note";
    run.data_notices.push_back(is_note ? Notice::note(text) : Notice(text));
  }
}

void read_record(const SortedJson& json, RunFiles& run) {
  run.name = get_or<std::string>(json, "name", "");
  for (const char* key : {"program", "compiler", "libc", "host", "processor", "device"}) {
    run.origin.emplace_back(key, get_or<std::string>(json, key, ""));
  }
  run.origin.emplace_back("training data", get_or<std::string>(json, "data", ""));
  run.model = get_or<std::string>(json, "model", "");
  run.on_cpu = get_or(json, "on_cpu", true);
  if (json.contains("price_per_hour") && json["price_per_hour"].is_number()) {
    run.price_per_hour = json["price_per_hour"].get<double>();
  }
  run.classes = read_member<std::vector<std::string>>(json, "classes");
  for (std::string& name : run.classes) name = printable(name);
  run.replicas = get_or<std::int64_t>(json, "replicas", 1);
  run.global_batch = get_or<std::int64_t>(json, "global_batch", 0);
  if (json.contains("memory")) {
    for (const char* what :
         {"parameters and state", "gradients", "activations", "staging and tables"}) {
      run.memory.emplace_back(what, get_or<std::int64_t>(json["memory"], what, 0));
    }
  }
  for (const Split which : kSplits) {
    const std::string name = to_string(which);
    if (!json.contains("splits") || !json["splits"].contains(name)) continue;
    const SortedJson& split = json["splits"][name];
    run.splits.push_back(
        {which, get_or<std::int64_t>(split, "samples", 0), read_counts(split, "classes")});
  }
  read_data_notices(json, run);
  run.steps_per_epoch = get_or<std::int64_t>(json, "steps_per_epoch", 0);
  run.total_steps = get_or<std::int64_t>(json, "total_steps", 0);
  double joules = 0, images = 0;
  for (const SortedJson& session : member(json, "sessions")) {
    if (++run.sessions == 1) read_start(session, run);
    const double energy = get_or(session, "energy_joules", kNone);
    joules += energy;
    images += energy / get_or(session, "joules_per_image", kNone);
    run.wall_seconds += get_or(session, "seconds", 0.0);
    run.peak_memory_bytes =
        std::max(run.peak_memory_bytes, get_or<std::int64_t>(session, "peak_memory_bytes", 0));
    if (session.contains("step_times")) read_step_times(session["step_times"], run);
  }
  if (std::isfinite(images) && images > 0) run.joules_per_image = joules / images;
  if (run.sessions > 0 && !std::isnan(joules)) run.energy_joules = joules;
  if (const auto best = json.find("best"); best != json.end() && best->is_object()) {
    run.best = {get_or<std::string>(*best, "metric", ""), get_or(*best, "value", kNone),
                get_or(*best, "epoch", kNone), get_or<std::int64_t>(*best, "step", 0),
                get_or(*best, "restored", false)};
  }
  if (json.contains("finished")) run.finished = read_finished(json["finished"]);
}

// Returns the metrics of a split at the step of the best checkpoint, if that is of this split.
std::optional<SplitResult> read_best_result(const RunFiles& run, Split split, std::int64_t count) {
  if (!run.best || !run.best->metric.starts_with(concat(to_string(split), '/'))) {
    return std::nullopt;
  }
  for (const MetricsRow& row : run.metrics) {
    if (row.split != split || row.step != run.best->step) continue;
    SplitResult result;
    result.loss = row.loss;
    result.accuracy = row.accuracy;
    result.count = count;
    const double correct = row.accuracy * static_cast<double>(count);
    result.correct = std::isfinite(correct) ? std::llround(correct) : 0;
    return result;
  }
  return std::nullopt;
}

}  // namespace

RunFiles read_run(const Path& folder) {
  RunFiles run;
  run.folder = folder;
  const Path record = folder / "run.json";
  if (!std::filesystem::exists(record)) {
    throw DataError(
        folder.string(),
        "holds no run.json: expected the folder of a run, as `trainer train` leaves it");
  }
  try {
    read_record(SortedJson::parse(read_text_file(record)), run);
  } catch (const SortedJson::exception& error) {
    throw DataError(printable(record.string()), concat("is damaged: ", describe_json_error(error)));
  } catch (const std::range_error& error) {
    throw DataError(printable(record.string()), concat("is damaged: ", error.what()));
  }
  const Path config = folder / "config.yaml";
  if (std::filesystem::exists(config)) {
    run.config = config::leaves(
        config::parse_recorded_config(read_text_file(config), config.string()).config);
  }
  read_metrics(folder / "metrics.csv", run);
  read_ledger(folder / "ledger.csv", run);
  return run;
}

bool is_finished(const Path& folder) {
  const Path record = folder / "run.json";
  if (!std::filesystem::exists(record)) return false;
  const SortedJson json = SortedJson::parse(read_text_file(record), nullptr, false);
  return json.is_object() && json.contains("finished");
}

StepTotals total_steps(const RunFiles& run) {
  StepTotals totals;
  for (const LedgerRow& row : run.ledger) {
    totals.seconds += row.seconds;
    totals.wait_seconds += row.wait_seconds;
    totals.samples += static_cast<double>(row.samples);
  }
  if (!run.ledger.empty()) return totals;
  for (const MetricsRow& row : run.metrics) {
    if (row.split != Split::kTrain) continue;
    if (std::isfinite(row.seconds)) totals.seconds += row.seconds;
    if (std::isfinite(row.wait_share)) totals.wait_seconds += row.seconds * row.wait_share;
    if (std::isfinite(row.images_per_second)) totals.samples += row.images_per_second * row.seconds;
  }
  return totals;
}

double images_per_second(const RunFiles& run) {
  if (run.finished && run.finished->cached_features_rate) {
    return *run.finished->cached_features_rate;
  }
  const StepTotals totals = total_steps(run);
  return totals.seconds > 0 ? totals.samples / totals.seconds : 0;
}

std::optional<Split> scored_split(const RunFiles& run) {
  if (!run.finished) return std::nullopt;
  for (const Split split : {Split::kTest, Split::kValidation}) {
    if (run.finished->splits.contains(split)) return split;
  }
  return std::nullopt;
}

const char* to_string(ScoredCheckpoint checkpoint) {
  return checkpoint == ScoredCheckpoint::kBest ? "best" : "last";
}

std::optional<ScoredResult> find_scored_result(const RunFiles& run, ScoredCheckpoint preferred) {
  const std::optional<Split> split = scored_split(run);
  if (!split) return std::nullopt;
  const SplitResult& last = run.finished->splits.at(*split);
  if (preferred == ScoredCheckpoint::kBest) {
    if (const auto best = read_best_result(run, *split, last.count)) {
      return ScoredResult{*split, ScoredCheckpoint::kBest, *best};
    }
  }
  return ScoredResult{*split, ScoredCheckpoint::kLast, last};
}

std::optional<double> seconds_to_accuracy(const RunFiles& run, double accuracy) {
  double seconds = 0;
  auto step = run.ledger.begin();
  for (const MetricsRow& row : run.metrics) {
    for (; step != run.ledger.end() && step->step <= row.step; ++step) seconds += step->seconds;
    const bool trains = row.split == Split::kTrain;
    if (std::isfinite(row.seconds) && (!trains || run.ledger.empty())) seconds += row.seconds;
    if (!trains && row.accuracy >= accuracy) return seconds;
  }
  return std::nullopt;
}

std::optional<double> cost(const RunFiles& run, double seconds) {
  if (!run.price_per_hour) return std::nullopt;
  const double devices = run.on_cpu ? 1 : static_cast<double>(run.replicas);
  return *run.price_per_hour * devices * seconds / 3600;
}

}  // namespace trainer::results

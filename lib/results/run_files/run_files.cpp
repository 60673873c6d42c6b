#include "results/run_files/run_files.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "base/files/random_access_file.h"
#include "base/formats/csv.h"
#include "base/text.h"
#include "config/config.h"
#include "results/read_json.h"

namespace trainer::results {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Returns the first line of a file, and whole lines at its end of at most kNewestBytes.
std::string read_newest_lines(const Path& path) {
  constexpr std::uint64_t kNewestBytes = 64 << 10, kMaxHeaderBytes = 4 << 10;
  const RandomAccessFile file(path);
  const auto read = [&](std::uint64_t offset, std::uint64_t size) {
    Bytes bytes(size);
    file.read(offset, bytes);
    return std::string(bytes.begin(), bytes.end());
  };
  if (file.size() <= kNewestBytes + kMaxHeaderBytes) return read(0, file.size());
  std::string text = read(0, kMaxHeaderBytes);
  const std::string newest = read(file.size() - kNewestBytes, kNewestBytes);
  text.resize(std::min(text.find('\n'), text.size()));
  return text + newest.substr(std::min(newest.find('\n'), newest.size()));
}

double parse_real_or_none(const std::string& text) { return parse_real(text).value_or(kNone); }

// The fields of a CSV file by column, one map a row; a last line without its end is left out.
class CsvFile {
 public:
  explicit CsvFile(const Path& path, LedgerRows rows = LedgerRows::kAll) : path_(path) {
    if (!std::filesystem::exists(path)) return;
    const std::string text =
        rows == LedgerRows::kAll ? read_text_file(path) : read_newest_lines(path);
    std::vector<std::string> lines = split_text(text, '\n');
    lines.pop_back();
    if (lines.empty()) return;
    columns_ = split_csv_row(lines.front());
    for (std::size_t i = 0; i < columns_.size(); ++i) places_.try_emplace(columns_[i], i);
    for (std::size_t i = 1; i < lines.size(); ++i) {
      rows_.push_back(split_csv_row(lines[i]));
      if (rows_.back().size() == columns_.size()) continue;
      throw DataError(concat(path.string(), ":", i + 1), "has ", rows_.back().size(),
                      " fields; expected ", columns_.size());
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
    if (split == Split::kTrain) run.straggler = parse_integer(file(i, "straggler"));
    run.metrics.push_back({file.step(i),
                           real("epoch"),
                           *split,
                           real("loss"),
                           real("accuracy"),
                           real("learning_rate"),
                           real("images_per_second"),
                           real("wait_share"),
                           real("seconds"),
                           real("steps_per_second"),
                           real("top_k_accuracy"),
                           {.auc = real("auc")}});
  }
}

// The largest count that is accepted, so that sums of counts do not overflow.
constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;

std::int64_t read_count(const std::string& text) {
  const std::int64_t count = parse_integer(text).value_or(0);
  return count >= 0 && count <= kMaxCount ? count : 0;
}

// Reads a matrix whose rows are the true classes.
void read_confusion(const std::vector<std::vector<std::int64_t>>& rows, SplitResult& result) {
  const std::size_t classes = rows.size();
  result.classes.assign(classes, {});
  for (std::size_t r = 0; r < classes; ++r) {
    if (rows[r].size() != classes) {
      throw std::range_error(concat("the confusion matrix has ", classes, " rows, and row ", r + 1,
                                    " has ", rows[r].size(), " numbers"));
    }
    for (std::size_t c = 0; c < classes; ++c) {
      const std::int64_t count = rows[r][c];
      if (count == 0) continue;
      result.classes[r].support += count;
      result.classes[c].predicted += count;
      if (r == c) result.classes[r].correct = count;
      result.confusions.push_back(
          {static_cast<std::int64_t>(r), static_cast<std::int64_t>(c), count});
    }
  }
  engine::keep_largest_confusions(result.confusions, result.confusions.size());
}

// Reads the counts that run.json has in place of a matrix of many classes.
void read_class_counts(const SplitMetrics& metrics, SplitResult& result) {
  const auto& [support, predicted, correct] = *metrics.class_counts;
  if (predicted.size() != support.size() || correct.size() != support.size()) {
    throw std::range_error("class_counts has different numbers of classes");
  }
  for (std::size_t i = 0; i < support.size(); ++i) {
    result.classes.push_back({support[i], predicted[i], correct[i]});
  }
  if (!metrics.confusion.top) throw std::range_error("lacks the key top_confusions");
  const auto classes = std::ssize(support);
  for (const std::vector<std::int64_t>& cell : *metrics.confusion.top) {
    if (cell.size() != 3 || cell[0] >= classes || cell[1] >= classes) {
      throw std::range_error("an entry of top_confusions does not name two classes and a count");
    }
    result.confusions.push_back({cell[0], cell[1], cell[2]});
  }
}

SplitResult read_split(const SplitMetrics& metrics) {
  SplitResult result;
  result.loss = metrics.loss;
  result.accuracy = metrics.accuracy;
  result.count = metrics.count;
  result.correct = metrics.correct.value_or(0);
  if (metrics.confusion.matrix) {
    read_confusion(*metrics.confusion.matrix, result);
  } else if (metrics.class_counts) {
    read_class_counts(metrics, result);
  }
  result.multi_label.labels = metrics.labels;
  result.multi_label.samples = metrics.known_samples.value_or(0);
  result.multi_label.exact = metrics.exact.value_or(0);
  return result;
}

void read_ledger(const Path& path, LedgerRows rows, RunFiles& run) {
  const CsvFile file(path, rows);
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

void read_step_times(const StepMeans& times, RunFiles& run) {
  std::vector<engine::RankTimes> means;
  run.ranks.clear();
  for (const RankMeans& rank : times.ranks) {
    run.ranks.push_back(rank.name);
    means.push_back(rank.times);
  }
  run.step_times.add(means, times.steps);
}

// Reads when and with which command the run was started.
void read_start(const RunSession& session, RunFiles& run) {
  run.started = session.started;
  std::vector<std::string> words = session.command;
  // The folder of the program does not matter.
  if (!words.empty()) words.front() = Path(words.front()).filename().string();
  run.command = join(words, " ");
}

void read_sessions(RunFiles& run) {
  double joules = 0, images = 0;
  if (!run.sessions.empty()) read_start(run.sessions.front(), run);
  for (const RunSession& session : run.sessions) {
    const double energy = session.energy_joules.value_or(kNone);
    joules += energy;
    images += energy / session.joules_per_image.value_or(kNone);
    run.wall_seconds += session.seconds;
    run.peak_memory_bytes = std::max(run.peak_memory_bytes, session.peak_memory_bytes);
    if (session.step_times) read_step_times(*session.step_times, run);
  }
  if (std::isfinite(images) && images > 0) run.joules_per_image = joules / images;
  if (!run.sessions.empty() && !std::isnan(joules)) run.energy_joules = joules;
}

// Sets what follows from the record.
void read_record(RunFiles& run) {
  run.origin = {{"program", run.program},   {"compiler", run.compiler},   {"libc", run.libc},
                {"host", run.host},         {"processor", run.processor}, {"device", run.device},
                {"training data", run.data}};
  read_sessions(run);
  if (!run.finished) return;
  for (const auto& [name, metrics] : run.finished->metrics) {
    if (const auto split = parse_split(name)) run.results[*split] = read_split(metrics);
  }
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

RunFiles read_run(const Path& folder, LedgerRows rows) {
  std::optional<RunRecord> record = read_run_record(folder, RecordTexts::kPrintable);
  if (!record) {
    throw DataError(
        folder.string(),
        "holds no run.json: expected the folder of a run, as `trainer train` leaves it");
  }
  RunFiles run;
  static_cast<RunRecord&>(run) = *std::move(record);
  run.folder = folder;
  try {
    read_record(run);
  } catch (const std::range_error& error) {
    throw DataError((folder / kRunRecordFile).string(), "is damaged: ", error.what());
  }
  const Path config = folder / "config.yaml";
  if (std::filesystem::exists(config)) {
    run.config = config::leaves(
        config::parse_recorded_config(read_text_file(config), config.string()).config);
  }
  read_metrics(folder / "metrics.csv", run);
  read_ledger(folder / "ledger.csv", rows, run);
  run.warnings = read_run_warnings(folder);
  return run;
}

bool is_finished(const Path& folder) {
  try {
    const auto record = read_json_file({(folder / kRunRecordFile).string(), ""});
    return record && record->contains("finished");
  } catch (const DataError&) {
    return false;
  }
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
  if (run.finished && run.finished->rates.cached) {
    return *run.finished->rates.cached;
  }
  const StepTotals totals = total_steps(run);
  return totals.seconds > 0 ? totals.samples / totals.seconds : 0;
}

std::optional<Split> scored_split(const RunFiles& run) {
  if (!run.finished) return std::nullopt;
  for (const Split split : {Split::kTest, Split::kValidation}) {
    if (run.results.contains(split)) return split;
  }
  return std::nullopt;
}

std::optional<ScoredResult> find_scored_result(const RunFiles& run, CheckpointChoice preferred) {
  const std::optional<Split> split = scored_split(run);
  if (!split) return std::nullopt;
  const SplitResult& last = run.results.at(*split);
  if (preferred == CheckpointChoice::kBest) {
    if (const auto best = read_best_result(run, *split, last.count)) {
      return ScoredResult{*split, CheckpointChoice::kBest, *best};
    }
  }
  return ScoredResult{*split, CheckpointChoice::kLast, last};
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

// Writes ledger.csv, which records every step, so that two runs can be compared step by step. Rows
// after kDenseSteps steps stand for several steps: they have the samples and times of these, the
// sum of their sample hashes, and the loss, learning rate and gradient norm of the last one.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "hooks/csv_columns.h"
#include "hooks/hooks.h"
#include "hooks/interval.h"
#include "hooks/row_file.h"

namespace trainer::hooks {
namespace {

const std::vector<std::string> kLedgerColumns{"step",          "samples",      "loss",
                                              "learning_rate", "sample_ids",   "gradient_norm",
                                              "seconds",       "wait_seconds", "parameters"};
constexpr std::int64_t kDenseSteps = 1 << 17;  // about 13 MB
constexpr double kFlushSeconds = 0.25;  // a write per step would be slow where steps are short

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

// Rounds to nine digits, because the last bits depend on the number of threads that summed.
std::string norm_text(double norm) {
  if (!std::isfinite(norm)) return "";
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", norm);
  return text;
}

std::string hexadecimal(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

struct LedgerRows {
  CsvColumns columns;

  std::string header() const { return columns.header(); }
  bool is_header(const std::string& line) const { return columns.is_header(line); }
  std::optional<Row> operator()(const std::string& line) const {
    const auto fields = columns.fields(line);
    if (!fields || !fields->contains("step") || !fields->contains("parameters")) {
      return std::nullopt;
    }
    const std::optional<std::int64_t> step = parse_integer(fields->at("step"));
    if (!step) return std::nullopt;
    const bool is_step = fields->at("parameters").empty();
    return Row{*step, is_step ? "step" : "parameters", columns.format_row(*fields)};
  }
};

class LedgerHook final : public Hook {
 public:
  LedgerHook(std::function<std::string()> parameters_hash, RowFile::Warn warn)
      : parameters_hash_(std::move(parameters_hash)), warn_(std::move(warn)) {}

  std::string name() const override { return "ledger"; }

  void on_start(const RunInfo& info) override {
    last_.step = written_ = info.first_step;
    const Path path = info.dir / "ledger.csv";
    const auto known = [](const std::string& name) {
      return std::find(kLedgerColumns.begin(), kLedgerColumns.end(), name) != kLedgerColumns.end();
    };
    file_.emplace(path, info.first_step, LedgerRows{CsvColumns(path, kLedgerColumns, known)},
                  warn_);
  }

  Request on_step(const Progress& p) override {
    samples_ += p.samples;
    seconds_ += p.step_seconds;
    wait_seconds_ += p.wait_seconds;
    sample_ids_ += p.sample_ids;
    has_ids_ = has_ids_ && p.sample_ids != 0;
    last_ = p;
    last_.ranks = {};
    const std::int64_t spacing = row_spacing(p.step, kDenseSteps);
    if (p.step / spacing == written_ / spacing) return Request::kContinue;
    write_row();
    if (p.elapsed - flushed_ >= kFlushSeconds) {
      file_->flush();
      flushed_ = p.elapsed;
    }
    return Request::kContinue;
  }

  // Writes the open row, so that a run that resumes here does not lose its steps from the sums.
  void before_checkpoint() override {
    if (last_.step != written_) write_row();
    file_->write({last_.step, "parameters",
                  concat(last_.step, ",,,,,,,,", parameters_hash_().substr(0, 16))});
    file_->sync();
  }

  void on_finish(const Finish&) override {
    if (last_.step != written_) write_row();
    file_->flush();
  }

 private:
  // Writes a row for all steps since the last row.
  void write_row() {
    const std::int64_t step = last_.step;
    file_->write(
        {step, "step",
         concat(step, ',', samples_, ',', number(last_.loss), ',', number(last_.learning_rate), ',',
                has_ids_ ? hexadecimal(sample_ids_) : "", ',', norm_text(last_.gradient_norm), ',',
                number(seconds_), ',', number(wait_seconds_), ',')});
    written_ = step;
    samples_ = 0;
    seconds_ = wait_seconds_ = 0;
    sample_ids_ = 0;
    has_ids_ = true;
  }

  std::function<std::string()> parameters_hash_;
  RowFile::Warn warn_;
  std::optional<RowFile> file_;
  Progress last_;             // the newest step
  std::int64_t written_ = 0;  // the step of the last row
  std::int64_t samples_ = 0;  // since the last row, like the members below
  double seconds_ = 0, wait_seconds_ = 0;
  std::uint64_t sample_ids_ = 0;
  bool has_ids_ = true;  // true if all steps have sample hashes
  double flushed_ = 0;   // Progress::elapsed at the last flush
};

}  // namespace

std::unique_ptr<Hook> make_ledger_hook(std::function<std::string()> parameters_hash,
                                       std::function<void(const std::string&)> warn) {
  return std::make_unique<LedgerHook>(std::move(parameters_hash), std::move(warn));
}

}  // namespace trainer::hooks

// Writes ledger.csv, which records every step, so that two runs can be compared step by step. Rows
// after kDenseSteps steps stand for several steps: they have the samples and times of these, the
// sum of their sample hashes, and the loss, learning rate and gradient norm of the last one. The
// sums since the last row are part of a checkpoint. The rows with the hashes of checkpoints become
// sparser in the same way, after kDenseHashes steps.
#include <cmath>
#include <sstream>

#include "base/formats/csv.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "hooks/formats/row_file.h"
#include "hooks/hooks.h"
#include "hooks/interval.h"

namespace trainer::hooks {
namespace {

constexpr char kLedgerHeader[] =
    "step,samples,loss,learning_rate,sample_ids,gradient_norm,seconds,wait_seconds,parameters";
constexpr std::int64_t kDenseSteps = 1 << 17;  // about 13 MB
constexpr std::int64_t kDenseHashes = 1 << 14;
constexpr double kFlushSeconds = 0.25;  // a write per step would be slow where steps are short

// Rounds to nine digits, because the last bits depend on the number of threads that summed.
std::string norm_text(double norm) { return std::isfinite(norm) ? significant(norm, 9) : ""; }

struct LedgerRows {
  std::string header() const { return kLedgerHeader; }
  bool is_header(const std::string& line) const { return line == kLedgerHeader; }
  std::optional<Row> operator()(const std::string& line) const {
    const std::vector<std::string> fields = split_csv_row(line);
    const std::optional<std::int64_t> step = parse_integer(fields.front());
    if (!step || fields.size() != split_csv_row(kLedgerHeader).size()) return std::nullopt;
    return Row{*step, fields.back().empty() ? "step" : "parameters", line};
  }
};

class LedgerHook final : public Hook {
 public:
  LedgerHook(std::function<std::string()> parameters_hash, RowFile::Warn warn)
      : parameters_hash_(std::move(parameters_hash)), warn_(std::move(warn)) {}

  std::string name() const override { return "ledger"; }

  void on_start(const RunInfo& info) override {
    last_.step = info.first_step;
    // The parameters before the first step have a row, those of a resumed step had theirs.
    hashed_ = info.first_step == 0 ? -1 : info.first_step;
    file_.emplace(info.dir / "ledger.csv", info.first_step, LedgerRows(), warn_);
    // The end of a run writes the open row, although its last checkpoint has the sums too. With
    // parameter servers, the sums may end at an earlier step than the checkpoint.
    const bool is_open = saved_step_ >= 0 && saved_step_ <= info.first_step &&
                         file_->newest_step("step") < saved_step_;
    if (!is_open) sums_ = {};
    written_ = is_open ? saved_step_ : info.first_step;
  }

  // Returns the sums of the open row, so that a run that resumes here does not lose its steps.
  std::string save() const override {
    if (sums_.samples == 0) return "";
    return concat(last_.step, ' ', sums_.samples, ' ', significant(sums_.seconds, 17), ' ',
                  significant(sums_.wait_seconds, 17), ' ', sums_.sample_ids, ' ', sums_.has_ids);
  }

  void restore(const std::string& saved) override {
    std::istringstream text(saved);
    text >> saved_step_ >> sums_.samples >> sums_.seconds >> sums_.wait_seconds >>
        sums_.sample_ids >> sums_.has_ids;
    if (!text) saved_step_ = -1;
  }

  Request on_step(const StepRecord& p) override {
    sums_.samples += p.samples;
    sums_.seconds += p.step_seconds;
    sums_.wait_seconds += p.wait_seconds;
    sums_.sample_ids += p.sample_ids;
    sums_.has_ids = sums_.has_ids && p.sample_ids != 0;
    last_ = p;
    last_.ranks = {};
    if (!needs_row(p.step, written_, kDenseSteps)) return Request::kContinue;
    write_row();
    if (p.elapsed - flushed_ >= kFlushSeconds) {
      file_->flush();
      flushed_ = p.elapsed;
    }
    return Request::kContinue;
  }

  void before_checkpoint(std::int64_t step) override {
    if (needs_row(step, hashed_, kDenseHashes)) {
      file_->write(
          {step, "parameters", concat(step, ",,,,,,,,", parameters_hash_().substr(0, 16))});
      hashed_ = step;
    }
    file_->sync();
  }

  void on_finish(const Finish&) override {
    if (sums_.samples > 0) write_row();
    file_->flush();
  }

 private:
  // The sums over the steps since the last row.
  struct Sums {
    std::int64_t samples = 0;
    double seconds = 0, wait_seconds = 0;
    std::uint64_t sample_ids = 0;
    bool has_ids = true;  // true if all steps have sample hashes
  };

  // Returns whether a multiple of the distance of rows lies between the step of the last row and
  // `step`.
  static bool needs_row(std::int64_t step, std::int64_t last_row, std::int64_t dense) {
    const std::int64_t spacing = row_spacing(step, dense);
    return last_row < 0 || step / spacing != last_row / spacing;
  }

  // Writes a row for all steps since the last row.
  void write_row() {
    const std::int64_t step = last_.step;
    file_->write({step, "step",
                  concat(step, ',', sums_.samples, ',', significant(last_.loss, 17), ',',
                         significant(last_.learning_rate, 17), ',',
                         sums_.has_ids ? to_hex(sums_.sample_ids, 16) : "", ',',
                         norm_text(last_.gradient_norm), ',', significant(sums_.seconds, 17), ',',
                         significant(sums_.wait_seconds, 17), ',')});
    written_ = step;
    sums_ = {};
  }

  std::function<std::string()> parameters_hash_;
  RowFile::Warn warn_;
  std::optional<RowFile> file_;
  StepRecord last_;           // the newest step
  std::int64_t written_ = 0;  // the step of the last row
  std::int64_t hashed_ = -1;  // the step of the last row with a hash
  Sums sums_;
  std::int64_t saved_step_ = -1;  // the step of the restored sums
  double flushed_ = 0;            // StepRecord::elapsed at the last flush
};

}  // namespace

std::unique_ptr<Hook> make_ledger_hook(std::function<std::string()> parameters_hash,
                                       std::function<void(const std::string&)> warn) {
  return std::make_unique<LedgerHook>(std::move(parameters_hash), std::move(warn));
}

}  // namespace trainer::hooks

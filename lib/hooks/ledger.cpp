// ledger.csv: what every step was, so that two runs can be compared step by step.
#include <cstdio>

#include "base/text.h"
#include "hooks/hooks.h"
#include "hooks/row_file.h"

namespace trainer::hooks {
namespace {

constexpr const char* kHeader =
    "step,samples,loss,learning_rate,sample_ids,seconds,wait_seconds,parameters";
constexpr double kFlushSeconds = 0.25;  // a write for every step would cost where steps are short

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string hexadecimal(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

struct LedgerRows {
  std::string header() const { return kHeader; }
  bool is_header(const std::string& line) const { return line == kHeader; }
  std::optional<Row> operator()(const std::string& line) const {
    const std::vector<std::string> fields = split_text(line, ',');
    const std::optional<std::int64_t> step = parse_integer(fields.front());
    if (fields.size() != 8 || !step) return std::nullopt;
    return Row{*step, fields.back().empty() ? "step" : "parameters", line};
  }
};

class LedgerHook final : public Hook {
 public:
  explicit LedgerHook(std::function<std::string()> parameters_hash)
      : parameters_hash_(std::move(parameters_hash)) {}

  std::string name() const override { return "ledger"; }

  void on_start(const RunInfo& info) override {
    step_ = info.first_step;
    file_.emplace(info.dir / "ledger.csv", info.first_step, LedgerRows());
  }

  Request on_step(const Progress& p) override {
    step_ = p.step;
    file_->write({p.step, "step",
                  concat(p.step, ',', p.samples, ',', number(p.loss), ',', number(p.learning_rate),
                         ',', p.sample_ids == 0 ? "" : hexadecimal(p.sample_ids), ',',
                         number(p.step_seconds), ',', number(p.wait_seconds), ',')});
    if (p.elapsed - flushed_ >= kFlushSeconds) {
      file_->flush();
      flushed_ = p.elapsed;
    }
    return Request::kContinue;
  }

  void on_checkpoint(const Path&) override {
    file_->add({step_, "parameters", concat(step_, ",,,,,,,", parameters_hash_().substr(0, 16))});
  }

  void on_finish(const Finish&) override { file_->flush(); }

 private:
  std::function<std::string()> parameters_hash_;
  std::optional<RowFile> file_;
  std::int64_t step_ = 0;
  double flushed_ = 0;  // Progress::elapsed then
};

}  // namespace

std::unique_ptr<Hook> make_ledger_hook(std::function<std::string()> parameters_hash) {
  return std::make_unique<LedgerHook>(std::move(parameters_hash));
}

}  // namespace trainer::hooks

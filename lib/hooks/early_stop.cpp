#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "config/sections/train.h"
#include "hooks/hooks.h"

namespace trainer::hooks {
namespace {

class EarlyStopHook : public Hook {
 public:
  explicit EarlyStopHook(const config::EarlyStop& options) : options_(options) {}

  std::string name() const override { return "early_stop"; }

  Request on_evaluation(const Evaluation& evaluation) override {
    const std::optional<double> value = find_metric(evaluation, options_.metric);
    // A run that is resumed at its end repeats an evaluation that was already counted.
    if (!value || evaluation.step == counted_) return Request::kContinue;
    counted_ = evaluation.step;
    count(*value);
    return has_stopped() ? Request::kStop : Request::kContinue;
  }

  bool has_stopped() const override { return waited_ >= options_.patience; }

  // Returns "STEP VALUE ...", the step of the last evaluation and the values of all, as hexadecimal
  // floats, which read back to the same bits. A resume judges them by the options that it has.
  std::string save() const override {
    if (counted_ < 0) return "";
    std::string text = std::to_string(counted_);
    for (const double value : values_) {
      char number[40];
      std::snprintf(number, sizeof number, " %a", value);
      text += number;
    }
    return text;
  }

  void restore(const std::string& text) override {
    std::vector<std::string> words = split_text(text, ' ');
    const bool has_history = is_count(words.front());
    if (!has_history && words.size() == 3) words = find_history(words);
    if (words.size() < 2 || !is_count(words.front())) fail(text);
    for (std::size_t i = 1; i < words.size(); ++i) {
      char* end = nullptr;
      const double value = std::strtod(words[i].c_str(), &end);
      if (words[i].empty() || *end != '\0') fail(text);
      count(value);
    }
    counted_ = std::stoll(words.front());
  }

 private:
  [[noreturn]] static void fail(const std::string& text) {
    throw DataError("checkpoint", "the state of early_stop is '" + text +
                                      "', expected the step of the last evaluation and the values "
                                      "of all");
  }

  static bool is_count(const std::string& word) {
    return !word.empty() && word.size() < 19 &&
           word.find_first_not_of("0123456789") == std::string::npos;
  }

  // Returns a history that has the result of "BEST WAITED STEP", the state that checkpoints had
  // before they kept all values, or nothing for another text. BEST is "none" without a value.
  static std::vector<std::string> find_history(const std::vector<std::string>& words) {
    constexpr std::int64_t kMaxWaited = 1'000'000;
    if (!is_count(words[1]) || !is_count(words[2]) || std::stoll(words[1]) > kMaxWaited) return {};
    const std::string best = words[0] == "none" ? "nan" : words[0];
    std::vector<std::string> history{words[2], best};
    const std::int64_t waited = std::stoll(words[1]) - (words[0] == "none" ? 1 : 0);
    for (std::int64_t i = 0; i < waited; ++i) history.push_back(best);
    return history;
  }

  void count(double value) {
    values_.push_back(value);
    if (improves(value)) {
      best_ = value;
      waited_ = 0;
    } else {
      ++waited_;
    }
  }

  // A value that is not a number never improves.
  bool improves(double value) const {
    if (!std::isfinite(value)) return false;
    if (!best_) return true;
    const double gain = larger_is_better(options_.metric) ? value - *best_ : *best_ - value;
    return gain > options_.min_delta;
  }

  config::EarlyStop options_;
  std::vector<double> values_;  // of all evaluations that were counted
  std::optional<double> best_;
  std::int64_t waited_ = 0;    // evaluations without improvement
  std::int64_t counted_ = -1;  // step of the last one that was counted
};

}  // namespace

std::unique_ptr<Hook> make_early_stop_hook(const config::EarlyStop& early_stop) {
  return std::make_unique<EarlyStopHook>(early_stop);
}

}  // namespace trainer::hooks

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
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
    if (improves(*value)) {
      best_ = value;
      waited_ = 0;
      return Request::kContinue;
    }
    ++waited_;
    return waited_ >= options_.patience ? Request::kStop : Request::kContinue;
  }

  // Returns "BEST WAITED STEP", with BEST as a hexadecimal float, which reads back to the same
  // bits, or "none".
  std::string save() const override {
    if (counted_ < 0) return "";
    char best[40] = "none";
    if (best_) std::snprintf(best, sizeof best, "%a", *best_);
    return concat(best, " ", waited_, " ", counted_);
  }

  void restore(const std::string& text) override {
    std::array<std::string, 3> words;
    std::istringstream in(text);
    for (std::string& word : words) std::getline(in, word, ' ');
    const auto& [best, waited, step] = words;
    char* end = nullptr;
    const double value = std::strtod(best.c_str(), &end);
    const bool number = !best.empty() && *end == '\0' && std::isfinite(value);
    const auto count = [](const std::string& word) {
      return !word.empty() && word.size() < 19 &&
             word.find_first_not_of("0123456789") == std::string::npos;
    };
    if ((!number && best != "none") || !count(waited) || !count(step) || !in.eof()) {
      throw DataError("checkpoint", "the state of early_stop is '" + text +
                                        "', expected a number or none, a count of evaluations and "
                                        "the step of the last");
    }
    best_ = number ? std::optional(value) : std::nullopt;
    waited_ = std::stoll(waited);
    counted_ = std::stoll(step);
  }

 private:
  // A value that is not a number never improves.
  bool improves(double value) const {
    if (!std::isfinite(value)) return false;
    if (!best_) return true;
    const double gain = larger_is_better(options_.metric) ? value - *best_ : *best_ - value;
    return gain > options_.min_delta;
  }

  config::EarlyStop options_;
  std::optional<double> best_;
  std::int64_t waited_ = 0;    // evaluations without improvement
  std::int64_t counted_ = -1;  // step of the last one that was counted
};

}  // namespace

std::unique_ptr<Hook> make_early_stop_hook(const config::EarlyStop& early_stop) {
  return std::make_unique<EarlyStopHook>(early_stop);
}

}  // namespace trainer::hooks

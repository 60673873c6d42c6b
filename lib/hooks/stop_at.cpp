#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "config/sections/train.h"
#include "hooks/hooks.h"

namespace trainer::hooks {
namespace {

class StopAtHook : public Hook {
 public:
  explicit StopAtHook(const config::StopAt& options) : options_(options) {}

  std::string name() const override { return "stop_at"; }

  Request on_evaluation(const Evaluation& evaluation) override {
    const std::optional<double> value = find_metric(evaluation, options_.metric);
    if (!value) return Request::kContinue;
    last_ = value;
    return has_stopped() ? Request::kStop : Request::kContinue;
  }

  bool has_stopped() const override {
    if (!last_) return false;
    return larger_is_better(options_.metric) ? *last_ >= options_.value : *last_ <= options_.value;
  }

  // Returns the value of the last evaluation as a hexadecimal float, which reads back to the same
  // bits.
  std::string save() const override {
    char text[40] = "";
    if (last_) std::snprintf(text, sizeof text, "%a", *last_);
    return text;
  }

  void restore(const std::string& text) override {
    char* end = nullptr;
    last_ = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') {
      throw DataError("checkpoint", "the state of stop_at is '" + text + "', expected a number");
    }
  }

 private:
  config::StopAt options_;
  std::optional<double> last_;
};

}  // namespace

std::unique_ptr<Hook> make_stop_at_hook(const config::StopAt& stop_at) {
  return std::make_unique<StopAtHook>(stop_at);
}

}  // namespace trainer::hooks

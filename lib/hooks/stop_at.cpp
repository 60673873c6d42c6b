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
    const bool reached =
        larger_is_better(options_.metric) ? *value >= options_.value : *value <= options_.value;
    return reached ? Request::kStop : Request::kContinue;
  }

 private:
  config::StopAt options_;
};

}  // namespace

std::unique_ptr<Hook> make_stop_at_hook(const config::StopAt& stop_at) {
  return std::make_unique<StopAtHook>(stop_at);
}

}  // namespace trainer::hooks

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/formats/table.h"
#include "config/config.h"
#include "hooks/hooks.h"

namespace trainer::hooks {
namespace {

constexpr std::int64_t kWindow = 20;  // steps whose mean loss is compared
constexpr double kFarAbove = 3;       // factor over the loss of guessing and the lowest mean
constexpr double kRise = 1.1;         // from the first to the last quarter of an epoch
constexpr double kNotable = 0.25;     // share of the loss of guessing; smaller losses fluctuate
constexpr std::int64_t kMinQuarterSteps = 8;

// Computes the mean losses of the quarters of an epoch.
class Quarters {
 public:
  // Adds the loss of a step. Returns whether an epoch ends here whose loss rose in every quarter.
  bool add(std::int64_t step, std::int64_t per_epoch, double loss) {
    if (per_epoch < 4 * kMinQuarterSteps) return false;
    const std::int64_t at = (step - 1) % per_epoch;
    if (at == 0) *this = {};
    const std::size_t quarter = 4 * at / per_epoch;
    sums_[quarter] += loss;
    ++counts_[quarter];
    if (at + 1 < per_epoch) return false;
    if (counts_[0] == 0) return false;  // the run was resumed within this epoch
    bool rises = mean(3) > kRise * mean(0);
    for (std::size_t i = 1; i < 4; ++i) rises = rises && mean(i) > mean(i - 1);
    return rises;
  }
  double mean(std::size_t i) const { return sums_[i] / static_cast<double>(counts_[i]); }

 private:
  std::array<double, 4> sums_{};
  std::array<std::int64_t, 4> counts_{};
};

class DivergenceHook : public Hook {
 public:
  DivergenceHook(const config::Config& config, std::function<void(const std::string&)> warn)
      : loss_(config.model.loss),
        focal_(config.model.focal),
        stops_(config.train.stop_on_divergence),
        warn_(std::move(warn)) {
    if (!config.train.class_weight) return;
    for (const auto& [name, weight] : config.train.class_weight->weights) {
      largest_weight_ = std::max(largest_weight_, weight);
    }
  }

  std::string name() const override { return "divergence"; }

  void on_start(const RunInfo& info) override {
    per_epoch_ = info.steps_per_epoch;
    guessing_ = info.largest_weight * loss_of_guessing(info.classes.size());
  }

  Request on_step(const Progress& p) override {
    if (has_warned_ || guessing_ == 0 || !std::isfinite(p.loss)) return Request::kContinue;
    if (lowest_ < 0) lowest_ = p.loss;
    const bool rose =
        quarters_.add(p.step, per_epoch_, p.loss) && quarters_.mean(3) > kNotable * guessing_;
    sum_ += p.loss;
    if (++count_ == kWindow) {
      const double mean = sum_ / static_cast<double>(kWindow);
      if (mean > kFarAbove * std::max(guessing_, lowest_)) {
        warn_of_divergence(concat("the training loss diverges: its mean over the last ", kWindow,
                                  " steps is ", fixed(mean, 3), " at step ", p.step,
                                  ", where guessing gives ", fixed(guessing_, 3),
                                  " and it has been ", fixed(lowest_, 3)));
        return Request::kContinue;
      }
      lowest_ = std::min(lowest_, mean);
      sum_ = 0;
      count_ = 0;
    }
    if (rose) {
      warn_of_divergence(concat("the training loss rose through the whole epoch that ends at step ",
                                p.step, ", from ", fixed(quarters_.mean(0), 3), " to ",
                                fixed(quarters_.mean(3), 3)));
    }
    return Request::kContinue;
  }

  // Returns "LOWEST WARNED", with LOWEST as a hexadecimal float, which reads back to the same bits,
  // and WARNED 0 or 1.
  std::string save() const override {
    if (lowest_ < 0) return "";
    char text[48];
    std::snprintf(text, sizeof text, "%a %d", lowest_, has_warned_ ? 1 : 0);
    return text;
  }
  void restore(const std::string& text) override {
    char* end = nullptr;
    const double lowest = std::strtod(text.c_str(), &end);
    const std::string rest = end;
    if (!std::isfinite(lowest) || lowest < 0 || (rest != " 0" && rest != " 1")) {
      throw DataError("checkpoint", concat("the state of divergence is '", text,
                                           "', expected a loss and 0 or 1"));
    }
    lowest_ = lowest;
    has_warned_ = rest == " 1";
  }

 private:
  // Returns the loss of a model that gives all classes the same chance; 0 if there is no such loss.
  double loss_of_guessing(std::size_t classes) const {
    if (loss_ == LossKind::kBinaryCrossEntropy) return weighted_cross_entropy(0.5, 1);
    if (loss_ == LossKind::kSoftmaxCrossEntropy && classes > 1) {
      return weighted_cross_entropy(1 / static_cast<double>(classes), 0.25);
    }
    return 0;
  }
  // Returns the loss of a sample whose true class has this chance, with the largest class weight.
  double weighted_cross_entropy(double chance, double alpha) const {
    const double loss = -largest_weight_ * std::log(chance);
    if (!focal_) return loss;
    return loss * focal_->alpha.value_or(alpha) * std::pow(1 - chance, focal_->gamma);
  }

  void warn_of_divergence(const std::string& what) {
    has_warned_ = true;
    const std::string text =
        what +
        ". Usual remedies: a lower learning rate, schedule.warm_up, optimizer.global_clip_norm, "
        "data.normalize that brings pixels to about [-1, 1]";
    if (stops_) throw CheckError(text + " (train.stop_on_divergence)");
    warn_(text);
  }

  LossKind loss_;
  std::optional<config::Focal> focal_;
  double largest_weight_ = 1;
  bool stops_;
  std::function<void(const std::string&)> warn_;
  std::int64_t per_epoch_ = 1;
  double guessing_ = 0;
  double lowest_ = -1;  // of the first step and of all windows since; negative: none yet
  double sum_ = 0;
  std::int64_t count_ = 0;  // steps in the sum
  bool has_warned_ = false;
  Quarters quarters_;
};

}  // namespace

std::unique_ptr<Hook> make_divergence_hook(const config::Config& config,
                                           std::function<void(const std::string&)> warn) {
  return std::make_unique<DivergenceHook>(config, std::move(warn));
}

}  // namespace trainer::hooks

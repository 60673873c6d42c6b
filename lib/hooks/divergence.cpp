#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/formats/table.h"
#include "config/config.h"
#include "hooks/hooks.h"

namespace trainer::hooks {
namespace {

constexpr std::int64_t kWindow = 20;   // steps whose mean loss is compared
constexpr double kFarAbove = 3;        // factor over the loss of guessing and the lowest mean
constexpr double kRise = 1.1;          // from the mean of an epoch to that of the next one
constexpr double kStandardErrors = 7;  // of the difference of both means, which the rise exceeds
constexpr double kNotable = 0.25;      // share of the loss of guessing; smaller losses fluctuate
constexpr std::int64_t kMinEpochSteps = 32;

// Computes the mean of the losses of an epoch, and the variance of this mean if they are noise.
class EpochLoss {
 public:
  void add(double loss) {
    ++count_;
    const double from_mean = loss - mean_;
    mean_ += from_mean / static_cast<double>(count_);
    squares_ += from_mean * (loss - mean_);
  }
  std::int64_t count() const { return count_; }
  double mean() const { return mean_; }
  double variance_of_mean() const { return squares_ / static_cast<double>((count_ - 1) * count_); }

 private:
  std::int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // the sum of squared distances from the mean
};

// Returns whether the loss rose between two epochs by more than the spread of its steps explains.
bool rises(const EpochLoss& before, const EpochLoss& after) {
  if (std::min(before.count(), after.count()) < kMinEpochSteps) return false;
  const double spread = std::sqrt(before.variance_of_mean() + after.variance_of_mean());
  return after.mean() > kRise * before.mean() &&
         after.mean() - before.mean() > kStandardErrors * spread;
}

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

  Request on_step(const StepRecord& p) override {
    if (has_warned_ || guessing_ == 0 || !std::isfinite(p.loss)) return Request::kContinue;
    if (lowest_ < 0) lowest_ = p.loss;
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
    this_epoch_.add(p.loss);
    if (p.step / per_epoch_ != (p.step - p.steps) / per_epoch_) end_epoch(p.step);
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
      throw DataError("checkpoint", "the state of divergence is '", text,
                      "', expected a loss and 0 or 1");
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

  void end_epoch(std::int64_t step) {
    if (rises(last_epoch_, this_epoch_) && this_epoch_.mean() > kNotable * guessing_) {
      warn_of_divergence(
          concat("the training loss rises: its mean over the epoch that ends at step ", step,
                 " is ", fixed(this_epoch_.mean(), 3), ", and over the epoch before it was ",
                 fixed(last_epoch_.mean(), 3)));
    }
    last_epoch_ = std::exchange(this_epoch_, {});
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
  EpochLoss last_epoch_, this_epoch_;  // of the steps of this process
};

}  // namespace

std::unique_ptr<Hook> make_divergence_hook(const config::Config& config,
                                           std::function<void(const std::string&)> warn) {
  return std::make_unique<DivergenceHook>(config, std::move(warn));
}

}  // namespace trainer::hooks

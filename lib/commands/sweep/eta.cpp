#include "commands/sweep/eta.h"

#include <algorithm>
#include <iterator>

namespace trainer::commands {

void Eta::start(double now) {
  start_ = now;
  marks_.clear();
}

void Eta::advance(double share, double now) { marks_.push_back({share, now - start_}); }

void Eta::end(bool is_trained, double now) {
  --left_;
  if (!is_trained) return;
  double seconds = now - start_;
  if (const std::optional<double> next = predict_next(); next && count_ == 0) {
    // What the first point would have taken if its features had been known from the start.
    const double after_steps = seconds - marks_.back().seconds;
    seconds = std::min(seconds, *next + after_steps);
  }
  sum_ += seconds;
  ++count_;
}

std::optional<double> Eta::between() const {
  if (left_ == 0) return 0;
  if (count_ == 0) return std::nullopt;
  return sum_ / count_ * static_cast<double>(left_);
}

std::optional<double> Eta::within() const {
  const std::optional<double> speed = newer_speed();
  if (!speed) return std::nullopt;
  const double rest = (1 - marks_.back().share) / *speed;
  const double each = (sum_ + *predict_next()) / (count_ + 1);
  return rest + each * static_cast<double>(left_ - 1);
}

// Returns the share per second in the newer half of the steps so far.
std::optional<double> Eta::newer_speed() const {
  if (marks_.size() < 2) return std::nullopt;
  const Mark& now = marks_.back();
  const double middle = (marks_.front().share + now.share) / 2;
  const auto later = std::ranges::upper_bound(marks_, middle, {}, &Mark::share);
  const Mark& from = *std::prev(later);
  if (now.share <= from.share) return std::nullopt;
  constexpr double kShortest = 1e-9;
  return (now.share - from.share) / std::max(now.seconds - from.seconds, kShortest);
}

// Returns the seconds of a point like the present one whose features are known: those before its
// first step, and those of its steps at the newer speed.
std::optional<double> Eta::predict_next() const {
  const std::optional<double> speed = newer_speed();
  if (!speed) return std::nullopt;
  return marks_.front().seconds + 1 / *speed;
}

}  // namespace trainer::commands

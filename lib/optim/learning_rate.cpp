// Learning-rate schedules. `t` is the number of updates since the schedule began, as Keras counts.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "optim/optim.h"

namespace trainer::optim {
namespace {

// Returns the rate after t updates.
using Rate = std::function<double(double t)>;

constexpr double kPi = 3.14159265358979323846;

// The values that a schedule starts from.
struct Start {
  double base;
  const Length& length;
  double duration;  // updates of the training without the warm-up
};

double at_least_one(double steps) { return std::max(steps, 1.0); }

double steps_or(const std::optional<config::Duration>& duration, const Start& start) {
  return at_least_one(duration ? to_steps(*duration, start.length) : start.duration);
}

Rate rate(const config::ConstantSchedule&, const Start& start) {
  return [base = start.base](double) { return base; };
}

// base * factor^floor(t / every)
Rate rate(const config::StepSchedule& s, const Start& start) {
  const double every = at_least_one(to_steps(s.every, start.length));
  return
      [=, base = start.base](double t) { return base * std::pow(s.factor, std::floor(t / every)); };
}

// base * factor^(number of milestones that are reached), as PyTorch's MultiStepLR
Rate rate(const config::MilestonesSchedule& s, const Start& start) {
  std::vector<double> at;
  for (const config::Duration& each : s.at) at.push_back(to_steps(each, start.length));
  return [=, factor = s.factor, base = start.base](double t) {
    const auto reached = std::ranges::count_if(at, [t](double each) { return t >= each; });
    return base * std::pow(factor, static_cast<double>(reached));
  };
}

// base * decay_rate^(t / decay_every), the exponent rounded down with staircase
Rate rate(const config::ExponentialSchedule& s, const Start& start) {
  const double every = at_least_one(to_steps(s.decay_every, start.length));
  return [=, base = start.base](double t) {
    const double exponent = s.staircase ? std::floor(t / every) : t / every;
    return base * std::pow(s.decay_rate, exponent);
  };
}

// base * ((1 - alpha) * (1 + cos(pi t / decay_over)) / 2 + alpha)
Rate rate(const config::CosineSchedule& s, const Start& start) {
  const double over = steps_or(s.decay_over, start);
  return [=, alpha = s.alpha, base = start.base](double t) {
    const double cosine = 0.5 * (1 + std::cos(kPi * std::min(t, over) / over));
    return base * ((1 - alpha) * cosine + alpha);
  };
}

// Keras's CosineDecayRestarts: decay i begins at first (t_mul^i - 1) / (t_mul - 1), takes first *
// t_mul^i and goes from base * m_mul^i down to alpha * base.
Rate rate(const config::CosineRestartsSchedule& s, const Start& start) {
  const double first = at_least_one(to_steps(s.first_decay, start.length));
  return [=, base = start.base](double t) {
    double number = 0, place = t / first;  // index of the decay, and the share of it that is over
    if (s.t_mul == 1) {
      number = std::floor(place);
      place -= number;
    } else {
      const auto begin = [&](double i) { return (std::pow(s.t_mul, i) - 1) / (s.t_mul - 1); };
      number = std::floor(std::log(1 + place * (s.t_mul - 1)) / std::log(s.t_mul));
      // The logarithm of a power may be rounded to just below the exponent.
      if (place >= begin(number + 1) * (1 - 1e-12)) ++number;
      place = std::max(0.0, (place - begin(number)) / std::pow(s.t_mul, number));
    }
    const double cosine = 0.5 * std::pow(s.m_mul, number) * (1 + std::cos(kPi * place));
    return base * ((1 - s.alpha) * cosine + s.alpha);
  };
}

// The reductions depend on evaluations, not on progress; train/schedule/plateau.h applies them.
Rate rate(const config::ReduceOnPlateauSchedule&, const Start& start) {
  return [base = start.base](double) { return base; };
}

// (base - end) * (1 - t / decay_over)^power + end
Rate rate(const config::PolynomialSchedule& s, const Start& start) {
  const double over = steps_or(s.decay_over, start);
  return [=, end = s.end_learning_rate, power = s.power, base = start.base](double t) {
    return (base - end) * std::pow(1 - std::min(t, over) / over, power) + end;
  };
}

// PyTorch's OneCycleLR: the rate moves between its points linearly in t, or along a half cosine.
Rate rate(const config::OneCycleSchedule& s, const Start& start) {
  const double first = start.base / s.div_factor, last = first / s.final_div_factor;
  const double peak_at = s.rise * start.duration - 1, end = start.duration - 1;
  const bool bends = s.anneal == config::OneCycleSchedule::Anneal::kCosine;
  return [=, base = start.base](double t) {
    const auto between = [&](double from, double to, double share) {
      const double way = std::clamp(share, 0.0, 1.0);
      return from + (to - from) * (bends ? (1 - std::cos(kPi * way)) / 2 : way);
    };
    if (t <= peak_at) return between(first, base, peak_at > 0 ? t / peak_at : 1);
    return between(base, last, end > peak_at ? (t - peak_at) / (end - peak_at) : 1);
  };
}

double scaled_peak(const config::RampUpSchedule& s, int replicas) {
  switch (s.scale) {
    case config::RampUpSchedule::Scale::kNone:
      return s.peak;
    case config::RampUpSchedule::Scale::kLinear:
      return s.peak * replicas;
    case config::RampUpSchedule::Scale::kSqrt:
      return s.peak * std::sqrt(replicas);
  }
  return s.peak;
}

Rate rate(const config::RampUpSchedule& s, const Start& start) {
  const double peak = scaled_peak(s, start.length.replicas);
  const double per_epoch = start.length.steps_per_epoch;
  return [=](double t) {
    double epoch = t / per_epoch;
    if (s.by == config::RampUpSchedule::By::kEpoch) epoch = std::floor(epoch);
    if (epoch < s.ramp_epochs) return s.start + (peak - s.start) / s.ramp_epochs * epoch;
    const double after = epoch - s.ramp_epochs - s.sustain_epochs;
    if (after < 0) return peak;
    return (peak - s.floor) * std::pow(s.decay, after) + s.floor;
  };
}

}  // namespace

double to_steps(const config::Duration& duration, const Length& length) {
  switch (duration.unit) {
    case config::Duration::Unit::kSteps:
      return duration.count;
    case config::Duration::Unit::kEpochs:
      return duration.count * length.steps_per_epoch;
    case config::Duration::Unit::kSeconds:
      break;
  }
  throw std::logic_error("a schedule cannot be measured in seconds");
}

LearningRate learning_rate(const config::Schedule& schedule, double base, const Length& length) {
  const bool own_ramp = std::holds_alternative<config::RampUpSchedule>(schedule.kind);
  const bool warms = schedule.warm_up && !own_ramp;
  const double warm = warms ? to_steps(schedule.warm_up->over, length) : 0;
  const double factor = warms ? schedule.warm_up->start_factor : 1;
  const Start start{base, length, static_cast<double>(length.total_steps) - warm};
  const Rate after = std::visit([&](const auto& each) { return rate(each, start); }, schedule.kind);
  return [=](std::int64_t step) {
    const auto t = static_cast<double>(step);
    if (t < warm) return base * (factor + (1 - factor) * t / warm);
    return after(t - warm);
  };
}

}  // namespace trainer::optim

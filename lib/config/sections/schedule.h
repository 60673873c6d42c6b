// The section schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/spelling.h"
#include "config/sections/duration.h"

namespace trainer::config {

class FieldVisitor;

// The schedules, which give the learning rate as a function of progress. Rates that are left out
// are the optimizer's learning_rate.
struct ConstantSchedule {};
// lr * factor^floor(t / every)
struct StepSchedule {
  Duration every{1, Duration::Unit::kEpochs};
  double factor = 0.1;
};
// PyTorch MultiStepLR: lr * factor^(number of milestones reached)
struct MilestonesSchedule {
  std::vector<Duration> at;  // required
  double factor = 0.1;
};
struct ExponentialSchedule {
  Duration decay_every{1, Duration::Unit::kEpochs};
  double decay_rate = 0.9;
  bool staircase = false;
};
// Keras CosineDecay
struct CosineSchedule {
  std::optional<Duration> decay_over;  // the whole training when left out
  double alpha = 0;
};
// Keras CosineDecayRestarts: half a cosine is repeated, each time t_mul times as long as the one
// before and starting m_mul times as high.
struct CosineRestartsSchedule {
  Duration first_decay{1, Duration::Unit::kEpochs};  // required
  double t_mul = 2;
  double m_mul = 1;
  double alpha = 0;
};
// Keras PolynomialDecay
struct PolynomialSchedule {
  std::optional<Duration> decay_over;  // the whole training when left out
  double end_learning_rate = 1e-4;
  double power = 1;
};
// PyTorch OneCycleLR: from lr / div_factor up to lr over rise * length, then down to
// lr / div_factor / final_div_factor.
struct OneCycleSchedule {
  double rise = 0.3;  // share of the training; PyTorch's pct_start
  double div_factor = 25;
  double final_div_factor = 1e4;
  enum class Anneal { kCosine, kLinear } anneal = Anneal::kCosine;
};
// A ramp as in Martin Gorner's TPU notebooks: linear from start to peak over ramp_epochs, peak for
// sustain_epochs, then (peak - floor) * decay^(epoch - ramp - sustain) + floor.
struct RampUpSchedule {
  double start = 1e-5;
  double peak = 5e-5;
  double floor = 1e-5;
  double ramp_epochs = 5;
  double sustain_epochs = 0;
  double decay = 0.8;
  // kEpoch: the rate changes with whole epochs. kStep: it changes with every step.
  enum class By { kEpoch, kStep } by = By::kEpoch;
  // Scales the peak by the number of replicas.
  enum class Scale { kNone, kLinear, kSqrt } scale = Scale::kNone;
};
// Keras ReduceLROnPlateau: the rate is multiplied by factor when the metric has not improved by
// min_delta for `patience` evaluations. It is the only schedule that depends on results.
struct ReduceOnPlateauSchedule {
  std::string metric = "validation/loss";
  double factor = 0.1;
  std::int64_t patience = 10;
  double min_delta = 1e-4;
  std::int64_t cooldown = 0;  // evaluations after a reduction that are not counted
  double min_learning_rate = 0;
};
using ScheduleKind =
    std::variant<ConstantSchedule, StepSchedule, MilestonesSchedule, ExponentialSchedule,
                 CosineSchedule, CosineRestartsSchedule, PolynomialSchedule, OneCycleSchedule,
                 RampUpSchedule, ReduceOnPlateauSchedule>;
// A linear rise from lr * start_factor to lr.
struct WarmUp {
  Duration over{1, Duration::Unit::kEpochs};
  double start_factor = 0;
};
struct Schedule {
  ScheduleKind kind = ConstantSchedule{};
  // Precedes the schedule, whose own progress starts after it. Not with ramp_up.
  std::optional<WarmUp> warm_up;
  SourceLoc loc;
};

constexpr auto spellings(OneCycleSchedule::Anneal) {
  using enum OneCycleSchedule::Anneal;
  return std::to_array<Spelling<OneCycleSchedule::Anneal>>(
      {{kCosine, "cosine"}, {kLinear, "linear"}});
}
constexpr auto spellings(RampUpSchedule::By) {
  using enum RampUpSchedule::By;
  return std::to_array<Spelling<RampUpSchedule::By>>({{kEpoch, "epoch"}, {kStep, "step"}});
}
constexpr auto spellings(RampUpSchedule::Scale) {
  using enum RampUpSchedule::Scale;
  return std::to_array<Spelling<RampUpSchedule::Scale>>(
      {{kNone, "none"}, {kLinear, "linear"}, {kSqrt, "sqrt"}});
}
void fields(FieldVisitor& v, Schedule& s);

}  // namespace trainer::config

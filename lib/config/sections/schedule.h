// The section schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "config/sections/duration.h"
#include "config/spelling.h"

namespace trainer::config {

class FieldVisitor;

// Schedules: the learning rate as a function of progress. `peak`s and rates that are left out are
// the optimizer's learning_rate.
struct ConstantSchedule {};
struct StepSchedule {
  Duration every{1, Duration::Unit::kEpochs};
  double factor = 0.1;
};  // lr * factor^floor(t / every)
struct MilestonesSchedule {
  std::vector<Duration> at;  // required
  double factor = 0.1;
};  // PyTorch MultiStepLR: lr * factor^(number of milestones reached)
struct ExponentialSchedule {
  Duration decay_every{1, Duration::Unit::kEpochs};
  double decay_rate = 0.9;
  bool staircase = false;
};
struct CosineSchedule {
  std::optional<Duration> decay_over;
  double alpha = 0;
};  // Keras CosineDecay; the whole training when left out
// Keras CosineDecayRestarts: half a cosine, again and again, each t_mul times as long as the one
// before and starting m_mul times as high.
struct CosineRestartsSchedule {
  Duration first_decay{1, Duration::Unit::kEpochs};  // required
  double t_mul = 2;
  double m_mul = 1;
  double alpha = 0;
};
struct PolynomialSchedule {
  std::optional<Duration> decay_over;
  double end_learning_rate = 1e-4;
  double power = 1;
};  // Keras PolynomialDecay
// PyTorch OneCycleLR: from lr / div_factor up to lr over rise * length, then down to
// lr / div_factor / final_div_factor.
struct OneCycleSchedule {
  double rise = 0.3;  // share of the training; PyTorch's pct_start
  double div_factor = 25;
  double final_div_factor = 1e4;
  enum class Anneal { kCosine, kLinear } anneal = Anneal::kCosine;
};
// Article W (Martin Gorner's form), by epoch: linear from start to peak over ramp_epochs, peak for
// sustain_epochs, then (peak - floor) * decay^(epoch - ramp - sustain) + floor.
struct RampUpSchedule {
  double start = 1e-5;
  double peak = 5e-5;
  double floor = 1e-5;
  double ramp_epochs = 5;
  double sustain_epochs = 0;
  double decay = 0.8;
  enum class By {
    kEpoch,
    kStep
  } by = By::kEpoch;  // whether progress moves by whole epochs or by steps
  enum class Scale {
    kNone,
    kLinear,
    kSqrt
  } scale = Scale::kNone;  // of the peak, by the number of replicas
};
// Keras ReduceLROnPlateau: the rate is multiplied by factor when the metric of the evaluations has
// not improved by min_delta for `patience` of them. The only schedule that depends on results.
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
struct WarmUp {
  Duration over{1, Duration::Unit::kEpochs};
  double start_factor = 0;
};  // linear from lr * start_factor
struct Schedule {
  ScheduleKind kind = ConstantSchedule{};
  std::optional<WarmUp>
      warm_up;  // before any of them but ramp_up; the schedule's own progress starts after it
  SourceLoc loc;
};

template <>
const Spellings<OneCycleSchedule::Anneal>& spellings<OneCycleSchedule::Anneal>();
template <>
const Spellings<RampUpSchedule::By>& spellings<RampUpSchedule::By>();
template <>
const Spellings<RampUpSchedule::Scale>& spellings<RampUpSchedule::Scale>();
void fields(FieldVisitor& v, Schedule& s);

}  // namespace trainer::config

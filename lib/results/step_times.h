// The times of training steps by rank and phase, and the use of devices, as run.json and events
// have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/device_use.h"
#include "engine/step_times.h"
#include "results/field.h"

namespace trainer::results {

struct RankMeans {
  std::string name;         // "" if unknown
  engine::RankTimes times;  // mean seconds of a step
};
void fields(FieldVisitor& v, RankMeans& rank);

struct StepMeans {
  std::int64_t steps = 0;
  std::vector<RankMeans> ranks;
  std::optional<engine::Straggler> straggler;
};
// Returns the means, in six digits. `names` are the names of the ranks.
StepMeans make_step_means(const engine::StepTimes& times, const std::vector<std::string>& names);
void fields(FieldVisitor& v, StepMeans& means);

void fields(FieldVisitor& v, engine::Straggler& straggler);
void fields(FieldVisitor& v, engine::DeviceUse& use);

// The images per second of the steps that computed features of frozen layers, and of those that
// read cached ones; nothing without such steps.
struct FeatureRates {
  std::optional<double> computing, cached;
};
void fields(FieldVisitor& v, FeatureRates& rates);

}  // namespace trainer::results

// The values of a run that its config leaves open.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "commands/plan/device_plan.h"

namespace trainer::commands {

struct ResolvedValue {
  std::string value;   // the text that a config would have
  std::string origin;  // the source of the value: another key, "data", "machine" or "default"
};
using ResolvedValues = std::map<std::string, ResolvedValue>;  // keyed by config key

// The values that are the same on every machine.
ResolvedValues resolve(const config::Config& config, const PlannedData& data,
                       const std::optional<train::TrainingPlan>& steps,
                       const cluster::Identity& who);
// The values that this machine decides.
ResolvedValues resolve_on_machine(const config::Config& config, const DevicePlan& device);

// Replaces settings that are null, [] or "" by these values.
void fill_in(std::vector<PlanReport::Setting>& settings, const ResolvedValues& values);

}  // namespace trainer::commands

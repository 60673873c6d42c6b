// The order in which `new` takes backbones whose weights are on this machine.
#pragma once

#include <vector>

#include "config/sections/model.h"

namespace trainer::commands {

// Returns the backbones with published ImageNet accuracy, the most accurate first. On the CPU those
// of few operations come before the others, of which the cheapest is the first.
std::vector<config::Backbone::Name> list_backbones_by_accuracy(bool on_cpu);

}  // namespace trainer::commands

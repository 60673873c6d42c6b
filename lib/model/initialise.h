// Computes the initial values of variables.
#pragma once

#include <cstdint>
#include <vector>

#include "config/sections/layers.h"
#include "graph/graph.h"

namespace trainer::model {

// The numbers of inputs and outputs that a weight connects, as Keras counts them.
struct Fans {
  double in = 0, out = 0;
};
graph::Initial resolve_initializer(const config::Initializer& initializer, const Fans& fans);

// Returns the initial content of a persistent value in its logical layout, a pure function of
// (seed, name, shape).
std::vector<float> initial_values(const graph::Value& value, std::uint64_t seed);

}  // namespace trainer::model

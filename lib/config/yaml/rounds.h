// Repetitions over values, as rounds with layers of their own.
#pragma once

#include <vector>

#include "config/yaml/tree.h"

namespace trainer::config {

// Replaces each `repeat: {over: {x: [1, 2]}, layers: [...]}` of a model by `repeat: {rounds: ...}`,
// in which $x is the value of the round; returns whether there was one. A mistake sets the
// `failure` of the repeat, and an unknown variable that of its node. Call it before shorthands are
// expanded.
bool make_rounds(Node& root);

// Names the keys in messages as the file has them, without the rounds, and removes what was found
// in each round of the same layers.
void join_rounds(std::vector<Diagnostic>& diagnostics);

}  // namespace trainer::config

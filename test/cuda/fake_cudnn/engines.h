// The engines that the fake cuDNN offers, most of which must not be used.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/fake_cudnn/descriptor.h"
#include "cuda/fake_cudnn/execute.h"

namespace fake {

using NumericalNotes = std::vector<cudnnBackendNumericalNote_t>;
using BehaviorNotes = std::vector<cudnnBackendBehaviorNote_t>;

struct Engine {
  std::int64_t index;
  bool fallback;  // is in the list of CUDNN_HEUR_MODE_FALLBACK, otherwise in the one of A and B
  NumericalNotes numerical;
  BehaviorNotes behavior;
  bool usable;  // otherwise it leaves NaN
};

// The configurations that a descriptor of heuristics results in, in their order.
std::vector<Descriptor> configurations(const Descriptor& heuristics);

// The engine of its descriptor, and of the plan that was made from it.
const Engine& find_engine(const Descriptor& engine);
const Engine& find_engine_of_plan(const Descriptor& plan);
std::shared_ptr<const Descriptor> find_graph_of_plan(const Descriptor& plan);

// Throws Refusal unless the engine takes the graph's operations as one.
void check_fusion(const Engine& engine, const Descriptor& graph);
std::int64_t find_workspace(const Engine& engine);
Arithmetic find_arithmetic(const Engine& engine);

}  // namespace fake

// Which engines there are and what they take. Follows "cudnn_graph Library", sections
// CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, _ENGINECFG_ and _ENGINE_DESCRIPTOR, of the cuDNN backend API
// reference (docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-graph-library.html).
#include "cuda/fake_cudnn/engines.h"

#include <algorithm>

#include "cuda/fake_cudnn/fake_cudnn.h"

namespace fake {
namespace {

const std::vector<Engine>& engines() {
  static const auto& list = *new std::vector<Engine>{
      {17,
       false,
       {CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
       {CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION},
       false},
      {2, false, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, {}, false},
      {3,
       false,
       {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION},
       {},
       false},
      {4, false, {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}, {}, false},
      {5, false, {CUDNN_NUMERICAL_NOTE_FFT}, {}, false},
      {28, false, {}, {}, true},
      {41, false, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, {}, true},
      {0, true, {}, {}, true}};
  return list;
}

Descriptor::Attribute integer(std::int64_t value) {
  Descriptor::Attribute result;
  result.type = CUDNN_TYPE_INT64;
  result.bytes.resize(8);
  std::memcpy(result.bytes.data(), &value, 8);
  return result;
}

Descriptor::Attribute reference(std::shared_ptr<const Descriptor> to) {
  Descriptor::Attribute result;
  result.type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  result.references.push_back(std::move(to));
  return result;
}

const Descriptor& planned_engine(const Descriptor& plan) {
  return *plan.reference(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
              ->reference(CUDNN_ATTR_ENGINECFG_ENGINE);
}

}  // namespace

std::vector<Descriptor> configurations(const Descriptor& heuristics) {
  const auto mode = heuristics.one(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
  const auto& graph = heuristics.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).references[0];
  std::vector<Descriptor> result;
  for (const Engine& engine : engines()) {
    if (engine.fallback != (mode == CUDNN_HEUR_MODE_FALLBACK)) continue;
    auto chosen = std::make_shared<Descriptor>();
    chosen->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    chosen->finalized = true;
    chosen->attributes[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = integer(engine.index);
    chosen->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = reference(graph);
    Descriptor& config = result.emplace_back();
    config.type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    config.finalized = true;
    config.attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = reference(chosen);
  }
  return result;
}

const Engine& find_engine(const Descriptor& descriptor) {
  const auto index = descriptor.one<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
  for (const Engine& engine : engines()) {
    if (engine.index == index) return engine;
  }
  throw Refusal(CUDNN_STATUS_NOT_SUPPORTED, "no engine " + std::to_string(index));
}

const Engine& find_engine_of_plan(const Descriptor& plan) {
  return find_engine(planned_engine(plan));
}

std::shared_ptr<const Descriptor> find_graph_of_plan(const Descriptor& plan) {
  return planned_engine(plan).attributes.at(CUDNN_ATTR_ENGINE_OPERATION_GRAPH).references[0];
}

// Follows cuDNN 9.19 on an H100: a precompiled engine takes a convolution alone, with a bias of its
// type, or with a bias and relu.
void check_fusion(const Engine& engine, const Descriptor& graph) {
  const auto& ops = graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).references;
  if (ops.size() == 1 || !engine.behavior.empty()) return;
  const Descriptor* bias = ops[1]->reference(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  const Descriptor* x = ops[0]->reference(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
  const auto type = [](const Descriptor& d) {
    return d.one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  };
  if (!settings().fuses || bias == nullptr || x == nullptr || type(*bias) != type(*x)) {
    throw Refusal(CUDNN_STATUS_NOT_SUPPORTED, "no precompiled engine for these operations");
  }
}

std::int64_t find_workspace(const Engine& engine) {
  return settings().workspace_bytes / (engine.index == 41 ? 1 : engine.index == 0 ? 2 : 4);
}

Arithmetic find_arithmetic(const Engine& engine) {
  if (!engine.usable) return Arithmetic::kMustNotRun;
  const NumericalNotes& notes = engine.numerical;
  const bool cores = std::count(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_TENSOR_CORE) > 0;
  return cores ? Arithmetic::kTf32 : Arithmetic::kExact;  // TF32 changes no 16-bit number
}

}  // namespace fake

#include "backend/cuda/plans/engine_choice.h"

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

// Returns the reason why an engine may not be used; empty if it may.
std::string find_rejection(const Descriptor& engine, const EngineRules& rules, bool tensor_cores) {
  for (const auto note : engine.get_behavior_notes()) {
    if (note == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) return "compiled at run time";
  }
  for (const auto note : engine.get_numerical_notes()) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        return "not deterministic";
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        return "sums in less than float32";
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        return "rounds its inputs";
      case CUDNN_NUMERICAL_NOTE_FFT:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return "a transform that loses digits";
      default:
        break;
    }
  }
  return tensor_cores && rules.tensor_cores == TensorCores::kForbidden ? "TF32" : "";
}

bool uses_tensor_cores(const Descriptor& engine) {
  const auto notes = engine.get_numerical_notes();
  return std::ranges::find(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != notes.end();
}

// The plan of an engine's configuration; none, with the reason, where the rules forbid it, `wanted`
// does not want it or cuDNN does not accept it.
std::optional<EnginePlan> make_plan(Descriptor config, const CudnnDevice& device,
                                    const EngineRules& rules,
                                    const std::function<bool(const EnginePlan&)>& wanted,
                                    std::vector<std::string>* rejections) {
  auto engines =
      config.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  EnginePlan made;
  made.engine = engines.at(0).get_int(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  made.tensor_cores = uses_tensor_cores(engines[0]);
  std::string refusal = find_rejection(engines[0], rules, made.tensor_cores);
  if (refusal.empty() && !wanted(made)) return std::nullopt;
  try {
    if (refusal.empty()) {
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      device.set_on_plan(plan);
      plan.finalize();
      made.workspace_bytes = plan.get_int(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
      made.parts.push_back(std::move(config));
      made.parts.push_back(std::move(plan));
      return made;
    }
  } catch (const DeviceError& error) {
    refusal = error.what();
  }
  if (rejections != nullptr) rejections->push_back(concat("engine ", made.engine, ": ", refusal));
  return std::nullopt;
}

// Calls offer(configuration) in the order of cuDNN's heuristics until it returns true.
template <class Offer>
void for_each_engine(const Descriptor& graph, const CudnnDevice& device,
                     std::vector<std::string>* rejections, const Offer& offer) {
  // Mode B estimates better than A, in about 10 ms, and equals A for graphs that it does not
  // support.
  for (const auto mode : {CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    device.set_on_heuristics(heuristics);
    // A list that cuDNN cannot make for a graph counts as an empty one.
    try {
      heuristics.finalize();
      for (Descriptor& config : heuristics.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                           CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) {
        if (offer(std::move(config))) return;
      }
    } catch (const DeviceError& error) {
      if (rejections != nullptr) rejections->push_back(error.what());
    }
  }
}

class Choice {
 public:
  Choice(const CudnnDevice& device, const EngineRules& rules, std::vector<std::string>* rejections)
      : device_(device), rules_(rules), rejections_(rejections) {}

  // Returns whether the engine of this configuration is to be taken.
  bool offer(Descriptor config) {
    const auto can_be_better = [this](const EnginePlan& candidate) {
      return !best_ || !fits(*best_) || candidate.tensor_cores;
    };
    auto candidate = make_plan(std::move(config), device_, rules_, can_be_better, rejections_);
    if (!candidate) return false;
    if (!fits(*candidate)) {
      record_rejection(*candidate, concat("wants ", candidate->workspace_bytes, " bytes"));
    }
    if (!best_ || is_better(*candidate, *best_)) best_ = std::move(candidate);
    return fits(*best_) && (best_->tensor_cores || rules_.tensor_cores != TensorCores::kPreferred);
  }

  std::optional<EnginePlan> best() && { return std::move(best_); }

 private:
  void record_rejection(const EnginePlan& candidate, const std::string& why) {
    if (rejections_ != nullptr)
      rejections_->push_back(concat("engine ", candidate.engine, ": ", why));
  }

  bool fits(const EnginePlan& engine) const {
    return engine.workspace_bytes <= rules_.workspace_limit;
  }

  // Returns whether to take a rather than b, which precedes it in cuDNN's list.
  bool is_better(const EnginePlan& a, const EnginePlan& b) const {
    if (fits(a) != fits(b)) return fits(a);
    return fits(a) ? a.tensor_cores && !b.tensor_cores : a.workspace_bytes < b.workspace_bytes;
  }

  const CudnnDevice& device_;
  const EngineRules& rules_;
  std::vector<std::string>* rejections_;
  std::optional<EnginePlan> best_;
};

}  // namespace

std::optional<EnginePlan> choose_engine(const Descriptor& graph, const CudnnDevice& device,
                                        const EngineRules& rules,
                                        std::vector<std::string>* rejections) {
  Choice choice(device, rules, rejections);
  for_each_engine(graph, device, rejections,
                  [&choice](Descriptor config) { return choice.offer(std::move(config)); });
  return std::move(choice).best();
}

std::vector<EnginePlan> usable_engines(const Descriptor& graph, const CudnnDevice& device,
                                       const EngineRules& rules, std::size_t max_engines) {
  std::vector<EnginePlan> engines;
  const auto any = [](const EnginePlan&) { return true; };
  for_each_engine(graph, device, nullptr, [&](Descriptor config) {
    auto made = make_plan(std::move(config), device, rules, any, nullptr);
    if (made && made->workspace_bytes <= rules.workspace_limit) engines.push_back(std::move(*made));
    return engines.size() >= max_engines;
  });
  return engines;
}

}  // namespace trainer::backend::cuda

#include "backend/cuda/plans/convolution.h"

#include <algorithm>
#include <sstream>

#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/counted_work.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/layout.h"
#include "backend/cuda/plans/convolution_graph.h"
#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

using Pass = ConvolutionProblem::Pass;

// Tensor cores are worth their padding for groups of at least this many channels. cuDNN's
// heuristics sometimes prefers an engine without them that copies the whole image.
constexpr std::int64_t kTensorCoreChannels = 16;

TensorCores tensor_cores_for(const ConvolutionProblem& p) {
  if (p.type == DType::kFloat32 && !p.tf32) return TensorCores::kForbidden;
  return std::min(p.c, p.out) / p.groups >= kTensorCoreChannels ? TensorCores::kPreferred
                                                                : TensorCores::kAllowed;
}

// Limits the engines that are timed per graph; heuristics rarely put the fastest further back.
constexpr std::size_t kMaxTimedEngines = 8;

Epilogue fused_epilogue(const ConvolutionProblem& problem) {
  return problem.relu ? Epilogue::kBiasRelu : Epilogue::kBias;
}

Candidate make_candidate(ConvolutionPlan& convolution, const ConvolutionProblem& p) {
  const auto element = static_cast<std::int64_t>(size_of(p.type));
  const std::int64_t y = p.n * p.window.output(p.h, 0) * p.window.output(p.w, 1) * p.out;
  const std::int64_t kernel = p.window.size[0] * p.window.size[1] * p.c / p.groups * p.out;
  return {convolution.describe(),
          {{p.n * p.h * p.w * p.c * element, p.type},
           {kernel * element, p.type},
           {y * element, p.type},
           {p.bias ? p.out * element : 0, p.type},
           {convolution.workspace_bytes()}},
          [&convolution](const std::vector<void*>& memory, cudaStream_t stream) {
            convolution.run(memory[0], memory[1], memory[2], memory[3], memory[4], stream);
          }};
}

// Throws DeviceError when this cuDNN does not accept the plan.
std::unique_ptr<ConvolutionPlan> from_text(const std::string& text,
                                           const ConvolutionProblem& problem,
                                           const CudnnDevice& device) {
  std::istringstream in(text);
  EnginePlan engine;
  bool fused = false;
  in >> engine.engine >> engine.tensor_cores >> fused;
  if (!in || in.get() != '\n') throw DeviceError("it is damaged");
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  device.set_on_plan(plan);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, std::string_view(text).substr(in.tellg()))
      .finalize();
  engine.workspace_bytes = plan.get_int(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  engine.parts.push_back(std::move(plan));
  return std::make_unique<ConvolutionPlan>(problem, std::move(engine), fused, false,
                                           device.handle());
}

}  // namespace

std::int64_t ConvolutionPlan::workspace_bytes() const {
  return std::max(engine_.workspace_bytes, converts_bias() ? problem_.out * 4 : 0);
}

std::string ConvolutionPlan::describe() const {
  return concat("cudnn engine ", engine_.engine, engine_.tensor_cores ? ", tensor cores" : "",
                timed_ ? ", timed" : "", ", ", (workspace_bytes() + 1023) / 1024, " KiB",
                adds_bias() ? ", then bias" : "", applies_relu() ? ", then relu" : "");
}

void ConvolutionPlan::run(void* x, void* kernel, void* y, const void* bias, void* workspace,
                          cudaStream_t stream) {
  if (CountedWork* counted = CountedWork::current()) {
    ++counted->library_calls;
    return finish(y, bias, workspace, stream);
  }
  if (handle_ == nullptr) {
    throw DeviceError(
        "a convolution planned for a device that is not here was run; "
        "please report it");
  }
  std::vector<std::int64_t> ids{kTensorX, kTensorKernel, kTensorY};
  std::vector<void*> addresses{x, kernel, y};
  if (problem_.bias && fused_) {
    ids.push_back(kTensorBias);
    addresses.push_back(const_cast<void*>(bias));  // cuDNN only reads it
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
      .finalize();
  check(cudnnSetStream(handle_, stream), "cudnnSetStream");
  check(cudnnBackendExecute(handle_, engine_.plan().get(), pack.get()),
        concat("convolution ", to_string(problem_)));
  finish(y, bias, workspace, stream);
}

void ConvolutionPlan::finish(void* y, const void* bias, void* workspace,
                             cudaStream_t stream) const {
  const std::int64_t rows =
      problem_.n * problem_.window.output(problem_.h, 0) * problem_.window.output(problem_.w, 1);
  if (converts_bias()) {
    // The engine is done with its workspace.
    convert(bias, problem_.type, workspace, DType::kFloat32, problem_.out, stream);
    bias = workspace;
  }
  if (adds_bias()) {
    add_bias(y, problem_.type, static_cast<const float*>(bias), rows, problem_.out, stream);
  }
  if (applies_relu()) {
    activate({graph::Activation::Kind::kRelu}, y, y, problem_.type, rows * problem_.out, stream);
  }
}

std::string ConvolutionPlan::to_text() const {
  return concat(engine_.engine, ' ', engine_.tensor_cores, ' ', fused_, '\n',
                engine_.plan().get_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION));
}

std::unique_ptr<ConvolutionPlan> ConvolutionPlanner::plan(const ConvolutionProblem& problem) {
  check_problem(problem);
  if (!large_tensors_) check_elements(problem);
  const std::string key =
      concat(timer_ ? "timed; " : "", cudnn_version(), "; ", device_.kind(), "; ",
             to_string(problem), "; at most ", workspace_limit_, " bytes");
  std::unique_lock<std::mutex> tuning;
  if (timer_) tuning = lock_tuning();
  std::optional<std::string> stored = cache_.load(key);
  std::unique_ptr<ConvolutionPlan> plan = read(problem, key, stored);
  if (!plan) plan = timer_ ? make_timed(problem) : make(problem);
  if (cache_.enabled()) {
    const std::string text = stored ? *stored : plan->to_text();
    const std::string kept = cache_.keep(key, text, stored);
    if (kept != text) plan = from_text(kept, problem, device_);
  }
  if (timer_) plan->set_timed();
  return plan;
}

std::unique_ptr<ConvolutionPlan> ConvolutionPlanner::make(const ConvolutionProblem& problem) const {
  std::vector<std::string> rejections;
  const auto choose = [&](Epilogue epilogue) -> std::unique_ptr<ConvolutionPlan> {
    const ConvolutionGraph graph(problem, epilogue, device_);
    const EngineRules rules{tensor_cores_for(problem), workspace_limit_};
    auto engine = choose_engine(graph.descriptor(), device_, rules, &rejections);
    if (!engine) return nullptr;
    return std::make_unique<ConvolutionPlan>(problem, std::move(*engine),
                                             epilogue != Epilogue::kNone, false, device_.handle());
  };
  if (problem.bias) {
    if (auto plan = choose(fused_epilogue(problem))) return plan;
  }
  if (auto plan = choose(Epilogue::kNone)) return plan;
  std::string reasons;
  for (const std::string& rejection : rejections) reasons += "\n  " + rejection;
  throw DeviceError(concat(cudnn_version(), " has no engine for the convolution ",
                           to_string(problem),
                           "; use another precision or layer shape. Left out:", reasons));
}

// The heuristics' choice comes first, which is taken when no other is faster.
std::unique_ptr<ConvolutionPlan> ConvolutionPlanner::make_timed(
    const ConvolutionProblem& problem) const {
  std::vector<std::unique_ptr<ConvolutionPlan>> plans;
  plans.push_back(make(problem));
  EngineRules rules{tensor_cores_for(problem), workspace_limit_};
  if (rules.tensor_cores == TensorCores::kPreferred) rules.tensor_cores = TensorCores::kAllowed;
  const auto add_engines = [&](Epilogue epilogue) {
    const ConvolutionGraph graph(problem, epilogue, device_);
    for (EnginePlan& engine :
         usable_engines(graph.descriptor(), device_, rules, kMaxTimedEngines)) {
      plans.push_back(std::make_unique<ConvolutionPlan>(
          problem, std::move(engine), epilogue != Epilogue::kNone, false, device_.handle()));
    }
  };
  if (problem.bias) add_engines(fused_epilogue(problem));
  add_engines(Epilogue::kNone);
  std::vector<Candidate> candidates;
  for (const auto& plan : plans) candidates.push_back(make_candidate(*plan, problem));
  return std::move(plans[fastest(candidates, *timer_)]);
}

// A stored plan that this cuDNN does not accept counts as none and is cleared.
std::unique_ptr<ConvolutionPlan> ConvolutionPlanner::read(
    const ConvolutionProblem& problem, const std::string& key,
    std::optional<std::string>& stored) const {
  if (!stored) return nullptr;
  try {
    return from_text(*stored, problem, device_);
  } catch (const DeviceError& error) {
    cache_.reject(key, error.what());
    stored.reset();
    return nullptr;
  }
}

}  // namespace trainer::backend::cuda

#include "backend/cuda/plans/convolution.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/counted_work.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/layout.h"
#include "backend/cuda/plans/convolution_graph.h"
#include "backend/cuda/plans/cudnn.h"
#include "backend/cuda/plans/engine_choice.h"
#include "backend/cuda/plans/plan_cache.h"
#include "backend/cuda/plans/tuning.h"
#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

using Pass = ConvolutionProblem::Pass;

struct Planned {
  EnginePlan engine;
  bool fused = false;  // the graph holds the bias and relu too
  bool timed = false;  // found fastest
};

class CudnnConvolution final : public ConvolutionPlan {
 public:
  CudnnConvolution(const ConvolutionProblem& problem, Planned planned, cudnnHandle_t handle)
      : problem_(problem),
        engine_(std::move(planned.engine)),
        fused_(planned.fused),
        timed_(planned.timed),
        handle_(handle) {}

  Planned planned() && { return {std::move(engine_), fused_, timed_}; }

  std::int64_t workspace_bytes() const override {
    return std::max(engine_.workspace_bytes, converts_bias() ? problem_.out * 4 : 0);
  }

  std::string describe() const override {
    return concat("cudnn engine ", engine_.engine, engine_.tensor_cores ? ", tensor cores" : "",
                  timed_ ? ", timed" : "", ", ", (workspace_bytes() + 1023) / 1024, " KiB",
                  adds_bias() ? ", then bias" : "", applies_relu() ? ", then relu" : "");
  }

  void run(void* x, void* kernel, void* y, const void* bias, void* workspace,
           cudaStream_t stream) override {
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

 private:
  bool adds_bias() const { return problem_.bias && !fused_; }
  bool applies_relu() const { return problem_.relu && !fused_; }
  // The kernel that adds a bias wants float32.
  bool converts_bias() const { return adds_bias() && problem_.type != DType::kFloat32; }

  void finish(void* y, const void* bias, void* workspace, cudaStream_t stream) const {
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

  ConvolutionProblem problem_;
  EnginePlan engine_;
  bool fused_, timed_;
  cudnnHandle_t handle_;
};

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

// A plan as text: the engine's number, two flags, and cuDNN's JSON.
std::string to_text(const Planned& planned) {
  const EnginePlan& engine = planned.engine;
  return concat(engine.engine, ' ', engine.tensor_cores, ' ', planned.fused, '\n',
                engine.plan().get_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION));
}

// Throws DeviceError when this cuDNN does not accept the plan.
Planned from_text(const std::string& text, const CudnnDevice& device) {
  std::istringstream in(text);
  Planned planned;
  in >> planned.engine.engine >> planned.engine.tensor_cores >> planned.fused;
  if (!in || in.get() != '\n') throw DeviceError("it is damaged");
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  device.set_on_plan(plan);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, std::string_view(text).substr(in.tellg()))
      .finalize();
  planned.engine.workspace_bytes = plan.get_int(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  planned.engine.parts.push_back(std::move(plan));
  return planned;
}

class CudnnPlanner final : public ConvolutionPlanner {
 public:
  explicit CudnnPlanner(const PlannerOptions& options)
      : device_(options.device_properties),
        cache_(options.cache, options.warn, options.shared),
        workspace_limit_(options.workspace_limit),
        timer_(options.timer) {}

  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionProblem& problem) override {
    check_problem(problem);
    const std::string key = concat(timer_ ? "timed; " : "", version(), "; ", device_.kind(), "; ",
                                   to_string(problem), "; at most ", workspace_limit_, " bytes");
    std::unique_lock<std::mutex> tuning;
    if (timer_) tuning = lock_tuning();
    std::optional<Planned> planned = load(key);
    if (!planned) {
      planned = timer_ ? make_timed(problem) : make(problem);
      if (cache_.enabled()) cache_.store(key, to_text(*planned));
    }
    planned->timed = timer_ != nullptr;
    return std::make_unique<CudnnConvolution>(problem, std::move(*planned), device_.handle());
  }

  std::string version() const override { return cudnn_version(); }

 private:
  Planned make(const ConvolutionProblem& problem) const {
    std::vector<std::string> refusals;
    if (problem.bias) {
      const ConvolutionGraph graph(problem, fused_epilogue(problem), device_);
      const EngineRules rules{tensor_cores_for(problem), workspace_limit_};
      if (auto engine = choose_engine(graph.descriptor(), device_, rules, &refusals)) {
        return {std::move(*engine), true};
      }
    }
    const ConvolutionGraph graph(problem, Epilogue::kNone, device_);
    const EngineRules rules{tensor_cores_for(problem), workspace_limit_};
    if (auto engine = choose_engine(graph.descriptor(), device_, rules, &refusals)) {
      return {std::move(*engine), false};
    }
    std::string reasons;
    for (const std::string& refusal : refusals) reasons += "\n  " + refusal;
    throw DeviceError(concat(version(), " has no engine for the convolution ", to_string(problem),
                             "; use another precision or layer shape. Left out:", reasons));
  }

  static Epilogue fused_epilogue(const ConvolutionProblem& problem) {
    return problem.relu ? Epilogue::kBiasRelu : Epilogue::kBias;
  }

  // The heuristics' choice comes first, which is taken when no other is faster.
  Planned make_timed(const ConvolutionProblem& problem) const {
    std::vector<Planned> plans;
    plans.push_back(make(problem));
    EngineRules rules{tensor_cores_for(problem), workspace_limit_};
    if (rules.tensor_cores == TensorCores::kPreferred) rules.tensor_cores = TensorCores::kAllowed;
    const auto add_engines = [&](Epilogue epilogue) {
      const ConvolutionGraph graph(problem, epilogue, device_);
      for (EnginePlan& engine :
           usable_engines(graph.descriptor(), device_, rules, kMaxTimedEngines)) {
        plans.push_back({std::move(engine), epilogue != Epilogue::kNone});
      }
    };
    if (problem.bias) add_engines(fused_epilogue(problem));
    add_engines(Epilogue::kNone);
    std::vector<std::unique_ptr<CudnnConvolution>> convolutions;
    std::vector<Candidate> candidates;
    for (Planned& planned : plans) {
      convolutions.push_back(
          std::make_unique<CudnnConvolution>(problem, std::move(planned), device_.handle()));
      candidates.push_back(make_candidate(*convolutions.back(), problem));
    }
    return std::move(*convolutions[fastest(candidates, *timer_)]).planned();
  }

  static Candidate make_candidate(CudnnConvolution& convolution, const ConvolutionProblem& p) {
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

  // A stored plan that this cuDNN does not accept counts as none.
  std::optional<Planned> load(const std::string& key) const {
    const std::optional<std::string> stored = cache_.load(key);
    if (!stored) return std::nullopt;
    try {
      return from_text(*stored, device_);
    } catch (const DeviceError& error) {
      cache_.reject(key, error.what());
      return std::nullopt;
    }
  }

  CudnnDevice device_;
  PlanCache cache_;
  std::int64_t workspace_limit_;
  std::shared_ptr<CandidateTimer> timer_;
};

}  // namespace

std::unique_ptr<ConvolutionPlanner> make_convolution_planner(const PlannerOptions& options) {
  return std::make_unique<CudnnPlanner>(options);
}

}  // namespace trainer::backend::cuda

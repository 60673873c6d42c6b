#include "backend/cuda/plans/convolution.h"

#include <algorithm>
#include <optional>

#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/layout.h"
#include "backend/cuda/plans/convolution_graph.h"
#include "backend/cuda/plans/cudnn.h"
#include "backend/cuda/plans/engine_choice.h"
#include "backend/cuda/plans/plan_cache.h"
#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

using Pass = ConvolutionProblem::Pass;

class CudnnConvolution final : public ConvolutionPlan {
 public:
  // `fused` says whether the engine adds the bias and applies relu.
  CudnnConvolution(const ConvolutionProblem& problem, EnginePlan engine, bool fused,
                   cudnnHandle_t handle)
      : problem_(problem), engine_(std::move(engine)), fused_(fused), handle_(handle) {}

  std::int64_t workspace_bytes() const override {
    return std::max(engine_.workspace_bytes, converts_bias() ? problem_.out * 4 : 0);
  }

  std::string describe() const override {
    return concat("cudnn engine ", engine_.engine, engine_.tensor_cores ? ", tensor cores" : "",
                  ", ", (workspace_bytes() + 1023) / 1024, " KiB", adds_bias() ? ", then bias" : "",
                  applies_relu() ? ", then relu" : "");
  }

  void run(void* x, void* kernel, void* y, const void* bias, void* workspace,
           cudaStream_t stream) override {
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
  bool fused_;
  cudnnHandle_t handle_;
};

// Of a group, from which on tensor cores are worth their padding. cuDNN's heuristics now and then
// puts an engine without them first that copies the whole image.
constexpr std::int64_t kTensorCoreChannels = 16;

TensorCores tensor_cores_for(const ConvolutionProblem& p) {
  if (p.type == DType::kFloat32 && !p.tf32) return TensorCores::kForbidden;
  return std::min(p.c, p.out) / p.groups >= kTensorCoreChannels ? TensorCores::kPreferred
                                                                : TensorCores::kAllowed;
}

struct Planned {
  EnginePlan engine;
  bool fused = false;  // the graph holds the bias and relu too
};

class CudnnPlanner final : public ConvolutionPlanner {
 public:
  explicit CudnnPlanner(const PlannerOptions& options)
      : device_(options.device_properties),
        cache_(options.cache),
        workspace_limit_(options.workspace_limit) {}

  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionProblem& problem) override {
    check_problem(problem);
    const std::string key = concat(version(), "; ", device_.properties(), "; ", to_string(problem),
                                   "; at most ", workspace_limit_, " bytes");
    std::optional<Planned> planned = load(key);
    if (!planned) {
      planned = make(problem);
      store(key, *planned);
    }
    return std::make_unique<CudnnConvolution>(problem, std::move(planned->engine), planned->fused,
                                              device_.handle());
  }

  std::string version() const override { return cudnn_version(); }

 private:
  Planned make(const ConvolutionProblem& problem) const {
    std::vector<std::string> refusals;
    if (problem.bias) {
      const Epilogue epilogue = problem.relu ? Epilogue::kBiasRelu : Epilogue::kBias;
      if (auto engine = choose(problem, epilogue, refusals)) return {std::move(*engine), true};
    }
    if (auto engine = choose(problem, Epilogue::kNone, refusals)) {
      return {std::move(*engine), false};
    }
    std::string reasons;
    for (const std::string& refusal : refusals) reasons += "\n  " + refusal;
    throw DeviceError(concat(version(), " has no engine for the convolution ", to_string(problem),
                             "; use another precision or layer shape. Left out:", reasons));
  }

  std::optional<EnginePlan> choose(const ConvolutionProblem& problem, Epilogue epilogue,
                                   std::vector<std::string>& refusals) const {
    const EngineRules rules{tensor_cores_for(problem), workspace_limit_};
    const ConvolutionGraph graph(problem, epilogue, device_);
    return choose_engine(graph.descriptor(), device_, rules, &refusals);
  }

  // A stored plan that this cuDNN does not accept counts as none.
  std::optional<Planned> load(const std::string& key) const {
    const std::optional<StoredPlan> stored = cache_.load(key);
    if (!stored) return std::nullopt;
    try {
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      device_.set_on_plan(plan);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, stored->json).finalize();
      Planned planned;
      planned.fused = stored->fused;
      planned.engine.engine = stored->engine;
      planned.engine.tensor_cores = stored->tensor_cores;
      planned.engine.workspace_bytes = plan.get_int(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
      planned.engine.parts.push_back(std::move(plan));
      return planned;
    } catch (const DeviceError&) {
      return std::nullopt;
    }
  }

  void store(const std::string& key, const Planned& planned) const {
    if (!cache_.enabled()) return;
    const EnginePlan& engine = planned.engine;
    cache_.store(key, {planned.fused, engine.tensor_cores, engine.engine,
                       engine.plan().get_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)});
  }

  CudnnDevice device_;
  PlanCache cache_;
  std::int64_t workspace_limit_;
};

}  // namespace

std::unique_ptr<ConvolutionPlanner> make_convolution_planner(const PlannerOptions& options) {
  return std::make_unique<CudnnPlanner>(options);
}

}  // namespace trainer::backend::cuda

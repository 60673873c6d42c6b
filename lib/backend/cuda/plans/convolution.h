// Convolutions by cuDNN's backend descriptors: NHWC images, KRSC kernels, both of one type.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backend/cuda/plans/cudnn.h"
#include "backend/cuda/plans/engine_choice.h"
#include "backend/cuda/plans/plan_cache.h"
#include "backend/cuda/plans/tuning.h"
#include "base/files/files.h"
#include "base/types.h"
#include "graph/window.h"

namespace trainer::backend::cuda {

struct ConvolutionProblem {
  enum class Pass { kForward, kBackwardData, kBackwardWeights } pass = Pass::kForward;
  DType type = DType::kFloat32;             // the element type of x, kernel, y and bias
  bool tf32 = false;                        // float32 may be rounded to TF32 for the tensor cores
  std::int64_t n = 0, h = 0, w = 0, c = 0;  // the extents of x
  std::int64_t out = 0;                     // channels of y
  std::int64_t groups = 1;
  graph::Window window;
  // kForward only: y = relu(x * kernel + bias). A convolution with an activation that is not relu
  // is planned without one.
  bool bias = false;
  bool relu = false;
};

// An execution plan for one problem on one device. Plans may be run on any stream of the thread
// that made them.
class ConvolutionPlan {
 public:
  // `fused`: the engine applies the bias and relu, too. `timed`: it was found fastest.
  ConvolutionPlan(const ConvolutionProblem& problem, EnginePlan engine, bool fused, bool timed,
                  cudnnHandle_t handle)
      : problem_(problem),
        engine_(std::move(engine)),
        fused_(fused),
        timed_(timed),
        handle_(handle) {}

  std::int64_t workspace_bytes() const;
  // Returns a text for the program's listing: "cudnn engine 17, tensor cores, 512 KiB". It has
  // ", then bias, then relu" for operations that run as kernels of their own.
  std::string describe() const;
  // Enqueues y = x * kernel (kForward), x = dy * kernel (kBackwardData) or kernel = x * dy
  // (kBackwardWeights); the one that the pass makes is written, the others are read. bias may be
  // null unless the problem has one. `workspace` is aligned to 256 bytes, all others to 16.
  void run(void* x, void* kernel, void* y, const void* bias, void* workspace, cudaStream_t stream);

  // Returns the plan as text: the engine's number, two flags, and cuDNN's JSON.
  std::string to_text() const;
  void set_timed() { timed_ = true; }

 private:
  bool adds_bias() const { return problem_.bias && !fused_; }
  bool applies_relu() const { return problem_.relu && !fused_; }
  // The kernel that adds a bias wants float32.
  bool converts_bias() const { return adds_bias() && problem_.type != DType::kFloat32; }
  void finish(void* y, const void* bias, void* workspace, cudaStream_t stream) const;

  ConvolutionProblem problem_;
  EnginePlan engine_;
  bool fused_, timed_;
  cudnnHandle_t handle_;
};

struct PlannerOptions {
  // A folder in which plans are kept from one process to the next, by device, version of cuDNN and
  // problem (TRAINER_CUDA_PLAN_CACHE); empty: none. It must exist.
  Path cache;
  // An engine that needs more memory than this is taken only when all others need more still.
  std::int64_t workspace_limit = std::int64_t{2} << 30;
  // cuDNN's description, as JSON, of a device that need not be here; its plans cannot run. Empty:
  // the current device.
  std::string device_properties;
  // Finds the fastest engine, which is taken instead of the first of cuDNN's heuristics. A timer of
  // a device of this machine, shared with other planners; null: heuristics choose.
  std::shared_ptr<CandidateTimer> timer;
  Warn warn;                            // receives lines about files of the cache that are not used
  std::shared_ptr<SharedPlans> shared;  // shared with the planners of other devices; null: none
  bool large_tensors = false;           // true: of 2^31 elements and more, too
};

// cuDNN on the current device. Not thread-safe; each backend has one.
class ConvolutionPlanner {
 public:
  explicit ConvolutionPlanner(const PlannerOptions& options = {})
      : device_(options.device_properties),
        cache_(options.cache, options.warn, options.shared),
        workspace_limit_(options.workspace_limit),
        timer_(options.timer),
        large_tensors_(options.large_tensors) {}

  // Returns the same plan at every call for a problem, device and version of cuDNN; with a timer,
  // as long as the cache's folder is kept. It excludes engines that are not deterministic, that sum
  // in less than float32, that are compiled at run time or, unless asked, that round float32 to
  // TF32. A bias or relu that no remaining engine has runs as a kernel of its own after the
  // convolution. Throws DeviceError that names the problem if no engine remains, or if its extents
  // do not fit together, and DoesNotFit if a tensor is too large. Plans must not outlive the
  // planner.
  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionProblem& problem);
  std::string version() const { return cudnn_version(); }  // "cuDNN 9.19.0"

 private:
  std::unique_ptr<ConvolutionPlan> make(const ConvolutionProblem& problem) const;
  std::unique_ptr<ConvolutionPlan> make_timed(const ConvolutionProblem& problem) const;
  std::unique_ptr<ConvolutionPlan> read(const ConvolutionProblem& problem, const std::string& key,
                                        std::optional<std::string>& stored) const;

  CudnnDevice device_;
  PlanCache cache_;
  std::int64_t workspace_limit_;
  std::shared_ptr<CandidateTimer> timer_;
  bool large_tensors_;
};

}  // namespace trainer::backend::cuda

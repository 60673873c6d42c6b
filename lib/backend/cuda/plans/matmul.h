// Matrix products by cuBLASLt, row-major.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "backend/cuda/plans/plan_cache.h"
#include "backend/cuda/plans/tuning.h"
#include "base/types.h"

namespace trainer::backend::cuda {

// c[m][n] = epilogue(a[m][k] * b[k][n]), accumulated in float32. A transposed operand lies in
// memory as [k][m] or [n][k].
struct MatmulProblem {
  DType type = DType::kFloat32;    // the element type of a and b
  DType result = DType::kFloat32;  // the element type of c: float32 or `type`
  bool tf32 = false;               // float32 may be rounded to TF32 for the tensor cores
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool bias = false;  // c = a b + bias[n]; the bias has type bias_type: float32 or `result`
  DType bias_type = DType::kFloat32;
  bool relu = false;
};

class Matmul {
 public:
  virtual ~Matmul() = default;
  virtual std::int64_t workspace_bytes() const = 0;
  // "cublasLt, 4096 KiB" or "cublasLt, timed, 4096 KiB", with ", then bias, then relu" for what
  // runs as kernels of their own.
  virtual std::string describe() const = 0;
  // Enqueues the product. Operands, bias and c are aligned to 16 bytes, `workspace` to 256.
  virtual void run(const void* a, const void* b, const void* bias, void* c, void* workspace,
                   cudaStream_t stream) = 0;
};

// cuBLASLt on the current device. Not thread-safe; each backend has one.
class MatmulPlanner {
 public:
  virtual ~MatmulPlanner() = default;
  // The heuristic's first algorithm, the same every time; with a timer, the fastest of them, the
  // same as long as the cache's folder is kept. Kernels of this backend follow the product for relu
  // (activation.h), and for a bias of another type than the result's, for which cuBLASLt
  // has no epilogue (layout.h add_bias). Throws DeviceError naming the problem when there is no
  // algorithm. Plans must not outlive the planner.
  virtual std::unique_ptr<Matmul> plan(const MatmulProblem& problem) = 0;
};

struct MatmulOptions {
  // A timer of a device of this machine, shared with other planners; null: heuristics choose.
  std::shared_ptr<CandidateTimer> timer;
  // `device` names everything of the device that timed choices depend on. `cache` is an existing
  // folder for the choices; if it is empty, each planner times anew.
  std::string device;
  Path cache;
  Warn warn;                            // receives lines about files of the cache that are not used
  std::shared_ptr<SharedPlans> shared;  // shared with the planners of other devices; null: none
};
std::unique_ptr<MatmulPlanner> make_matmul_planner(const MatmulOptions& options = {});
// Makes a planner for a device that is not present, for which cuBLASLt cannot plan. No product
// runs, and each counts the largest workspace that a product may have.
std::unique_ptr<MatmulPlanner> make_matmul_bounds();

}  // namespace trainer::backend::cuda

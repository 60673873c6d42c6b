#include "backend/cuda/plans/matmul.h"

#include <cublasLt.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>
#include <type_traits>

#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/counted_work.h"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/layout.h"
#include "base/error.h"

namespace trainer::backend::cuda {

// Overloads the check() of runtime.h, and is therefore in the same namespace.
static void check(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(
      concat(what, ": ", cublasLtGetStatusName(status), ": ", cublasLtGetStatusString(status)));
}

namespace {

constexpr std::size_t kMaxWorkspace = std::size_t{32} << 20;  // cuBLAS advises it for Hopper
constexpr std::uint32_t kAddressAlignment = 16;               // the alignment of operands and bias

template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const noexcept {
    destroy(object);
  }
};
using Handle = std::unique_ptr<cublasLtContext, Destroy<cublasLtDestroy>>;
using Description = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy<cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy<cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy<cublasLtMatmulPreferenceDestroy>>;

cudaDataType_t cuda_type(DType type) {
  switch (type) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat16:
      return CUDA_R_16F;
    default:
      throw DeviceError(concat("matrix product of ", to_string(type),
                               "; expected a floating-point type; please report it"));
  }
}

std::string to_string(const MatmulProblem& p) {
  return concat("matrix product ", p.m, 'x', p.n, 'x', p.k, ' ', trainer::to_string(p.type),
                p.tf32 ? " tf32" : "", " to ", trainer::to_string(p.result),
                p.transpose_a ? ", a transposed" : "", p.transpose_b ? ", b transposed" : "",
                p.bias ? concat(", bias ", trainer::to_string(p.bias_type)) : "",
                p.relu ? ", relu" : "");
}

template <class T>
void set(const Description& description, cublasLtMatmulDescAttributes_t name, const T& value) {
  check(cublasLtMatmulDescSetAttribute(description.get(), name, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t name, const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), name, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

// A matrix that lies row by row in memory, as cuBLAS sees it: its transpose, column by column.
Layout transposed_layout(DType type, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, cuda_type(type), static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

// The descriptors that cuBLASLt takes. It computes columns first: c' = b' a', where ' transposes,
// so that its first operand is b and its second is a. Its bias has one number per row of c', which
// is one per column of c.
struct Parts {
  Description description;
  Layout a, b, c;

  Parts(const MatmulProblem& p, cublasLtEpilogue_t epilogue)
      : a(p.transpose_a ? transposed_layout(p.type, p.k, p.m)
                        : transposed_layout(p.type, p.m, p.k)),
        b(p.transpose_b ? transposed_layout(p.type, p.n, p.k)
                        : transposed_layout(p.type, p.k, p.n)),
        c(transposed_layout(p.result, p.m, p.n)) {
    cublasLtMatmulDesc_t raw = nullptr;
    const bool tf32 = p.tf32 && p.type == DType::kFloat32;
    check(cublasLtMatmulDescCreate(&raw, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                   CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    description.reset(raw);
    set(description, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(description, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (epilogue == CUBLASLT_EPILOGUE_BIAS) {
      set(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(p.bias_type));
      // The heuristic takes the alignment that it may count on from the address: this one has what
      // every bias has, and no more by chance.
      alignas(2 * kAddressAlignment) static constexpr std::byte kPlace[2 * kAddressAlignment]{};
      set_bias(kPlace + kAddressAlignment);
    }
  }

  void set_bias(const void* bias) const {
    set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
};

// Sums are deterministic and in float32.
Preference make_preference() {
  cublasLtMatmulPreference_t raw = nullptr;
  check(cublasLtMatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate");
  Preference preference(raw);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspace);
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference, operand, kAddressAlignment);
  }
  return preference;
}

// An algorithm for a product, as a text: whether it adds the bias, its workspace, and the bytes of
// the structure, which cuBLASLt lets programs keep for the same version of it.
struct Chosen {
  cublasLtMatmulAlgo_t algorithm{};
  std::int64_t workspace_bytes = 0;
  bool fused = false;
};
static_assert(std::is_trivially_copyable_v<cublasLtMatmulAlgo_t>);

std::string to_text(const Chosen& chosen) {
  std::ostringstream out;
  out << chosen.fused << ' ' << chosen.workspace_bytes;
  for (const std::uint64_t word : chosen.algorithm.data) out << ' ' << word;
  return out.str();
}

std::optional<Chosen> from_text(const std::string& text) {
  std::istringstream in(text);
  Chosen chosen;
  in >> chosen.fused >> chosen.workspace_bytes;
  for (auto& word : chosen.algorithm.data) in >> word;
  const bool whole = in && (in >> std::ws).eof() && chosen.workspace_bytes >= 0 &&
                     chosen.workspace_bytes <= static_cast<std::int64_t>(kMaxWorkspace);
  return whole ? std::optional(chosen) : std::nullopt;
}

// What runs after a product as kernels of its own.
struct AfterProduct {
  MatmulProblem problem;
  bool fused = false;  // the product adds the bias

  bool adds_bias() const { return problem.bias && !fused; }
  // The kernel that adds a bias wants float32.
  bool converts_bias() const { return adds_bias() && problem.bias_type != DType::kFloat32; }
  std::int64_t workspace_bytes() const { return converts_bias() ? problem.n * 4 : 0; }
  std::string describe() const {
    return concat(adds_bias() ? ", then bias" : "", problem.relu ? ", then relu" : "");
  }

  // The product must be done with its workspace.
  void run(const void* bias, void* c, void* workspace, cudaStream_t stream) const {
    const MatmulProblem& p = problem;
    if (converts_bias()) {
      convert(bias, p.bias_type, workspace, DType::kFloat32, p.n, stream);
      bias = workspace;
    }
    if (adds_bias()) add_bias(c, p.result, static_cast<const float*>(bias), p.m, p.n, stream);
    // cuBLASLt's relu epilogue makes 0 of a NaN, which must stay one (graph::Activation), so that
    // the epilogue adds the bias alone.
    if (p.relu) activate({graph::Activation::Kind::kRelu}, c, c, p.result, p.m * p.n, stream);
  }
};

class CublasMatmul final : public Matmul {
 public:
  CublasMatmul(cublasLtHandle_t handle, const MatmulProblem& problem, Parts parts,
               const Chosen& chosen, bool timed)
      : handle_(handle),
        problem_(problem),
        parts_(std::move(parts)),
        algorithm_(chosen.algorithm),
        product_bytes_(chosen.workspace_bytes),
        after_{problem, problem.bias && chosen.fused},
        timed_(timed) {}

  std::int64_t workspace_bytes() const override {
    return std::max(product_bytes_, after_.workspace_bytes());
  }

  std::string describe() const override {
    return concat("cublasLt, ", timed_ ? "timed, " : "", (workspace_bytes() + 1023) / 1024, " KiB",
                  after_.describe());
  }

  void run(const void* a, const void* b, const void* bias, void* c, void* workspace,
           cudaStream_t stream) override {
    if (after_.fused) parts_.set_bias(bias);
    const float one = 1, zero = 0;
    check(cublasLtMatmul(handle_, parts_.description.get(), &one, b, parts_.b.get(), a,
                         parts_.a.get(), &zero, c, parts_.c.get(), c, parts_.c.get(), &algorithm_,
                         workspace, product_bytes_, stream),
          to_string(problem_));
    after_.run(bias, c, workspace, stream);
  }

 private:
  cublasLtHandle_t handle_;
  MatmulProblem problem_;
  Parts parts_;
  cublasLtMatmulAlgo_t algorithm_;
  std::int64_t product_bytes_;
  AfterProduct after_;
  bool timed_;
};

// The epilogue that adds the bias; none when cuBLASLt has none, which is the case for a bias of
// another type than the result.
std::optional<cublasLtEpilogue_t> find_epilogue(const MatmulProblem& p) {
  if (!p.bias) return CUBLASLT_EPILOGUE_DEFAULT;
  if (p.bias_type != p.result) return std::nullopt;
  return CUBLASLT_EPILOGUE_BIAS;
}

// Limits the algorithms that are timed per product; heuristics rarely put the fastest further back.
constexpr int kMaxTimedAlgorithms = 8;

class CublasPlanner final : public MatmulPlanner {
 public:
  explicit CublasPlanner(const MatmulOptions& options)
      : timer_(options.timer),
        device_(options.device),
        cache_(options.cache, options.warn, options.shared) {
    cublasLtHandle_t raw = nullptr;
    check(cublasLtCreate(&raw), "cublasLtCreate");
    handle_.reset(raw);
    preference_ = make_preference();
  }

  std::unique_ptr<Matmul> plan(const MatmulProblem& problem) override {
    check_problem(problem);
    if (!timer_) return make(problem, first(problem), false);
    const auto tuning = lock_tuning();
    const std::string key = concat("timed; cublasLt ", cublasLtGetVersion(), "; ", device_, "; ",
                                   to_string(problem), "; at most ", kMaxWorkspace, " bytes");
    const std::optional<std::string> stored = cache_.load(key);
    std::optional<Chosen> chosen = stored ? from_text(*stored) : std::nullopt;
    if (stored && !chosen) cache_.reject(key, "it is damaged");
    if (!chosen) chosen = find_fastest(problem);
    return make(problem, from_text(cache_.keep(key, to_text(*chosen), stored)).value(), true);
  }

 private:
  static void check_problem(const MatmulProblem& p) {
    const bool result_fits = p.result == DType::kFloat32 || p.result == p.type;
    if (std::min({p.m, p.n, p.k}) >= 1 && is_float(p.type) && result_fits) return;
    throw DeviceError(concat(to_string(p),
                             ": expected positive extents, a floating-point type, "
                             "and a result in it or float32; please report it"));
  }

  std::unique_ptr<CublasMatmul> make(const MatmulProblem& problem, const Chosen& chosen,
                                     bool timed) const {
    const cublasLtEpilogue_t epilogue =
        chosen.fused ? find_epilogue(problem).value_or(CUBLASLT_EPILOGUE_DEFAULT)
                     : CUBLASLT_EPILOGUE_DEFAULT;
    return std::make_unique<CublasMatmul>(handle_.get(), problem, Parts(problem, epilogue), chosen,
                                          timed);
  }

  // The heuristic's first algorithm, with the epilogue where there is one.
  Chosen first(const MatmulProblem& problem) const {
    const std::vector<Chosen> found = algorithms(problem, 1);
    return found.front();
  }

  // At least one; those with an epilogue come first.
  std::vector<Chosen> algorithms(const MatmulProblem& problem, int max_count) const {
    std::vector<Chosen> found;
    std::string reason;
    if (const auto epilogue = find_epilogue(problem)) {
      add_algorithms(problem, *epilogue, true, max_count, found, reason);
    }
    if (problem.bias && (found.empty() || max_count > 1)) {
      add_algorithms(problem, CUBLASLT_EPILOGUE_DEFAULT, false, max_count, found, reason);
    }
    if (!found.empty()) return found;
    throw DeviceError(concat("cuBLASLt has no algorithm for the ", to_string(problem), " (", reason,
                             "); use another precision or layer size"));
  }

  void add_algorithms(const MatmulProblem& problem, cublasLtEpilogue_t epilogue, bool fused,
                      int max_count, std::vector<Chosen>& found, std::string& reason) const {
    const Parts parts(problem, epilogue);
    std::vector<cublasLtMatmulHeuristicResult_t> results(max_count);
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_.get(), parts.description.get(), parts.b.get(), parts.a.get(), parts.c.get(),
        parts.c.get(), preference_.get(), max_count, results.data(), &count);
    if (status != CUBLAS_STATUS_SUCCESS || count < 1) {
      reason = cublasLtGetStatusName(status);
      return;
    }
    results.resize(std::min(count, max_count));
    for (const cublasLtMatmulHeuristicResult_t& result : results) {
      if (result.state == CUBLAS_STATUS_SUCCESS) {
        found.push_back({result.algo, static_cast<std::int64_t>(result.workspaceSize), fused});
      } else if (found.empty()) {
        reason = cublasLtGetStatusName(result.state);
      }
    }
  }

  Chosen find_fastest(const MatmulProblem& problem) const {
    const std::vector<Chosen> found = algorithms(problem, kMaxTimedAlgorithms);
    std::vector<std::unique_ptr<CublasMatmul>> products;
    std::vector<Candidate> candidates;
    for (const Chosen& chosen : found) {
      products.push_back(make(problem, chosen, true));
      candidates.push_back(make_candidate(*products.back(), problem));
    }
    return found[fastest(candidates, *timer_)];
  }

  static Candidate make_candidate(CublasMatmul& product, const MatmulProblem& p) {
    const auto values = [](std::int64_t count, DType type) {
      return TunedMemory{count * static_cast<std::int64_t>(size_of(type)), type};
    };
    return {product.describe(),
            {values(p.m * p.k, p.type),
             values(p.k * p.n, p.type),
             values(p.bias ? p.n : 0, p.bias_type),
             values(p.m * p.n, p.result),
             {product.workspace_bytes()}},
            [&product](const std::vector<void*>& memory, cudaStream_t stream) {
              product.run(memory[0], memory[1], memory[2], memory[3], memory[4], stream);
            }};
  }

  Handle handle_;
  Preference preference_;
  std::shared_ptr<CandidateTimer> timer_;
  std::string device_;
  PlanCache cache_;
};

// Counts as the product that cuBLASLt would run.
class MatmulBound final : public Matmul {
 public:
  explicit MatmulBound(const MatmulProblem& problem)
      : after_{problem, problem.bias && find_epilogue(problem).has_value()} {}
  std::int64_t workspace_bytes() const override { return kMaxWorkspace; }
  std::string describe() const override {
    return concat("cublasLt, at most ", kMaxWorkspace / 1024, " KiB");
  }
  void run(const void*, const void*, const void* bias, void* c, void* workspace,
           cudaStream_t stream) override {
    CountedWork* counted = CountedWork::current();
    if (counted == nullptr) {
      throw DeviceError(
          "a matrix product planned for a device that is not here was run; internal error, please "
          "report it");
    }
    ++counted->library_calls;
    after_.run(bias, c, workspace, stream);
  }

 private:
  AfterProduct after_;
};

class MatmulBounds final : public MatmulPlanner {
 public:
  std::unique_ptr<Matmul> plan(const MatmulProblem& problem) override {
    return std::make_unique<MatmulBound>(problem);
  }
};

}  // namespace

std::unique_ptr<MatmulPlanner> make_matmul_bounds() { return std::make_unique<MatmulBounds>(); }

std::unique_ptr<MatmulPlanner> make_matmul_planner(const MatmulOptions& options) {
  return std::make_unique<CublasPlanner>(options);
}

}  // namespace trainer::backend::cuda

// cuBLASLt's functions. Follows "Using the cuBLASLt API" of the cuBLAS manual
// (docs.nvidia.com/cuda/cublas/index.html#using-the-cublaslt-api): cublasLtMatmul (with its table
// of supported types), cublasLtMatmulAlgoGetHeuristic, cublasLtMatrixLayoutCreate,
// cublasLtGetVersion, cublasLtMatmulDescAttributes_t, cublasLtMatmulPreferenceAttributes_t and
// cublasLtEpilogue_t. Matrices lie column by column: element (i, j) is at i + j * ld. What max(x,
// 0) of the relu epilogue is for a NaN the manual leaves open; the library gives 0: "Incorrect
// result of cublasLtMatmul with CUBLASLT_EPILOGUE_RELU when input is NaN"
// (forums.developer.nvidia.com, topic 329783).
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

#include "cuda/fake_cudnn/fake_cudnn.h"
#include "cuda/fake_cudnn/values.h"
#include "cuda/fake_runtime/tsan.h"

struct cublasLtContext {
  int unused = 0;
};

namespace fake {
namespace {

struct Refused : std::runtime_error {
  explicit Refused(cublasStatus_t code) : std::runtime_error("refused"), status(code) {}
  cublasStatus_t status;
};
[[noreturn]] void refuse_call(cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE) {
  throw Refused(status);
}

struct Description {
  cublasComputeType_t compute{};
  cudaDataType_t scale{};
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int bias_type = -1;  // -1: as the result
};

struct Layout {
  cudaDataType_t type{};
  std::int64_t rows = 0, columns = 0, ld = 0;
};

struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::map<cublasLtMatmulPreferenceAttributes_t, std::uint32_t> alignments{
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 256},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 256},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 256},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 256}};
};

// What the fake keeps in cublasLtMatmulAlgo_t.
struct Algorithm {
  std::uint64_t magic = 0, workspace = 0;
  std::int64_t m = 0, n = 0, k = 0;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;  // alignments that it counts on
  bool sums_in_result_type = false;          // it then leaves NaN
  std::uint8_t bias = 1;                     // alignment of the address that the heuristic saw
  std::uint16_t index = 0;                   // in the heuristic's list
};
constexpr int kAlgorithms = 3;  // for each product
// The alignment of vector loads; no algorithm counts on more.
constexpr std::uint8_t kMaxBiasAlignment = 64;
constexpr std::uint64_t kMagic = 0x66616b65416c676f;
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

std::mutex registry_mutex;
auto& live = *new std::set<const void*>;  // never destroyed, as cudnn.cpp

template <class T>
T* make(T value) {
  T* made = new T(value);
  const std::lock_guard lock(registry_mutex);
  live.insert(made);
  return made;
}

template <class T>
T& get(const void* object) {
  const std::lock_guard lock(registry_mutex);
  if (live.count(object) == 0) refuse_call();
  return *static_cast<T*>(const_cast<void*>(object));
}

template <class T>
void destroy(const void* object) {
  T& found = get<T>(object);
  const std::lock_guard lock(registry_mutex);
  live.erase(object);
  delete &found;
}

template <class Call>
cublasStatus_t guarded(const Call& call) {
  try {
    call();
    return CUBLAS_STATUS_SUCCESS;
  } catch (const Refused& refused) {
    return refused.status;
  }
}

Number find_number(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
      return Number::kFloat32;
    case CUDA_R_16BF:
      return Number::kBFloat16;
    case CUDA_R_16F:
      return Number::kFloat16;
    default:
      refuse_call(CUBLAS_STATUS_NOT_SUPPORTED);
  }
}

bool has_bias(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
}
bool has_relu(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
}

// A product's parts by value, so that it can be computed later.
struct Product {
  Description how;
  Layout a, b, c, d;
  std::int64_t m = 0, n = 0, k = 0;
};

// The table of supported types: A and B of one type; C and D of one type, which is theirs or
// float32; sums and factors in float32; TF32 for float32 alone; a bias of D's type.
void check_types(const Product& p) {
  const bool types = p.a.type == p.b.type && p.c.type == p.d.type &&
                     (p.d.type == p.a.type || p.d.type == CUDA_R_32F);
  const bool sums = p.how.scale == CUDA_R_32F &&
                    (p.how.compute == CUBLAS_COMPUTE_32F ||
                     (p.how.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.type == CUDA_R_32F));
  find_number(p.a.type);
  if (!types || !sums) refuse_call(CUBLAS_STATUS_NOT_SUPPORTED);
  if (p.how.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return;
  if (!settings().fuses || !(has_bias(p.how.epilogue) || has_relu(p.how.epilogue))) {
    refuse_call(CUBLAS_STATUS_NOT_SUPPORTED);
  }
  if (has_bias(p.how.epilogue) && p.how.bias_type != -1 && p.how.bias_type != p.d.type) {
    refuse_call(CUBLAS_STATUS_NOT_SUPPORTED);
  }
}

Product make_product(cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  Product p{get<Description>(how), get<Layout>(a), get<Layout>(b), get<Layout>(c), get<Layout>(d)};
  const bool ta = p.how.transpose_a == CUBLAS_OP_T, tb = p.how.transpose_b == CUBLAS_OP_T;
  p.m = ta ? p.a.columns : p.a.rows;
  p.k = ta ? p.a.rows : p.a.columns;
  p.n = tb ? p.b.rows : p.b.columns;
  if ((tb ? p.b.columns : p.b.rows) != p.k) refuse_call();
  for (const Layout* result : {&p.c, &p.d}) {
    if (result->rows != p.m || result->columns != p.n) refuse_call();
  }
  check_types(p);
  return p;
}

struct Pointers {
  const void *a, *b, *c;
  void* d;
  float alpha, beta;
};

void multiply(const Product& p, const Pointers& at, bool leaves_nan) {
  const auto factor = [&p](const void* from, const Layout& l, bool transposed, std::int64_t i,
                           std::int64_t j) {
    const double value = load(from, transposed ? j + i * l.ld : i + j * l.ld, find_number(l.type));
    return p.how.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? rounded_to_tf32(value) : value;
  };
  std::vector<double> a(static_cast<std::size_t>(p.m * p.k));  // row by row
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t k = 0; k < p.k; ++k) {
      a[static_cast<std::size_t>(i * p.k + k)] =
          factor(at.a, p.a, p.how.transpose_a == CUBLAS_OP_T, i, k);
    }
  }
  std::vector<double> column(static_cast<std::size_t>(p.k));
  for (std::int64_t j = 0; j < p.n; ++j) {
    for (std::int64_t k = 0; k < p.k; ++k) {
      column[static_cast<std::size_t>(k)] =
          factor(at.b, p.b, p.how.transpose_b == CUBLAS_OP_T, k, j);
    }
    for (std::int64_t i = 0; i < p.m; ++i) {
      const double* row = a.data() + i * p.k;
      double sum = 0;
      for (std::int64_t k = 0; k < p.k; ++k) sum += row[k] * column[static_cast<std::size_t>(k)];
      sum *= at.alpha;
      if (at.beta != 0) sum += at.beta * load(at.c, i + j * p.c.ld, find_number(p.c.type));
      if (has_bias(p.how.epilogue)) sum += load(p.how.bias, i, find_number(p.d.type));
      if (has_relu(p.how.epilogue) && !(sum > 0)) sum = 0;
      if (leaves_nan) sum = std::numeric_limits<double>::quiet_NaN();
      store(at.d, i + j * p.d.ld, find_number(p.d.type), sum);
    }
  }
}

bool is_aligned(const void* address, std::uint32_t alignment) {
  return address != nullptr && reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

void set_attribute(Description& d, cublasLtMatmulDescAttributes_t name, const void* value,
                   std::size_t size) {
  const std::size_t expected = name == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? sizeof(void*) : 4;
  if (value == nullptr || size != expected) refuse_call();
  if (name == CUBLASLT_MATMUL_DESC_BIAS_POINTER) {
    std::memcpy(&d.bias, value, size);
    return;
  }
  std::int32_t number = 0;
  std::memcpy(&number, value, size);
  if (settings().before_matmul_attribute) settings().before_matmul_attribute(name, number);
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      d.transpose_a = static_cast<cublasOperation_t>(number);
      return;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      d.transpose_b = static_cast<cublasOperation_t>(number);
      return;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      d.epilogue = static_cast<cublasLtEpilogue_t>(number);
      return;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      d.bias_type = number;
      return;
    default:
      refuse_call();
  }
}

void set_attribute(Preference& p, cublasLtMatmulPreferenceAttributes_t name, const void* value,
                   std::size_t size) {
  if (value == nullptr) refuse_call();
  if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    if (size != sizeof p.workspace) refuse_call();
    std::memcpy(&p.workspace, value, size);
    return;
  }
  const auto alignment = p.alignments.find(name);
  const bool reductions = name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK;
  if (size != 4 || (alignment == p.alignments.end() && !reductions)) refuse_call();
  std::memcpy(reductions ? &p.reductions : &alignment->second, value, size);
}

// Each algorithm of the list needs half the workspace of the one before.
Algorithm choose(const Product& p, const Preference& preference, int index) {
  Algorithm chosen{kMagic, static_cast<std::uint64_t>(settings().workspace_bytes), p.m, p.n, p.k};
  chosen.index = static_cast<std::uint16_t>(index);
  chosen.workspace >>= chosen.index;
  chosen.workspace = std::min(chosen.workspace, preference.workspace);
  constexpr std::uint32_t kInResultType =
      CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  chosen.sums_in_result_type =
      p.d.type != CUDA_R_32F && (preference.reductions & kInResultType) != 0;
  chosen.a = preference.alignments.at(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  chosen.b = preference.alignments.at(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  chosen.c = preference.alignments.at(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  chosen.d = preference.alignments.at(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  if (has_bias(p.how.epilogue)) {
    while (chosen.bias < kMaxBiasAlignment && is_aligned(p.how.bias, 2u * chosen.bias)) {
      chosen.bias = static_cast<std::uint8_t>(2 * chosen.bias);
    }
  }
  return chosen;
}

void check_pointers(const Product& p, const Algorithm& chosen, const Pointers& at) {
  if (chosen.magic != kMagic || chosen.m != p.m || chosen.n != p.n || chosen.k != p.k)
    refuse_call();
  if (!is_aligned(at.a, chosen.a) || !is_aligned(at.b, chosen.b) || !is_aligned(at.c, chosen.c) ||
      !is_aligned(at.d, chosen.d)) {
    refuse_call();
  }
  const auto element = static_cast<std::uint32_t>(size_of(find_number(p.d.type)));
  const auto bias = std::max<std::uint32_t>(element, chosen.bias);
  if (has_bias(p.how.epilogue) && !is_aligned(p.how.bias, bias)) refuse_call();
}

}  // namespace

std::size_t live_cublas_objects() {
  const std::lock_guard lock(registry_mutex);
  return live.size();
}

}  // namespace fake

extern "C" {

using namespace fake;

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "the fake rejects it"; }

size_t cublasLtGetVersion() { return settings().cublas_version; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return guarded([&] { *handle = make(cublasLtContext{}); });
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return guarded([&] { destroy<cublasLtContext>(handle); });
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  return guarded([&] {
    Description made;
    made.compute = compute;
    made.scale = scale;
    *description = reinterpret_cast<cublasLtMatmulDesc_t>(make(made));
  });
}
cublasStatus_t cublasLtMatmulDescDestroy(const cublasLtMatmulDesc_t description) {
  return guarded([&] { destroy<Description>(description); });
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t size) {
  return guarded([&] { set_attribute(get<Description>(description), name, value, size); });
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  return guarded([&] {
    const auto height = static_cast<std::int64_t>(rows);
    if (rows < 1 || columns < 1 || ld < height) refuse_call();
    *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
        make(Layout{type, height, static_cast<std::int64_t>(columns), ld}));
  });
}
cublasStatus_t cublasLtMatrixLayoutDestroy(const cublasLtMatrixLayout_t layout) {
  return guarded([&] { destroy<Layout>(layout); });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return guarded(
      [&] { *preference = reinterpret_cast<cublasLtMatmulPreference_t>(make(Preference{})); });
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(const cublasLtMatmulPreference_t preference) {
  return guarded([&] { destroy<Preference>(preference); });
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, size_t size) {
  return guarded([&] { set_attribute(get<Preference>(preference), name, value, size); });
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t how,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  return guarded([&] {
    get<cublasLtContext>(handle);
    if (most < 1) refuse_call();
    *count = 0;
    const Product product = make_product(how, a, b, c, d);
    for (int i = 0; i < std::min(most, kAlgorithms); ++i) {
      const Algorithm chosen = choose(product, get<Preference>(preference), i);
      std::memcpy(&results[i].algo, &chosen, sizeof chosen);
      results[i].workspaceSize = chosen.workspace;
      results[i].state = CUBLAS_STATUS_SUCCESS;
      *count = i + 1;
    }
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t how, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  return guarded([&] {
    get<cublasLtContext>(handle);
    const Product product = make_product(how, a_layout, b_layout, c_layout, d_layout);
    if (algo == nullptr) refuse_call();
    Algorithm chosen;
    std::memcpy(static_cast<void*>(&chosen), algo, sizeof chosen);
    const Pointers at{
        a, b, c, d, *static_cast<const float*>(alpha), *static_cast<const float*>(beta)};
    check_pointers(product, chosen, at);
    const std::size_t bytes = chosen.workspace;
    if (bytes > workspace_bytes || (bytes > 0 && !is_aligned(workspace, 256))) refuse_call();
    const auto run = [=] {
      const Unwatched unwatched;  // the library's own work
      // All bits of the workspace are set: NaN for whoever reads it afterwards.
      if (bytes > 0) std::memset(workspace, 0xff, bytes);
      multiply(product, at, chosen.sums_in_result_type);
    };
    const double seconds = settings().algorithm_seconds ? settings().algorithm_seconds(chosen.index)
                                                        : kSmallKernelSeconds;
    const cudaError_t error = enqueue(stream, "cublasLtMatmul", run, seconds);
    if (error != cudaSuccess) refuse_call(CUBLAS_STATUS_EXECUTION_FAILED);
  });
}

}  // extern "C"

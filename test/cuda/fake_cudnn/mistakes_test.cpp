// Mistakes made on purpose in what reaches the libraries: the comparison with plain loops, or the
// fakes themselves, must find each. This is a test of the tests.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "cuda/fake_cudnn/convolution_cases.h"
#include "cuda/fake_cudnn/fake_cudnn.h"
#include "cuda/fake_cudnn/matmul_cases.h"

namespace trainer::test {
namespace {

using backend::cuda::ConvolutionPlanner;
using backend::cuda::ConvolutionProblem;
using backend::cuda::make_matmul_planner;
using Pass = ConvolutionProblem::Pass;

constexpr double kNoticed = 1000;  // units of precision; rounding is at most 1

// Rows of the table, in all passes, in which the error is large or the fake rejects the work.
struct Findings {
  int wrong = 0, refused = 0, unnoticed = 0;
};

Findings run_table() {
  Findings findings;
  const auto planner = std::make_unique<ConvolutionPlanner>();
  for (auto& [name, problem] : convolution_table()) {
    for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights}) {
      problem.pass = pass;
      try {
        ++(convolution_error(*planner, problem) > kNoticed ? findings.wrong : findings.unnoticed);
      } catch (const DeviceError&) {
        ++findings.refused;
      }
    }
  }
  return findings;
}

constexpr int kRows = 16 * 3;

TEST_CASE("mistakes: no mistake is found in correct plans") {
  const Findings findings = run_table();
  CHECK(findings.wrong + findings.refused == 0);
  CHECK(findings.unnoticed == kRows);
}

TEST_CASE("mistakes: paddings before and after are swapped") {
  const fake::KeepSettings keep;
  fake::settings().before_finalize = [](fake::OpenDescriptor& d) {
    if (d.type() != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) return;
    const auto before = d.integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    d.set_integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
                   d.integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS));
    d.set_integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, before);
  };
  // The five rows with uneven paddings, in every pass.
  CHECK(run_table().wrong == 5 * 3);
}

TEST_CASE("mistakes: the strides' axes are swapped") {
  const fake::KeepSettings keep;
  fake::settings().before_finalize = [](fake::OpenDescriptor& d) {
    if (d.type() != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) return;
    auto strides = d.integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    std::swap(strides[0], strides[1]);
    d.set_integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, strides);
  };
  // The two rows with a stride for each axis: y's extents no longer fit.
  CHECK(run_table().refused == 2 * 3);
}

TEST_CASE("mistakes: the filter is flipped") {
  const fake::KeepSettings keep;
  fake::settings().before_finalize = [](fake::OpenDescriptor& d) {
    if (d.type() != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) return;
    d.set_enumerator(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CONVOLUTION);
  };
  // All rows but the three of 1x1, whose filter is its own mirror image.
  CHECK(run_table().wrong == kRows - 3 * 3);
}

TEST_CASE("mistakes: the filter's layout is HWIO or KCRS") {
  const fake::KeepSettings keep;
  for (const bool hwio : {true, false}) {
    fake::settings().before_finalize = [hwio](fake::OpenDescriptor& d) {
      if (d.type() != CUDNN_BACKEND_TENSOR_DESCRIPTOR) return;
      if (d.integers(CUDNN_ATTR_TENSOR_UNIQUE_ID) != std::vector<std::int64_t>{2}) return;
      const auto e = d.integers(CUDNN_ATTR_TENSOR_DIMENSIONS);
      d.set_integers(CUDNN_ATTR_TENSOR_STRIDES,
                     hwio ? std::vector<std::int64_t>{1, e[0], e[3] * e[1] * e[0], e[1] * e[0]}
                          : std::vector<std::int64_t>{e[1] * e[2] * e[3], e[2] * e[3], e[3], 1});
    };
    // A filter of one input and one output lies the same in HWIO; one of one position or one input,
    // of which the table has five, in KCRS.
    CHECK(run_table().wrong == (hwio ? kRows - 3 : kRows - 5 * 3));
  }
}

TEST_CASE("mistakes: images lie as NCHW") {
  const fake::KeepSettings keep;
  fake::settings().before_finalize = [](fake::OpenDescriptor& d) {
    if (d.type() != CUDNN_BACKEND_TENSOR_DESCRIPTOR) return;
    if (d.integers(CUDNN_ATTR_TENSOR_UNIQUE_ID) != std::vector<std::int64_t>{1}) return;
    const auto e = d.integers(CUDNN_ATTR_TENSOR_DIMENSIONS);
    d.set_integers(CUDNN_ATTR_TENSOR_STRIDES, {e[1] * e[2] * e[3], e[2] * e[3], e[3], 1});
  };
  CHECK(run_table().wrong == kRows - 3);  // one channel lies the same in both layouts
}

TEST_CASE("mistakes: an output extent is one too large") {
  const fake::KeepSettings keep;
  fake::settings().before_finalize = [](fake::OpenDescriptor& d) {
    if (d.type() != CUDNN_BACKEND_TENSOR_DESCRIPTOR) return;
    if (d.integers(CUDNN_ATTR_TENSOR_UNIQUE_ID) != std::vector<std::int64_t>{3}) return;
    auto extents = d.integers(CUDNN_ATTR_TENSOR_DIMENSIONS);
    ++extents[2];
    d.set_integers(CUDNN_ATTR_TENSOR_DIMENSIONS, extents);
  };
  CHECK(run_table().refused == kRows);
}

// The scaling parameters of the three convolutions.
constexpr std::pair<cudnnBackendDescriptorType_t, cudnnBackendAttributeName_t> kAlphas[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA}};
constexpr std::pair<cudnnBackendDescriptorType_t, cudnnBackendAttributeName_t> kBetas[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

TEST_CASE("mistakes: a result is added to what its memory holds, or scaled") {
  const fake::KeepSettings keep;
  for (const auto& [value, parameters] : {std::pair{1.0f, kBetas}, {0.5f, kAlphas}}) {
    for (std::size_t i = 0; i < 3; ++i) {
      fake::settings().before_finalize = [=](fake::OpenDescriptor& d) {
        if (d.type() == parameters[i].first) d.set_float(parameters[i].second, value);
      };
      CHECK(run_table().wrong == kRows / 3);
    }
  }
}

TEST_CASE("mistakes: an operand of a matrix product is transposed") {
  const fake::KeepSettings keep;
  for (const auto operand : {CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB}) {
    fake::settings().before_matmul_attribute = [operand](auto name, std::int32_t& value) {
      if (name == operand) value = value == CUBLAS_OP_N ? CUBLAS_OP_T : CUBLAS_OP_N;
    };
    const auto planner = make_matmul_planner();
    backend::cuda::MatmulProblem problem;
    problem.m = 4;
    problem.n = 6;
    problem.k = 5;
    CHECK_THROWS_AS(planner->plan(problem), DeviceError);
    problem.m = problem.n = problem.k = 5;  // fits either way
    CHECK(matmul_error(*planner, problem) > kNoticed);
  }
}

}  // namespace
}  // namespace trainer::test

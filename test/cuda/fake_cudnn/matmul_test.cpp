// The matrix products of lib/backend/cuda on the fake cuBLASLt against plain loops.
#include "backend/cuda/plans/matmul.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "cuda/fake_cudnn/fake_cudnn.h"
#include "cuda/fake_cudnn/matmul_cases.h"

namespace trainer::test::matmul_test {
namespace {

using backend::cuda::make_matmul_planner;
using backend::cuda::MatmulProblem;

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

TEST_CASE("matrix product: extents, transposed operands, types, bias and relu are correct") {
  const fake::KeepSettings keep;
  const auto planner = make_matmul_planner();
  for (MatmulProblem problem : matmul_table()) {
    for (const bool fuses : {true, false}) {
      fake::settings().fuses = fuses;
      fake::settings().workspace_bytes = fuses ? 4096 : 0;  // then the kernels alone need one
      for (const DType bias_type : {DType::kFloat32, problem.result}) {
        problem.bias_type = bias_type;
        CAPTURE(matmul_name(problem));
        CAPTURE(fuses);
        const bool fused = fuses && (!problem.bias || bias_type == problem.result);
        // Kernels of their own round to the type each time.
        CHECK(matmul_error(*planner, problem) <= (fused ? 1 : 3));
        const std::string text = planner->plan(problem)->describe();
        CHECK((text.find("then bias") != std::string::npos) == (problem.bias && !fused));
        CHECK((text.find("then relu") != std::string::npos) == problem.relu);
      }
    }
  }
}

TEST_CASE("matrix product: TF32 rounds when asked and not otherwise") {
  const auto planner = make_matmul_planner();
  MatmulProblem problem;
  problem.m = problem.n = 4;
  problem.k = 40;
  problem.tf32 = true;
  CHECK(matmul_error(*planner, problem) <= 1);
  problem.tf32 = false;
  CHECK(matmul_error(*planner, problem) <= 1);
  problem.tf32 = true;
  problem.type = problem.result = DType::kFloat16;
  CHECK(matmul_error(*planner, problem) <= 1);
}

TEST_CASE("matrix product: the error of no algorithm names the problem") {
  const fake::KeepSettings keep;
  fake::settings().before_matmul_attribute = [](auto name, std::int32_t& value) {
    if (name == CUBLASLT_MATMUL_DESC_TRANSA) value = CUBLAS_OP_T;
  };
  MatmulProblem problem;
  problem.m = 4;
  problem.n = 5;
  problem.k = 6;
  CHECK_THROWS_WITH_AS(
      make_matmul_planner()->plan(problem),
      doctest::Contains("no algorithm for the matrix product 4x5x6 float32 to float32 "
                        "(CUBLAS_STATUS_INVALID_VALUE)"),
      DeviceError);
}

TEST_CASE("matrix product: a problem that cannot be computed is an error") {
  const auto planner = make_matmul_planner();
  MatmulProblem problem;
  problem.m = problem.n = problem.k = 4;
  problem.type = DType::kBFloat16;
  problem.result = DType::kFloat16;
  CHECK_THROWS_WITH_AS(planner->plan(problem),
                       doctest::Contains("matrix product 4x4x4 bfloat16 to float16: expected"),
                       DeviceError);
  problem.result = DType::kBFloat16;
  problem.k = 0;
  CHECK_THROWS_AS(planner->plan(problem), DeviceError);
}

TEST_CASE(
    "matrix product: no objects of cuBLASLt are left after planners and plans are destroyed") {
  const std::size_t before = fake::live_objects();
  {
    const auto planner = make_matmul_planner();
    const auto plan = planner->plan(matmul_table()[0]);
    CHECK(plan->describe().starts_with("cublasLt, 4 KiB"));
    CHECK(fake::live_objects() > before);
  }
  CHECK(fake::live_objects() == before);
}

}  // namespace
}  // namespace trainer::test::matmul_test

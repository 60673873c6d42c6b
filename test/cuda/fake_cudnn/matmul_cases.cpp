#include "cuda/fake_cudnn/matmul_cases.h"

#include <stdexcept>

#include "base/error.h"
#include "cuda/fake_cudnn/support.h"

namespace trainer::test {

using backend::cuda::MatmulProblem;

std::vector<MatmulProblem> matmul_table() {
  std::vector<MatmulProblem> table;
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const DType result : {DType::kFloat32, type}) {
      for (int bits = 0; bits < 16; ++bits) {
        MatmulProblem p;
        p.type = type;
        p.result = result;
        p.m = 3 + bits % 3;
        p.n = 7;
        p.k = 5;
        p.transpose_a = (bits & 1) != 0;
        p.transpose_b = (bits & 2) != 0;
        p.bias = (bits & 4) != 0;
        p.relu = (bits & 8) != 0;
        table.push_back(p);
      }
    }
  }
  MatmulProblem row;
  row.m = 1;
  row.n = 9;
  row.k = 17;
  table.push_back(row);
  row.m = 9;
  row.n = row.k = 1;
  table.push_back(row);
  return table;
}

std::string matmul_name(const MatmulProblem& p) {
  return concat(p.m, 'x', p.n, 'x', p.k, ' ', to_string(p.type), " to ", to_string(p.result),
                p.transpose_a ? ", a transposed" : "", p.transpose_b ? ", b transposed" : "",
                p.bias ? ", bias" : "", p.relu ? ", relu" : "");
}

double matmul_error(backend::cuda::MatmulPlanner& planner, const MatmulProblem& p) {
  const auto a = DeviceArray::random(p.type, p.m * p.k, 1);
  const auto b = DeviceArray::random(p.type, p.k * p.n, 2);
  const auto bias = DeviceArray::random(p.bias_type, p.n, 3);
  DeviceArray c(p.result, p.m * p.n);
  const auto plan = planner.plan(p);
  Workspace workspace(plan->workspace_bytes());
  plan->run(a.data(), b.data(), p.bias ? bias.data() : nullptr, c.data(), workspace.data(),
            nullptr);
  if (!workspace.is_kept_to()) throw std::logic_error("a plan wrote behind its workspace");

  const auto factor = [&p](double value) { return p.tf32 ? fake::rounded_to_tf32(value) : value; };
  std::vector<double> expected;
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = p.bias ? bias[j] : 0;
      for (std::int64_t k = 0; k < p.k; ++k) {
        sum += factor(a[p.transpose_a ? k * p.m + i : i * p.k + k]) *
               factor(b[p.transpose_b ? j * p.k + k : k * p.n + j]);
      }
      expected.push_back(p.relu && sum < 0 ? 0 : sum);
    }
  }
  return worst_error(c, expected, p.result);
}

}  // namespace trainer::test

// The rows of test/backend/conformance_conv_test.cpp, which is linked into this program, planned
// instead of run.
#include <doctest/doctest.h>

#include "backend/harness.h"
#include "base/error.h"
#include "cuda/plans/plan_check.h"

namespace trainer::test {

void check(const Case& c) {
  for (const Precision& precision : precisions()) {
    Builder builder(precision.type);
    c.build(builder);
    for (const std::int64_t samples : c.batches) {
      for (const auto& problem : list_convolutions(builder.graph, samples, precision.tf32)) {
        check_plan(problem, Expect::kEngine);
      }
    }
  }
}

}  // namespace trainer::test

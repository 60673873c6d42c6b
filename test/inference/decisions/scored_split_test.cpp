// Scores that results are computed from.
#include "inference/decisions/scored_split.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "base/error.h"

namespace trainer::inference {

TEST_CASE("check_scores: the error of a logit that is not a finite number names its sample") {
  std::vector<float> logits{0, 1, 2, 3, 4, 5};
  CHECK_NOTHROW(check_scores(logits, 2, Split::kValidation));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    logits[3] = bad;
    CHECK_THROWS_WITH_AS(check_scores(logits, 2, Split::kValidation),
                         doctest::Contains("sample 1 is not a finite number"), DataError);
  }
  CHECK_THROWS_WITH_AS(check_scores(std::vector<float>(), 2, Split::kValidation),
                       doctest::Contains("has no samples"), DataError);
}

}  // namespace trainer::inference

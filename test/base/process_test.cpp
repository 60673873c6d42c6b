#include "base/process/process.h"

#include <doctest/doctest.h>

#include <cstdlib>

namespace trainer {

TEST_CASE("environment_variables keeps all of the text after the first = of a value") {
  ::setenv("TRAINER_TEST_VARIABLE", "a=b", 1);
  ::setenv("TRAINER_TEST_EMPTY", "", 1);
  const auto variables = environment_variables();
  CHECK(variables.at("TRAINER_TEST_VARIABLE") == "a=b");
  CHECK(variables.at("TRAINER_TEST_EMPTY") == "");
}

}  // namespace trainer

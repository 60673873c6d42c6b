// Runs the test cases of one program. Exit codes: 0 all passed, 1 a check failed, 77 none failed
// and something was skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "support/skip.h"

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit() || result != 0) return result;
  return trainer::test::something_was_skipped ? trainer::test::kSkippedExitCode : 0;
}

// Runs the test cases of one program. Exit codes: 0 all passed, 1 a check failed or no test case
// has the name asked for, 77 none failed and something was skipped.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>

#include "support/skip.h"

namespace {

// Counts the test cases that the filters of the command line leave.
struct CaseCounter : doctest::IReporter {
  static inline unsigned selected = 0;

  explicit CaseCounter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    selected = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

REGISTER_LISTENER("case_counter", 1, CaseCounter);

}  // namespace

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit() || result != 0) return result;
  if (CaseCounter::selected == 0) {
    // CMake's lists cut the name of a test case at a semicolon.
    std::cerr << "no test case has this name; a name must not contain ';'\n";
    return 1;
  }
  return trainer::test::something_was_skipped ? trainer::test::kSkippedExitCode : 0;
}

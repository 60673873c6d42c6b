// A test case that cannot run here prints why and shows as skipped in ctest.
#pragma once

#include <iostream>
#include <string_view>

namespace trainer::test {

// The exit code of a test program in which nothing failed and something was skipped. ctest has it
// as SKIP_RETURN_CODE; a failure outweighs a skip.
constexpr int kSkippedExitCode = 77;

inline bool something_was_skipped = false;

// Prints one line and makes the program end with kSkippedExitCode unless a check fails.
inline void report_skip(std::string_view reason) {
  something_was_skipped = true;
  std::cout << "[skipped] " << reason << std::endl;
}

// Does the same for lack of a program that scripts/install_deps.sh --test installs. scripts/test.sh
// fails on this line.
inline void report_missing(std::string_view program) {
  something_was_skipped = true;
  std::cout << "[missing] " << program << std::endl;
}

}  // namespace trainer::test

// Ends the test case. For the body of a TEST_CASE, or a void function at its end.
#define TRAINER_SKIP(reason)              \
  do {                                    \
    ::trainer::test::report_skip(reason); \
    return;                               \
  } while (false)

#define TRAINER_SKIP_MISSING(program)         \
  do {                                        \
    ::trainer::test::report_missing(program); \
    return;                                   \
  } while (false)

// Ends the program at an index outside its bounds, in the folders that are compiled with
// _GLIBCXX_ASSERTIONS. The function of the same name in libstdc++ came with version 3.4.30, which
// RHEL 9 and Amazon Linux 2023 lack.
#include <cstdio>
#include <cstdlib>

namespace std {  // NOLINT(cert-dcl58-cpp)

// NOLINTNEXTLINE(bugprone-reserved-identifier)
[[noreturn]] void __glibcxx_assert_fail(const char* file, int line, const char* function,
                                        const char* condition) noexcept {
  std::fprintf(stderr, "%s:%d: %s: '%s' is false; internal error, please report it\n", file, line,
               function, condition);
  std::abort();
}

}  // namespace std

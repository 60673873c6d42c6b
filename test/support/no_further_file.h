// The limit of open files, met.
#pragma once

#include <doctest/doctest.h>
#include <sys/resource.h>

namespace trainer::test {

// Lets this process open no further file while it exists.
class NoFurtherFile {
 public:
  NoFurtherFile() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlimit none = before_;
    none.rlim_cur = 0;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoFurtherFile() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoFurtherFile(const NoFurtherFile&) = delete;
  NoFurtherFile& operator=(const NoFurtherFile&) = delete;

 private:
  rlimit before_{};
};

}  // namespace trainer::test

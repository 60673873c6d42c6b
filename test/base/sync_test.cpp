#include "base/files/sync.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cerrno>
#include <functional>

#include "base/error.h"
#include "base/files/append_file.h"
#include "support/fail_system_calls.h"

namespace trainer {
namespace {

// Returns the result of `call` in a child whose fsync() fails with `error`.
int call_without_sync(int error, const std::function<int()>& call) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (!test::fail_system_call(SYS_fsync, error)) ::_exit(100);
    try {
      ::_exit(call());
    } catch (const std::exception&) {
      ::_exit(101);
    }
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("files: a file is written without an error where the file system cannot sync") {
  for (const int error : {EINVAL, ENOTSUP, ENOSYS}) {
    CAPTURE(error);
    const TemporaryFolder folder;
    const int result = call_without_sync(error, [&] {
      write_file_atomic(folder.path() / "a", "1");
      AppendFile rows(folder.path() / "rows");
      rows.append("2");
      rows.sync();
      sync_path(folder.path());
      return can_sync_folder(folder.path()) ? 1 : 0;
    });
    CHECK(result == 0);
    CHECK(read_text_file(folder.path() / "a") == "1");
    CHECK(read_text_file(folder.path() / "rows") == "2");
    CHECK(can_sync_folder(folder.path()));
  }
}

TEST_CASE("files: a disk that fails during a sync gives an error and keeps the old content") {
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "a", "0");
  CHECK(call_without_sync(EIO, [&] {
          write_file_atomic(folder.path() / "a", "1");
          return 0;
        }) == 101);
  CHECK(call_without_sync(EIO, [&] {
          AppendFile rows(folder.path() / "rows");
          rows.append("2");
          rows.sync();
          return 0;
        }) == 101);
  CHECK(call_without_sync(EIO, [&] { return can_sync_folder(folder.path()) ? 0 : 1; }) == 0);
  CHECK(read_text_file(folder.path() / "a") == "0");
}

}  // namespace trainer

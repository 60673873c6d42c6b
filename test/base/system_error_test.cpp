#include "base/system_error.h"

#include <doctest/doctest.h>

#include <cerrno>

#include "base/error.h"
#include "base/files/append_file.h"
#include "base/files/files.h"
#include "support/no_further_file.h"
#include "support/skip.h"

namespace trainer {
namespace {

// Returns the message of the Error that `call` throws, and checks whether it is a DataError.
template <class Call>
std::string catch_message(bool is_data_error, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == kExitData);
    CHECK((dynamic_cast<const DataError*>(&error) != nullptr) == is_data_error);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("describe_system_error names limits that the user can raise, and the remedy") {
  CHECK(describe_system_error(EMFILE) ==
        "Too many open files; raise the limit of open files of this process (ulimit -n)");
  CHECK(describe_system_error(ENFILE).find("Too many open files in system; close other programs") ==
        0);
  CHECK(describe_system_error(EFBIG) ==
        "File too large; raise the limit on the size of a file of this process (ulimit -f)");
  CHECK(describe_system_error(ENAMETOOLONG).find("File name too long; choose a shorter name") == 0);
  CHECK(describe_system_error(ENOSPC) == "No space left on device");
}

TEST_CASE("read_file does not count a file as damaged at the limit of open files") {
#ifdef __SANITIZE_ADDRESS__
  TRAINER_SKIP("the check of virtual tables in UBSan needs a file descriptor itself");
#endif
  const TemporaryFolder folder;
  const Path path = folder.path() / "image.png";
  write_file_atomic(path, "x");
  std::string read, written, appended;
  {
    const test::NoFurtherFile limit;
    read = catch_message(false, [&] { read_file(path); });
    written = catch_message(true, [&] { write_file_atomic(path, "y"); });
    appended = catch_message(true, [&] { AppendFile file(path); });
  }
  for (const std::string& message : {read, written, appended}) {
    CHECK(message.find(path.string()) == 0);
    CHECK(message.find("Too many open files; raise the limit of open files of this process "
                       "(ulimit -n)") != std::string::npos);
  }
  CHECK(read_text_file(path) == "x");
}

TEST_CASE("write_file_atomic suggests a remedy for a name that is too long") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(
      write_file_atomic(folder.path() / std::string(300, 'x'), "y"),
      doctest::Contains("File name too long; choose a shorter name, or a folder with a shorter"),
      DataError);
}

}  // namespace trainer

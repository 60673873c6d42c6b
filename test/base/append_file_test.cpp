#include "base/files/append_file.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace trainer {

TEST_CASE("AppendFile: text is kept until flush(), and appended to the content of the file") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "rows";
  write_file_atomic(path, "a\n");
  AppendFile file(path);
  file.append("b\n");
  CHECK(read_text_file(path) == "a\n");
  file.flush();
  CHECK(read_text_file(path) == "a\nb\n");
  file.append("c\n");
  file.sync();
  CHECK(read_text_file(path) == "a\nb\nc\n");
  { AppendFile(path).append("d\n"); }
  CHECK(read_text_file(path) == "a\nb\nc\nd\n");
}

TEST_CASE("AppendFile notices a file that is moved, removed, replaced or emptied") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "rows", other = folder.path() / "other";
  AppendFile file(path);
  CHECK(file.is_in_place());
  file.append("a\n");
  file.flush();
  CHECK(file.is_in_place());
  std::string kept;
  SUBCASE("moved") { std::filesystem::rename(path, other); }
  SUBCASE("removed") { std::filesystem::remove(path); }
  SUBCASE("emptied") { std::filesystem::resize_file(path, 0); }
  SUBCASE("replaced") {
    kept = "theirs\n";
    write_file_atomic(path, kept);
  }
  CHECK_FALSE(file.is_in_place());
  file.append("b\n");
  file.reopen("head\n");
  CHECK(file.is_in_place());
  file.flush();
  CHECK(read_text_file(path) == (kept.empty() ? "head\nb\n" : "theirs\nb\n"));
}

TEST_CASE("AppendFile reports the reason of a system call that fails") {
  const TemporaryFolder folder;
  const Path inner = folder.path() / "inner";
  std::filesystem::create_directory(inner);
  AppendFile file(inner / "rows");
  std::filesystem::remove_all(inner);
  CHECK_THROWS_WITH_AS(file.reopen(""), doctest::Contains("was its folder moved or removed?"),
                       DataError);
  CHECK_THROWS_WITH_AS(AppendFile(folder.path() / std::string(300, 'x')),
                       doctest::Contains("cannot open: File name too long"), DataError);
  CHECK_THROWS_WITH_AS(AppendFile{folder.path()}, doctest::Contains("cannot open: Is a directory"),
                       DataError);
  if (!std::filesystem::exists("/dev/full")) return;
  AppendFile full("/dev/full");
  full.append("a");
  CHECK_THROWS_WITH_AS(full.flush(), doctest::Contains("cannot write: No space left on device"),
                       DataError);
}

}  // namespace trainer

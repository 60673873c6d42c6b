#include "base/files/random_access_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>

#include "base/error.h"

namespace trainer {
namespace {

std::string read_part(const RandomAccessFile& file, std::uint64_t offset, std::size_t size) {
  Bytes bytes(size);
  file.read(offset, bytes);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("RandomAccessFile reads any part of a file, also of a large one") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "x";
  write_file_atomic(path, "0123456789");
  const RandomAccessFile file(path);
  CHECK(file.size() == 10);
  CHECK(read_part(file, 3, 4) == "3456");
  CHECK(read_part(file, 0, 10) == "0123456789");
  CHECK(read_part(file, 10, 0).empty());
  // The end of a file of 5 GB, which takes no space.
  std::filesystem::resize_file(path, 5'000'000'000);
  const RandomAccessFile large(path);
  CHECK(large.size() == 5'000'000'000);
  CHECK(read_part(large, 4'999'999'998, 2) == std::string(2, '\0'));
  CHECK(read_part(large, 9, 2) == std::string("9\0", 2));
}

TEST_CASE("RandomAccessFile names a file that is cut") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "x";
  write_file_atomic(path, "0123456789");
  const RandomAccessFile file(path);
  std::filesystem::resize_file(path, 5);
  CHECK(file.size() == 10);
  CHECK(read_part(file, 3, 2) == "34");
  const std::string error = path.string() + ": the file became shorter while it was read";
  CHECK_THROWS_WITH_AS(read_part(file, 3, 3), error.c_str(), DataError);
  CHECK_THROWS_WITH_AS(read_part(file, 8, 1), error.c_str(), DataError);
}

TEST_CASE("RandomAccessFile reads the file that was opened after it is replaced or removed") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "x";
  write_file_atomic(path, "0123456789");
  const RandomAccessFile file(path);
  write_file_atomic(path, "other");
  CHECK(read_part(file, 3, 4) == "3456");
  std::filesystem::remove(path);
  CHECK(read_part(file, 0, 10) == "0123456789");
}

TEST_CASE("RandomAccessFile gives the reason for what is not a file") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(RandomAccessFile(folder.path() / "none"), doctest::Contains("No such file"),
                       DataError);
  CHECK_THROWS_WITH_AS(RandomAccessFile(folder.path()), doctest::Contains("is a folder"),
                       DataError);
  const Path fifo = folder.path() / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(RandomAccessFile{fifo}, doctest::Contains("is a FIFO"), DataError);
}

}  // namespace trainer

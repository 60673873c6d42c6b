#include "data/samples/records.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "base/error.h"

namespace trainer::data {
namespace {

std::vector<std::uint8_t> fill_record(std::size_t bytes) {
  std::vector<std::uint8_t> record(bytes);
  for (std::size_t i = 0; i < bytes; ++i) record[i] = static_cast<std::uint8_t>(i * 7 + 1);
  return record;
}

// True if files of this folder can have their space taken beforehand.
bool reserves(const Path& folder) {
  const Path probe = folder / "probe";
  const int file = ::open(probe.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const bool can = ::fallocate(file, 0, 0, 4096) == 0;
  ::close(file);
  std::filesystem::remove(probe);
  return can;
}

}  // namespace

TEST_CASE("records: a file has its disk space from the start and keeps its content") {
  const TemporaryFolder folder;
  const Path file = folder.path() / "records.bin";
  constexpr std::size_t kRecord = 10'000;
  constexpr std::int64_t kCount = 100;
  const auto first = fill_record(kRecord);
  {
    Records records(file, kCount, kRecord, "");
    records.store(7, first.data());
  }
  for (int opened = 0; opened < 2; ++opened) {
    Records records(file, kCount, kRecord, "");
    struct stat status {};
    REQUIRE(::stat(file.c_str(), &status) == 0);
    CHECK(status.st_size == kCount * static_cast<std::int64_t>(kRecord + 8));
    if (reserves(folder.path())) CHECK(status.st_blocks * 512 >= status.st_size);
    std::vector<std::uint8_t> found(kRecord);
    REQUIRE(records.load(7, found.data()));
    CHECK(found == first);
    CHECK_FALSE(records.holds(6));
  }
  // The records of a file that was cut are missing, and can be kept again.
  std::filesystem::resize_file(file, 10'000);
  {
    Records records(file, kCount, kRecord, "");
    for (std::int64_t index = 0; index < kCount; ++index) CHECK_FALSE(records.holds(index));
    records.store(99, first.data());
    CHECK(records.holds(99));
  }
  // A sparse file, as one whose disk was full, is filled up.
  std::filesystem::resize_file(file, 10'000);
  std::filesystem::resize_file(file, kCount * (kRecord + 8));
  Records records(file, kCount, kRecord, "");
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  if (reserves(folder.path())) CHECK(status.st_blocks * 512 >= status.st_size);
}

TEST_CASE("records: a file larger than the disk is an error and leaves no file") {
  const TemporaryFolder folder;
  const Path file = folder.path() / "records.bin";
  const std::int64_t count = 1'000'000;
  try {
    Records records(file, count, std::size_t{1} << 34, "choose another folder");
    FAIL("16 PiB were found");
  } catch (const DataError& error) {
    const std::string message = error.what();
    CHECK(message.find("MiB are needed; choose another folder") != std::string::npos);
  }
  CHECK(!std::filesystem::exists(file));
}

TEST_CASE("records: an error other than lack of space has its own message") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(
      Records(folder.path() / std::string(300, 'x'), 1, 10, "choose another folder"),
      doctest::Contains("File name too long; choose a shorter name, or a folder with a shorter "
                        "path (choose another folder)"),
      DataError);
}

TEST_CASE("records: a record that is overwritten or truncated while in use is counted as missing") {
  const TemporaryFolder folder;
  const Path file = folder.path() / "records.bin";
  constexpr std::size_t kRecord = 1000;
  const auto content = fill_record(kRecord);
  Records records(file, 3, kRecord, "");
  for (std::int64_t index = 0; index < 3; ++index) records.store(index, content.data());
  std::vector<std::uint8_t> found(kRecord);
  REQUIRE(records.load(1, found.data()));
  {
    const int other = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
    REQUIRE(::pwrite(other, "x", 1, 3 * 8 + kRecord + 500) == 1);
    ::close(other);
  }
  CHECK(records.load(0, found.data()));
  CHECK_FALSE(records.load(1, found.data()));
  CHECK_FALSE(records.holds(1));
  records.store(1, content.data());
  CHECK(records.load(1, found.data()));
  CHECK(found == content);
  std::filesystem::resize_file(file, 3 * 8 + kRecord);  // no signal ends the process
  CHECK(records.load(0, found.data()));
  CHECK_FALSE(records.load(2, found.data()));
  std::filesystem::resize_file(file, 0);
  CHECK_FALSE(records.load(0, found.data()));
}

}  // namespace trainer::data

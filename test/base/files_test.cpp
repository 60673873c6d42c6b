#include "base/files.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

namespace trainer {
namespace {

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::size_t files_in(const Path& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace

TEST_CASE("crc32c gives the published number, in one piece or several, from any start") {
  CHECK(crc32c(bytes_of("123456789")) == 0xe3069283);
  CHECK(crc32c(bytes_of("56789"), crc32c(bytes_of("1234"))) == 0xe3069283);
  CHECK(crc32c({}) == 0);
  const Bytes zeros(32, 0);
  CHECK(crc32c(zeros) == 0x8a9136aa);  // RFC 3720, B.4
}

TEST_CASE("sha256 gives the published digests") {
  Sha256 abc;
  abc.update(bytes_of("a"));
  abc.update(bytes_of("bc"));
  CHECK(abc.hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(Sha256().hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("an atomic write replaces the content and leaves nothing else behind") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "a.txt";
  write_file_atomic(path, "one");
  write_file_atomic(path, "two, longer");
  CHECK(read_text_file(path) == "two, longer");
  write_file_atomic(path, Pieces{bytes_of("in "), bytes_of(""), bytes_of("pieces")});
  CHECK(read_text_file(path) == "in pieces");
  CHECK(read_file_start(path, 2) == Bytes{'i', 'n'});
  CHECK(read_file_start(path, 100).size() == 9);
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("an atomic write that fails half way keeps the old content") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "a.txt";
  write_file_atomic(path, "old");
  // A child process may write no file above 4096 bytes, as if the disk were full.
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_file_atomic(path, std::string(100000, 'x'));
    } catch (const DataError&) {
      ::_exit(7);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(read_text_file(path) == "old");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("errors name the path") {
  const TemporaryFolder folder;
  const Path missing = folder.path() / "missing" / "a.txt";
  CHECK_THROWS_WITH_AS(read_file(missing), doctest::Contains(missing.c_str()), DataError);
  CHECK_THROWS_WITH_AS(write_file_atomic(missing, "x"), doctest::Contains(missing.c_str()),
                       DataError);
  CHECK_THROWS_WITH_AS(read_file(folder.path()), doctest::Contains("is a folder"), DataError);
  // A folder in the file's place: the rename fails, and the temporary file goes.
  std::filesystem::create_directories(folder.path() / "taken" / "inside");
  CHECK_THROWS_AS(write_file_atomic(folder.path() / "taken", "x"), DataError);
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("leftovers of killed writers are removed, other files stay") {
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "a.txt", "a");
  write_file_atomic(folder.path() / "a.txt.tmp.123", "half");
  remove_leftovers(folder.path());
  CHECK(files_in(folder.path()) == 1);
  CHECK(std::filesystem::exists(folder.path() / "a.txt"));
  CHECK_NOTHROW(remove_leftovers(folder.path() / "missing"));
}

}  // namespace trainer

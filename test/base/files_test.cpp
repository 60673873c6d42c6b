#include "base/files/files.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "base/error.h"
#include "base/process/process.h"
#include "support/full_device.h"
#include "support/nameless_file.h"
#include "support/skip.h"

namespace trainer {
namespace {

std::span<const std::uint8_t> to_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::size_t files_in(const Path& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace

TEST_CASE("crc32c has the published checksums, in one piece or several") {
  CHECK(crc32c(to_bytes("123456789")) == 0xe3069283);
  CHECK(crc32c(to_bytes("56789"), crc32c(to_bytes("1234"))) == 0xe3069283);
  CHECK(crc32c({}) == 0);
  const Bytes zeros(32, 0);
  CHECK(crc32c(zeros) == 0x8a9136aa);  // RFC 3720, B.4
}

TEST_CASE("Sha256 has the published digests, in one piece or several") {
  Sha256 abc;
  abc.update(to_bytes("a"));
  abc.update(to_bytes("bc"));
  CHECK(abc.hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(Sha256().hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("write_file_atomic replaces the content of a file and leaves no other file") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "a.txt";
  write_file_atomic(path, "one");
  write_file_atomic(path, "two, longer");
  CHECK(read_text_file(path) == "two, longer");
  write_file_atomic(path, Pieces{to_bytes("in "), to_bytes(""), to_bytes("pieces")});
  CHECK(read_text_file(path) == "in pieces");
  CHECK(read_file_start(path, 2) == Bytes{'i', 'n'});
  CHECK(read_file_start(path, 100).size() == 9);
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("write_file_atomic keeps the old content where the disk is full") {
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

TEST_CASE("AtomicFileWriter: the file appears with commit(), and without it nothing is left") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "a.txt";
  const auto write = [&](bool whole) {
    AtomicFileWriter file(path);
    for (const char* piece : {"in ", "", "pieces"}) file.write(to_bytes(piece));
    if (whole) file.commit();
  };
  write(false);
  CHECK(files_in(folder.path()) == 0);
  write_file_atomic(path, "old");
  write(false);
  CHECK(read_text_file(path) == "old");
  write(true);
  CHECK(read_text_file(path) == "in pieces");
  CHECK(files_in(folder.path()) == 1);

  const Path link = folder.path() / "link";
  std::filesystem::create_symlink("a.txt", link);
  AtomicFileWriter linked(link);
  linked.write(to_bytes("new"));
  linked.commit();
  CHECK(std::filesystem::is_symlink(link));
  CHECK(read_text_file(path) == "new");

  const Path fifo = folder.path() / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  AtomicFileWriter piped(fifo);
  piped.write(to_bytes("text"));
  piped.commit();
  char read[8] = {};
  CHECK(::read(reader, read, sizeof read) == 4);
  ::close(reader);
  CHECK(std::filesystem::is_fifo(fifo));
  CHECK_THROWS_AS(AtomicFileWriter(folder.path() / "missing" / "a.txt"), DataError);
  CHECK_THROWS_WITH_AS(AtomicFileWriter(folder.path()), doctest::Contains("is a folder"),
                       DataError);
}

TEST_CASE("AtomicFileWriter leaves no file when its process is killed") {
  const TemporaryFolder folder;
  if (!test::has_nameless_files(folder.path())) TRAINER_SKIP("files need a name here");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    AtomicFileWriter file(folder.path() / "a.txt");
    file.write(to_bytes("part"));
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("write_file_atomic leaves a device, a FIFO or a link what it is") {
  const TemporaryFolder folder;
  SUBCASE("a FIFO is written to") {
    const Path path = folder.path() / "fifo";
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
    REQUIRE(reader >= 0);
    write_file_atomic(path, "text");
    char read[8] = {};
    CHECK(::read(reader, read, sizeof read) == 4);
    CHECK(std::string(read) == "text");
    ::close(reader);
    CHECK(std::filesystem::is_fifo(path));
    CHECK(files_in(folder.path()) == 1);
  }
  SUBCASE("a device is written to") {
    const Path path = folder.path() / "full";
    if (!test::make_full_device(path)) TRAINER_SKIP("no device node may be made here");
    CHECK_THROWS_WITH_AS(write_file_atomic(path, "text"),
                         doctest::Contains("cannot write: No space left on device"), DataError);
    CHECK(std::filesystem::is_character_file(path));
    CHECK(files_in(folder.path()) == 1);
  }
  SUBCASE("the target of a link is replaced") {
    std::filesystem::create_directories(folder.path() / "inner");
    write_file_atomic(folder.path() / "inner" / "file", "old");
    const Path link = folder.path() / "link";
    std::filesystem::create_symlink("inner/file", link);
    write_file_atomic(link, "new");
    CHECK(std::filesystem::is_symlink(link));
    CHECK(read_text_file(folder.path() / "inner" / "file") == "new");
  }
  SUBCASE("the target of a link is created") {
    const Path link = folder.path() / "link";
    std::filesystem::create_symlink(folder.path() / "later", link);
    write_file_atomic(link, "new");
    CHECK(std::filesystem::is_symlink(link));
    CHECK(read_text_file(folder.path() / "later") == "new");
  }
  SUBCASE("a folder is an error") {
    const Path path = folder.path() / "folder";
    std::filesystem::create_directory(path);
    CHECK_THROWS_WITH_AS(write_file_atomic(path, "text"),
                         doctest::Contains("is a folder, expected a file"), DataError);
    CHECK(files_in(folder.path()) == 1);
  }
}

TEST_CASE("read_file fails without a wait for a FIFO or a device") {
  const TemporaryFolder folder;
  const Path fifo = folder.path() / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  ::alarm(20);  // ends the test if a call waits for a writer
  CHECK_THROWS_WITH_AS(read_file(fifo), doctest::Contains("is a FIFO, expected a file"), DataError);
  CHECK_THROWS_WITH_AS(read_file_start(fifo, 4), doctest::Contains("is a FIFO"), DataError);
  CHECK_THROWS_WITH_AS(check_regular_file(fifo), doctest::Contains("is a FIFO"), DataError);
  CHECK_THROWS_WITH_AS(read_text_file("/dev/null"), doctest::Contains("is a device"), DataError);
  CHECK_THROWS_WITH_AS(check_regular_file(folder.path() / "none"),
                       doctest::Contains("No such file"), DataError);
  ::alarm(0);
}

TEST_CASE("write_file_atomic removes the temporary files of killed writers from the folder") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "a.txt";
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);  // no process has this number now
  const auto leave = [&](const std::string& name, std::chrono::seconds age) {
    const Path file = folder.path() / name;
    write_file_atomic(file, "part");
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - age);
    return file;
  };
  using std::chrono::hours;
  using std::chrono::seconds;
  const std::string gone = std::to_string(child), running = std::to_string(::getppid());
  const std::string here = ".tmp." + host_name() + ".", elsewhere = ".tmp.node7.example.org.";
  const Path removed[] = {
      leave("a.txt" + here + gone, seconds(0)), leave("b.json" + here + gone, seconds(0)),
      leave("a.txt" + here + running, hours(25)), leave("b.json" + elsewhere + running, hours(25))};
  const Path kept[] = {path,
                       leave("c.json" + here + running, seconds(100)),
                       leave("c.json" + elsewhere + gone, hours(23)),
                       leave("notes.tmp." + gone, hours(25)),
                       leave("notes.tmp.txt", hours(25)),
                       leave("notes" + here + "txt", hours(25))};
  write_file_atomic(path, "whole");
  for (const Path& file : removed) {
    CAPTURE(file.string());
    CHECK_FALSE(std::filesystem::exists(file));
  }
  for (const Path& file : kept) {
    CAPTURE(file.string());
    CHECK(std::filesystem::exists(file));
  }
}

TEST_CASE("check_output_path rejects an output that exists without --overwrite") {
  const TemporaryFolder folder;
  const Path file = folder.path() / "file";
  write_file_atomic(file, "precious");
  CHECK_NOTHROW(check_output_path("--plot", folder.path() / "new", false));
  CHECK_NOTHROW(check_output_path("--plot", file, true));
  CHECK_NOTHROW(check_output_path("--plot", "/dev/null", false));
  CHECK_THROWS_WITH_AS(check_output_path("--plot", file, false),
                       doctest::Contains("exists; replace it with --overwrite"), ConfigError);
  CHECK_THROWS_WITH_AS(check_output_path("--plot", folder.path(), true),
                       doctest::Contains("is a folder; name a file"), ConfigError);
}

TEST_CASE("files: a missing file, a folder and a failed rename are errors with the path") {
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

TEST_CASE("remove_leftovers: temporary files are removed, other files stay") {
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "a.txt", "a");
  write_file_atomic(folder.path() / "a.txt.tmp.123", "half");
  remove_leftovers(folder.path());
  CHECK(files_in(folder.path()) == 1);
  CHECK(std::filesystem::exists(folder.path() / "a.txt"));
  CHECK_NOTHROW(remove_leftovers(folder.path() / "missing"));
}

TEST_CASE("files: line breaks and control characters of a name are spelled out in errors") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "a\nerror: b\x1b[31m.png";
  try {
    read_file(path);
    FAIL("a file that is not there was read");
  } catch (const DataError& error) {
    CHECK(std::string(error.what()) == folder.path().string() +
                                           "/a\\x0aerror: b\\x1b[31m.png: cannot open: No such "
                                           "file or directory");
  }
}

}  // namespace trainer

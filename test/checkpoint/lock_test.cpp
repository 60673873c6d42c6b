#include "checkpoint/lock.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "base/error.h"
#include "checkpoint/run_links.h"

namespace trainer::checkpoint {

TEST_CASE("a second process is told who holds the run, and gets it when the first is killed") {
  const TemporaryFolder folder;
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const RunLock lock(folder.path());
    if (::write(pipe[1], "x", 1) != 1) ::_exit(1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  REQUIRE(::read(pipe[0], &byte, 1) == 1);
  CHECK(is_in_use(folder.path()));
  try {
    const RunLock lock(folder.path());
    FAIL("got a lock that another process holds");
  } catch (const Error& error) {
    CHECK(error.code() == kExitConfig);
    const std::string message = error.what();
    CHECK(message.find("process " + std::to_string(child)) != std::string::npos);
    CHECK(message.find(folder.path().string()) != std::string::npos);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(!is_in_use(folder.path()));
  CHECK_NOTHROW(RunLock(folder.path()));
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_CASE("the lock is given back, and makes the folder it needs") {
  const TemporaryFolder folder;
  const Path run = folder.path() / "runs" / "a";
  CHECK(!is_in_use(run));
  std::optional<RunLock> lock;
  lock.emplace(run);
  CHECK(is_in_use(run));
  CHECK_THROWS_AS(RunLock{run}, Error);
  lock.reset();
  CHECK(!is_in_use(run));
  CHECK_NOTHROW(RunLock{run});
  // Of a process of another machine nothing is known but that it did not give the lock back.
  write_file_atomic(run / "lock", std::string("process 1 on another-machine\n"));
  CHECK(is_in_use(run));
}

TEST_CASE("RunLock: a link in the place of the lock file, an error, and its target stays") {
  const TemporaryFolder folder;
  const Path run = folder.path() / "run", victim = folder.path() / "victim";
  std::filesystem::create_directories(run);
  write_file_atomic(victim, std::string_view("kept"));
  std::filesystem::create_symlink(victim, run / "lock");
  CHECK_THROWS_AS(RunLock{run}, DataError);
  CHECK(read_text_file(victim) == "kept");
}

TEST_CASE("is_in_use: a FIFO in the place of the lock file, no wait for a writer") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder.path() / "lock").c_str(), 0600) == 0);
  CHECK_FALSE(is_in_use(folder.path()));
}

TEST_CASE("check_no_links: links outside of checkpoints, an error with the path") {
  const TemporaryFolder folder;
  const Path& run = folder.path();
  std::filesystem::create_directories(run / "checkpoints");
  std::filesystem::create_directories(run / "plots");
  CHECK_NOTHROW(check_no_links(run / "missing"));
  std::filesystem::create_symlink(run / "elsewhere", run / "checkpoints" / "last.safetensors");
  CHECK_NOTHROW(check_no_links(run));
  for (const char* name : {"report.html", "plots/loss.svg"}) {
    std::filesystem::create_symlink(run / "elsewhere", run / name);
    CHECK_THROWS_WITH_AS(check_no_links(run), doctest::Contains(name), DataError);
    std::filesystem::remove(run / name);
  }
}

}  // namespace trainer::checkpoint

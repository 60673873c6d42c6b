#include "checkpoint/lock.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/process/process.h"
#include "checkpoint/run_links.h"
#include "support/fail_system_calls.h"

namespace trainer::checkpoint {

TEST_CASE(
    "RunLock: a second process gets an error that names the first, and the lock once it is "
    "killed") {
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
  siginfo_t ended{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  CHECK(!is_in_use(folder.path()));  // its parent has yet to ask for the exit code
  ::waitpid(child, nullptr, 0);
  CHECK(!is_in_use(folder.path()));
  CHECK(find_holder_state(folder.path()) == HolderState::kGone);
  CHECK_NOTHROW(RunLock(folder.path()));
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_CASE("RunLock: the folder is created, and the destructor releases the lock") {
  const TemporaryFolder folder;
  const Path run = folder.path() / "runs" / "a";
  CHECK(!is_in_use(run));
  std::optional<RunLock> lock;
  lock.emplace(run);
  CHECK(is_in_use(run));
  CHECK(find_holder_state(run) == HolderState::kThis);
  CHECK_THROWS_AS(RunLock{run}, Error);
  lock.reset();
  CHECK(!is_in_use(run));
  CHECK(find_holder_state(run) == HolderState::kNone);
  CHECK_NOTHROW(RunLock{run});
  // All that is known of a process of another machine is that it did not give the lock back.
  write_file_atomic(run / "lock", std::string("process 1 on another-machine\n"));
  CHECK(is_in_use(run));
  CHECK(find_holder_state(run) == HolderState::kOtherHost);
}

TEST_CASE("is_in_use is false where the number of a killed process belongs to another program") {
  const TemporaryFolder folder;
  std::array<int, 2> in{}, out{};
  REQUIRE(::pipe(in.data()) == 0);
  REQUIRE(::pipe(out.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::close(in[1]);
    ::execlp("cat", "cat", nullptr);
    ::_exit(1);
  }
  char byte = 'x';
  REQUIRE(::write(in[1], &byte, 1) == 1);
  REQUIRE(::read(out[0], &byte, 1) == 1);  // cat has started
  write_file_atomic(folder.path() / "lock",
                    "process " + std::to_string(child) + " on " + host_name() + "\n");
  CHECK_FALSE(is_in_use(folder.path()));
  CHECK_NOTHROW(RunLock(folder.path()));
  for (const int fd : {in[0], in[1], out[0], out[1]}) ::close(fd);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("RunLock rejects a link in the place of the lock file, and its target stays") {
  const TemporaryFolder folder;
  const Path run = folder.path() / "run", victim = folder.path() / "victim";
  std::filesystem::create_directories(run);
  write_file_atomic(victim, std::string_view("kept"));
  std::filesystem::create_symlink(victim, run / "lock");
  CHECK_THROWS_AS(RunLock{run}, DataError);
  CHECK(read_text_file(victim) == "kept");
}

TEST_CASE("is_in_use does not wait for a writer of a FIFO in the place of the lock file") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder.path() / "lock").c_str(), 0600) == 0);
  CHECK_FALSE(is_in_use(folder.path()));
}

namespace {

constexpr int kGranted = 0;  // flock() returns 0 and locks nothing

// Runs `call` in a child whose flock() fails with `code`, and returns its exit code.
int call_without_locks(int code, const std::function<int()>& call) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (!test::fail_system_call(SYS_flock, code)) ::_exit(100);
    try {
      ::_exit(call());
    } catch (const Error& error) {
      ::_exit(error.code());
    }
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("RunLock warns with the remedy on a file system without locks") {
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS, kGranted}) {
    CAPTURE(error);
    const TemporaryFolder folder;
    CHECK(RunLock(folder.path()).warning().empty());
    // A killed process of this host, or one of another host, does not count as a holder.
    for (const std::string& holder :
         {std::string("process 999999999 on ") + host_name(), std::string("process 1 on else")}) {
      write_file_atomic(folder.path() / "lock", holder + "\n");
      const int code = call_without_locks(error, [&] {
        const RunLock lock(folder.path());
        const bool advises = lock.warning().find("--run-dir") != std::string::npos &&
                             lock.warning().find(folder.path().string()) == 0;
        return advises && is_in_use(folder.path()) ? 0 : 1;
      });
      CHECK(code == 0);
    }
  }
  const TemporaryFolder folder;
  CHECK(call_without_locks(EIO, [&] {
          const RunLock lock(folder.path());
          return 0;
        }) == kExitData);
}

TEST_CASE("RunLock fails on a file system without locks while a process of this host trains") {
  const TemporaryFolder folder;
  const RunLock held(folder.path());  // this process, whose child has the same program
  for (const int error : {ENOLCK, kGranted}) {
    CAPTURE(error);
    CHECK(call_without_locks(error, [&] {
            try {
              const RunLock lock(folder.path());
            } catch (const Error& found) {
              const std::string message = found.what();
              const std::string remedy = "remove " + (folder.path() / "lock").string();
              const bool advises = message.find(remedy) != std::string::npos;
              return found.code() == kExitConfig && advises ? 0 : 1;
            }
            return 2;
          }) == 0);
  }
}

TEST_CASE("check_no_links rejects links outside of checkpoints with the path") {
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

// Signals while the reader of the output has stopped reading, as `trainer train ... | less` does.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "base/error.h"
#include "checkpoint/store.h"
#include "program.h"
#include "support/contains.h"
#include "support/process_events.h"

namespace trainer::e2e::stopped_reader_test {
namespace {

// A pipe of 4096 bytes that nobody reads.
class UnreadPipe {
 public:
  UnreadPipe() {
    REQUIRE(::pipe2(ends_.data(), O_CLOEXEC) == 0);
    REQUIRE(::fcntl(ends_[1], F_SETPIPE_SZ, 4096) > 0);
  }
  ~UnreadPipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  UnreadPipe(const UnreadPipe&) = delete;
  UnreadPipe& operator=(const UnreadPipe&) = delete;

  void become(int descriptor) const { ::dup2(ends_[1], descriptor); }
  // Waits until a further line of some 100 bytes may not fit.
  bool fills() const {
    return test::poll_until([&] {
      int bytes = 0;
      return ::ioctl(ends_[0], FIONREAD, &bytes) == 0 && bytes > 2000;
    });
  }

 private:
  std::array<int, 2> ends_{};
};

Arguments train(const std::string& config, const Path& dir, const Arguments& more = {}) {
  Arguments arguments{"train",     config, "--json", "--resume",
                      "--run-dir", dir,    "--set",  "run.log_every=1 steps"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Returns the exit code, or nothing if the process has not ended after a minute.
std::optional<int> code_in_time(Program& program) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  if (!test::wait_for_end(program.pid(), deadline)) return std::nullopt;
  return program.wait().code;
}

std::int64_t newest_step(const Path& run) {
  const auto saved = checkpoint::list_checkpoints(run / "checkpoints");
  return saved.empty() ? -1 : saved.back().step;
}

const Arguments kEndless{"--set", "train.epochs=100000", "--set",
                         "run.checkpoint_every=1000 epochs"};

}  // namespace

TEST_CASE("train: SIGTERM while nobody reads the output ends with exit code 75 and a checkpoint") {
  const Workspace work;
  const std::string config = rich_config(work);
  const UnreadPipe pipe;
  std::vector<int> outputs;
  SUBCASE("standard output") { outputs = {STDOUT_FILENO}; }
  SUBCASE("both outputs") { outputs = {STDOUT_FILENO, STDERR_FILENO}; }
  Program program(train(config, work / "run", kEndless), {}, [&] {
    for (const int output : outputs) pipe.become(output);
  });
  REQUIRE(pipe.fills());
  program.signal(SIGTERM);
  REQUIRE(code_in_time(program) == 75);
  CHECK(newest_step(work / "run") > 0);
}

TEST_CASE("train: a reader that stops does not stop the steps") {
  const Workspace work;
  const std::string config = rich_config(work);
  const UnreadPipe pipe;
  Program program(train(config, work / "run", {"--set", "train.max_steps=100"}), {},
                  [&] { pipe.become(STDOUT_FILENO); });
  // The run is over, although its output is not.
  CHECK(test::poll_until([&] {
    const Path record = work / "run" / "run.json";
    return std::filesystem::exists(record) &&
           test::contains(read_text_file(record), "\"finished\"");
  }));
  program.signal(SIGTERM);
  CHECK(code_in_time(program) == 75);
}

TEST_CASE(
    "train: SIGTERM to one of two ranks while nobody reads rank 0 ends both with exit code 75") {
  const Workspace work;
  const std::string config = rich_config(work);
  const UnreadPipe pipe;
  const std::string master = concat("127.0.0.1:", draw_port());
  const auto start = [&](const std::string& rank, const std::function<void()>& before) {
    Arguments arguments = train(config, work / "run", kEndless);
    arguments.insert(arguments.end(),
                     {"--rank", rank, "--world-size", "2", "--master", master, "--set",
                      "parallel.timeout=20 seconds", "--set", "parallel.lr_scaling=none"});
    return std::make_unique<Program>(
        arguments, Environment{{"TRAINER_SECRET", "a secret of this test"}}, before);
  };
  const auto chief = start("0", [&] { pipe.become(STDOUT_FILENO); });
  const auto other = start("1", {});
  REQUIRE(pipe.fills());
  SUBCASE("rank 0") { chief->signal(SIGTERM); }
  SUBCASE("rank 1") { other->signal(SIGTERM); }
  CHECK(code_in_time(*other) == 75);
  CHECK(code_in_time(*chief) == 75);
  CHECK(newest_step(work / "run") > 0);
}

}  // namespace trainer::e2e::stopped_reader_test

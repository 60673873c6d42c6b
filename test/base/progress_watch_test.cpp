#include "base/process/progress_watch.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "support/contains.h"
#include "support/process_events.h"

namespace trainer::progress_test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using test::contains;

constexpr seconds kTimeout(60);

// Looks at a progress once per second of a clock that the test moves.
struct Watched {
  Progress progress{};
  StallDetector detector{progress, kTimeout};
  StallDetector::Clock::time_point now{};

  // Returns the stalls that looks within `time` report. `work` runs before each look.
  template <class Work>
  std::vector<Stall> pass(seconds time, const Work& work) {
    std::vector<Stall> found;
    for (seconds passed(0); passed < time; passed += seconds(1)) {
      now += seconds(1);
      work();
      if (const std::optional<Stall> stall = detector.look(now)) found.push_back(*stall);
    }
    return found;
  }
  std::vector<Stall> pass(seconds time) {
    return pass(time, [] {});
  }
};

// Returns after how many seconds of a wait in this activity a stall is final, of an hour.
std::optional<std::int64_t> find_limit(Activity activity) {
  Watched watched;
  const ActivityScope scope(watched.progress, activity);
  for (const Stall& stall : watched.pass(minutes(60))) {
    if (stall.is_final) return std::chrono::duration_cast<seconds>(stall.time).count();
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("StallDetector ends a wait for a GPU or a peer after twice the timeout") {
  for (const Activity activity : {Activity::kGpu, Activity::kSum, Activity::kBarrier}) {
    CAPTURE(to_text(activity));
    CHECK(find_limit(activity) == 120);
  }
  CHECK(find_limit(Activity::kPrepareGpu) == 600);
}

TEST_CASE("StallDetector only reports what a process does on the CPU alone") {
  for (const Activity activity : {Activity::kOpenData, Activity::kCompile, Activity::kEvaluate,
                                  Activity::kSave, Activity::kInput, Activity::kCompute}) {
    CAPTURE(to_text(activity));
    CHECK(find_limit(activity) == std::nullopt);
  }
}

TEST_CASE("StallDetector reports a stall after the timeout and after each doubling") {
  Watched watched;
  const ActivityScope scope(watched.progress, Activity::kSave);
  std::vector<std::int64_t> times;
  for (const Stall& stall : watched.pass(minutes(9))) {
    times.push_back(std::chrono::duration_cast<seconds>(stall.time).count());
  }
  CHECK(times == std::vector<std::int64_t>{60, 120, 240, 480});
  watched.progress.advance();
  CHECK(watched.pass(seconds(60)).empty());  // the first look sees the progress
  CHECK(watched.pass(seconds(1)).size() == 1);
}

TEST_CASE("StallDetector leaves a wait for a process to the call that waits until it is final") {
  Watched watched;
  const ActivityScope scope(watched.progress, Activity::kSum);
  CHECK(watched.pass(seconds(119)).empty());
  CHECK(watched.pass(seconds(2)).size() == 1);
}

TEST_CASE("StallDetector does not report a step of five minutes whose layers advance") {
  Watched watched;
  const ActivityScope scope(watched.progress, Activity::kCompute);
  std::int64_t looks = 0;
  const auto compute = [&] {
    if (++looks % 50 == 0) watched.progress.advance();  // a layer takes 50 s
  };
  CHECK(watched.pass(minutes(5), compute).empty());
  CHECK(watched.pass(seconds(61)).size() == 1);
}

TEST_CASE("StallDetector does not count the time in which the process was stopped") {
  Watched watched;
  const ActivityScope scope(watched.progress, Activity::kGpu);
  CHECK(watched.pass(seconds(50)).empty());
  watched.now += minutes(60);
  CHECK(watched.pass(seconds(8)).empty());  // the first look counts for two seconds
  const std::vector<Stall> stalls = watched.pass(seconds(2));
  REQUIRE(stalls.size() == 1);
  CHECK_FALSE(stalls[0].is_final);
}

TEST_CASE("StallDetector counts a wait from its begin") {
  Watched watched;
  const ActivityScope evaluation(watched.progress, Activity::kEvaluate);
  watched.pass(seconds(119));
  const ActivityScope scope(watched.progress, Activity::kGpu);
  CHECK(watched.pass(seconds(60)).empty());
}

TEST_CASE("StallDetector reports nothing while no activity is open") {
  Watched watched;
  { const ActivityScope scope(watched.progress, Activity::kGpu); }
  CHECK(watched.pass(minutes(60)).empty());
}

TEST_CASE("Stall names the open activities and what to try") {
  Watched watched;
  const ActivityScope wait(watched.progress, Activity::kGpu);
  const ActivityScope evaluation(watched.progress, Activity::kEvaluate);
  const std::vector<Stall> stalls = watched.pass(seconds(61));
  REQUIRE(stalls.size() == 1);
  CHECK(contains(stalls[0].text,
                 "has made no progress for 60 s: it evaluates and waits for the GPU; "));
  CHECK(contains(stalls[0].text, "TRAINER_CUDA_GRAPHS=0"));
}

namespace {

// A child process that waits for a GPU for ever, or until it reads a byte. `errors` receives its
// standard error. `signal` is sent to it once it waits.
struct Child {
  explicit Child(std::chrono::milliseconds timeout, int signal = 0) {
    int errors[2], ends[2];
    REQUIRE(::pipe2(errors, O_CLOEXEC) == 0);
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    process = ::fork();
    if (process == 0) {
      ::dup2(errors[1], STDERR_FILENO);
      const Progress progress;
      const ProgressWatch watch(progress,
                                {timeout, "rank 2", [](const std::string& text) {
                                   const std::string line = text + "\n";
                                   if (::write(STDERR_FILENO, line.data(), line.size()) < 0)
                                     ::_exit(1);
                                 }});
      const ActivityScope scope(progress, Activity::kGpu);
      if (signal != 0) ::raise(signal);
      char byte = 0;
      ::_exit(::read(ends[0], &byte, 1) == 1 ? kExitOk : 1);
    }
    ::close(errors[1]);
    ::close(ends[0]);
    errors_ = errors[0];
    end_ = ends[1];
  }
  ~Child() {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    ::close(errors_);
    ::close(end_);
  }
  void answer() const { REQUIRE(::write(end_, "x", 1) == 1); }
  // Waits for a line on standard error.
  std::string read_line() const {
    std::string line;
    for (char byte = 0; byte != '\n' && ::read(errors_, &byte, 1) == 1;) line += byte;
    return line;
  }
  // Returns the exit code, and leaves what the child has printed in `text`.
  int wait(std::string& text) {
    REQUIRE(test::wait_for_end(process, std::chrono::steady_clock::now() + seconds(30)));
    char bytes[512];
    for (ssize_t got; (got = ::read(errors_, bytes, sizeof bytes)) > 0;) {
      text.append(bytes, static_cast<std::size_t>(got));
    }
    int status = 0;
    REQUIRE(::waitpid(process, &status, 0) == process);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
  }

  pid_t process = 0;

 private:
  int errors_ = -1, end_ = -1;
};

}  // namespace

TEST_CASE("ProgressWatch ends a process that waits for a GPU for ever with exit code 4") {
  Child child(std::chrono::milliseconds(200));
  std::string text;
  CHECK(child.wait(text) == kExitDevice);
  CHECK(contains(text, "rank 2 has made no progress for 0.2"));
  CHECK(contains(text, "error: rank 2 has made no progress for 0.4"));
}

TEST_CASE("ProgressWatch lets a process go on that was stopped and continued") {
  Child child(seconds(1));
  ::kill(child.process, SIGSTOP);
  std::this_thread::sleep_for(seconds(3));  // the time that must not count
  ::kill(child.process, SIGCONT);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // several looks of the watch
  child.answer();
  std::string text;
  CHECK(child.wait(text) == kExitOk);
}

TEST_CASE("ProgressWatch prints what the process does on SIGQUIT, and lets it go on") {
  Child child(minutes(1), SIGQUIT);
  const std::string line = child.read_line();
  CHECK(contains(line, "SIGQUIT: rank 2 waits for the GPU; its last progress was "));
  child.answer();
  std::string text;
  CHECK(child.wait(text) == kExitOk);
  CHECK(text.empty());
}

TEST_CASE("ProgressWatch restores the handler of SIGQUIT") {
  struct sigaction before {
  }, after{};
  REQUIRE(::sigaction(SIGQUIT, nullptr, &before) == 0);
  {
    const ProgressWatch watch({}, {minutes(1), "this process", [](const std::string&) {}});
  }
  REQUIRE(::sigaction(SIGQUIT, nullptr, &after) == 0);
  CHECK((before.sa_handler == after.sa_handler));
}

TEST_CASE("StallDetector publishes the time without progress, and describes the process") {
  Watched watched;
  CHECK(watched.progress.stalled_for() == seconds(0));
  watched.pass(seconds(2));
  CHECK(watched.progress.stalled_for() == seconds(0));
  {
    const ActivityScope input(watched.progress, Activity::kInput);
    const ActivityScope evaluation(watched.progress, Activity::kEvaluate);
    watched.pass(seconds(31));
    CHECK(watched.progress.stalled_for() == seconds(30));
    CHECK(watched.detector.describe(watched.now) ==
          "evaluates and waits for input; its last progress was 30 s ago");
  }
  watched.pass(seconds(1));
  CHECK(watched.progress.stalled_for() == seconds(0));
  CHECK(watched.detector.describe(watched.now) ==
        "works outside of the watched activities; its last progress was 0 s ago");
}

}  // namespace trainer::progress_test

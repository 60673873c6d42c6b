// Ranks that `launch` starts.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "cluster/processes.h"
#include "support/process_events.h"

namespace trainer::commands {
namespace {

using cluster::Process;

std::unique_ptr<Process> launch_ranks(int count, std::vector<std::string> more) {
  std::vector<std::string> arguments{CLUSTER_RANK, "launch", std::to_string(count)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return std::make_unique<Process>(arguments);
}

// The numbers behind `word` in the output of all ranks.
std::vector<int> numbers(const Process& job, const std::string& word) {
  std::vector<int> found;
  std::istringstream text(job.out() + job.err());
  for (std::string line; std::getline(text, line);) {
    const auto at = line.find(word + ' ');
    if (at != std::string::npos) found.push_back(std::stoi(line.substr(at + word.size())));
  }
  return found;
}

// Waits until all processes have ended. Their new parent may not have reaped them yet.
bool all_gone(const std::vector<int>& processes) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  return std::all_of(processes.begin(), processes.end(),
                     [&](int process) { return test::wait_for_end(process, limit); });
}

bool wait_for(const Process& job, const std::string& word, std::size_t times) {
  return job.wait_for([&] { return numbers(job, word).size() >= times; });
}

}  // namespace

TEST_CASE("launch prints output of rank 0 as it is and of two others with their number") {
  const auto job = launch_ranks(3, {"--steps", "1"});
  const int code = job->wait();
  INFO(job->err());
  CHECK(code == 0);
  CHECK(job->out().find("joined as rank 0 of 3 by RANK at 127.0.0.1 local 0\n") !=
        std::string::npos);
  CHECK(job->out().find("[rank") == std::string::npos);
  for (const char* line : {"[rank 1] joined as rank 1 of 3", "[rank 2] joined as rank 2 of 3",
                           "[rank 1] done\n", "[rank 2] done\n"}) {
    CHECK(job->err().find(line) != std::string::npos);
  }
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  for (const int cores : numbers(*job, "cores")) CHECK(cores <= std::max(1, (all + 2) / 3));
}

TEST_CASE("launch returns the exit code of a rank that fails, and the others end by themselves") {
  SUBCASE("killed") {
    const auto job = launch_ranks(3, {"--mode", "loop", "--which", "1", "--kill-at", "3"});
    CHECK(job->wait() == 128 + SIGKILL);
    CHECK(job->err().find("[rank 2] rank 1 (on ") != std::string::npos);
    CHECK(all_gone(numbers(*job, "process")));
  }
  SUBCASE("an error") {
    const auto job = launch_ranks(3, {"--mode", "loop", "--which", "2", "--fail-at", "3"});
    CHECK(job->wait() == 3);
    CHECK(job->err().find("[rank 2] images/7.jpg: is damaged\n") != std::string::npos);
  }
}

TEST_CASE("launch: --restarts restarts a job that crashes, and not after other failures") {
  const auto times = [](const Process& job, const std::string& text) {
    std::size_t found = 0;
    const std::string err = job.err();
    for (auto at = err.find(text); at != std::string::npos; at = err.find(text, at + 1)) ++found;
    return found;
  };
  SUBCASE("once") {
    const auto job = launch_ranks(2, {"--restarts", "2", "--mode", "loop", "--which", "1",
                                      "--abort-at", "3", "--end-at", "2"});
    CHECK(job->wait() == 0);
    INFO(job->err());
    CHECK(times(*job, "starts again from its last checkpoint") == 1);
    CHECK(job->err().find("ended with code 4; it starts again from its last checkpoint in 0.02 s "
                          "(1 of 2)\n") != std::string::npos);
  }
  SUBCASE("with a warning that the GPUs are the same after an error of a GPU") {
    const auto job = launch_ranks(
        2, {"--restarts", "1", "--mode", "loop", "--which", "1", "--abort-at", "3", "--end-at", "2",
            "--reason", "error: GPU 1: cudaMalloc: cudaErrorUnknown"});
    CHECK(job->wait() == 0);
    INFO(job->err());
    CHECK(job->err().find("(1 of 1), on the same GPUs; leave one that fails again out by "
                          "parallel.gpus or CUDA_VISIBLE_DEVICES\n") != std::string::npos);
  }
  SUBCASE("as often as it may") {
    const auto job =
        launch_ranks(2, {"--restarts", "2", "--mode", "loop", "--which", "1", "--kill-at", "1"});
    CHECK(job->wait() == 128 + SIGKILL);
    CHECK(times(*job, "starts again from its last checkpoint") == 2);
    CHECK(job->err().find("in 0.04 s (2 of 2)") != std::string::npos);
    CHECK(all_gone(numbers(*job, "process")));
  }
  SUBCASE("not after an error that would come again") {
    const auto job =
        launch_ranks(2, {"--restarts", "2", "--mode", "loop", "--which", "1", "--fail-at", "1"});
    CHECK(job->wait() == 3);
    CHECK(times(*job, "starts again") == 0);
  }
  SUBCASE("not after a signal") {
    const auto job = launch_ranks(2, {"--restarts", "2", "--mode", "loop"});
    REQUIRE(job->prints("step 1"));
    REQUIRE(wait_for(*job, "process", 2));
    job->signal(SIGTERM);
    CHECK(job->wait() == 128 + SIGTERM);
    CHECK(times(*job, "starts again") == 0);
  }
}

TEST_CASE("launch: a rank that does not end by itself is ended") {
  const auto job = launch_ranks(2, {"--mode", "ignore"});
  CHECK(job->wait() == 3);
  CHECK(job->err().find("[rank 1] deaf") != std::string::npos);
  CHECK(all_gone(numbers(*job, "process")));
}

TEST_CASE("launch: a stopped rank continues after another rank failed, and ends by itself") {
  const auto job =
      launch_ranks(2, {"--mode", "loop", "--which", "1", "--stop-at", "3", "--timeout", "6000"});
  CHECK(job->wait() == 4);
  INFO(job->err());
  CHECK(job->err().find("\nrank 1 (on ") != std::string::npos);  // of rank 0
  CHECK(job->err().find("[rank 1] rank ") != std::string::npos);
  CHECK(all_gone(numbers(*job, "process")));
}

TEST_CASE("launch: the chief may save for as long as it needs after a signal") {
  const auto job = launch_ranks(2, {"--mode", "stop"});
  CHECK(job->wait() == 75);
  CHECK(job->out().find("saved\n") != std::string::npos);
}

TEST_CASE("launch: signals are forwarded, and no process outlives the launcher") {
  for (const int signal : {SIGTERM, SIGUSR1, SIGKILL}) {
    CAPTURE(signal);
    const auto job = launch_ranks(2, {"--mode", "loop"});
    REQUIRE(job->prints("step 1"));
    REQUIRE(wait_for(*job, "process", 2));
    const std::vector<int> processes = numbers(*job, "process");
    job->signal(signal);
    CHECK(job->wait() == (signal == SIGKILL ? -SIGKILL : 128 + signal));
    CHECK(all_gone(processes));
  }
}

}  // namespace trainer::commands

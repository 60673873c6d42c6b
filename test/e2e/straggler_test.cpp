// A worker that is slower than the others is named wherever the time of a step is reported.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "program.h"

namespace trainer::e2e {
namespace {

using namespace std::chrono_literals;

// Makes a process slow, which is what is tested: it is stopped for four fifths of the time.
class Slowdown {
 public:
  explicit Slowdown(Program& program) : program_(program) {
    thread_ = std::thread([this] {
      while (!over_) {
        program_.signal(SIGSTOP);
        std::this_thread::sleep_for(40ms);
        program_.signal(SIGCONT);
        std::this_thread::sleep_for(10ms);
      }
    });
  }
  ~Slowdown() {
    over_ = true;
    thread_.join();
  }

 private:
  Program& program_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

std::vector<std::string> split_fields(const std::string& csv, std::size_t start) {
  return split_text(csv.substr(start, csv.find('\n', start) - start), ',');
}

// How often a value stands in a column of metrics.csv, in the rows of training.
std::map<std::string, int> count_rows(const std::string& csv, const std::string& column) {
  const std::vector<std::string> header = split_fields(csv, 0);
  const auto found = std::find(header.begin(), header.end(), column);
  REQUIRE(found != header.end());
  std::map<std::string, int> counts;
  for (std::size_t at = csv.find(",train,"); at != std::string::npos;
       at = csv.find(",train,", at + 1)) {
    const std::vector<std::string> fields = split_fields(csv, csv.rfind('\n', at) + 1);
    ++counts[fields.at(static_cast<std::size_t>(found - header.begin()))];
  }
  return counts;
}

}  // namespace

TEST_CASE("train: a worker that is slowed down is reported as the straggler") {
  const Workspace work;
  const std::string config =
      work.config(std::string(kModel) + R"(data: {format: idx, path: )" + work.data() + R"(}
train: {max_steps: 60, batch_size: 64}
parallel: {threads: 1, lr_scaling: none}
run: {checkpoint_every: 1000 steps, evaluate_every: 1000 steps, log_every: 30 steps, summary_every: 60 steps}
)");
  const Path dir = work / "run";
  const std::string port = std::to_string(draw_port());
  const auto rank = [&](const char* number) {
    return Environment{
        {"RANK", number}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}};
  };
  const Arguments arguments{"train", config, "--run-dir", dir.string()};
  Program chief(arguments, rank("0")), slow(arguments, rank("1"));
  REQUIRE(chief.wait_for("60 steps of 128 samples"));
  Result result;
  {
    const Slowdown slowdown(slow);
    result = chief.wait();
  }
  INFO(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK(slow.wait().code == 0);
  CHECK(result.out.find("straggler: rank 1 (worker 1 on host ") != std::string::npos);
  CHECK(result.out.find("time of a step: ") != std::string::npos);
  const Json record = Json::parse(read_text_file(dir / "run.json"));
  const Json& times = record.at("sessions").at(0).at("step_times");
  INFO(times.dump(1));
  REQUIRE(times.at("ranks").size() == 2);
  CHECK(times.at("steps") == 60);
  CHECK(times.at("straggler").at("rank") == 1);
  CHECK(times.at("ranks").at(0).at("all_reduce_seconds") >
        times.at("ranks").at(1).at("all_reduce_seconds"));
  // A row of few steps, at the end of an epoch, may name none, or who was slow just then, which on
  // a loaded machine can be either rank.
  auto named = count_rows(read_text_file(dir / "metrics.csv"), "straggler");
  CHECK(named["1"] > 0);
  REQUIRE(run({"report", dir.string(), "--mistakes", "0"}).code == 0);
  CHECK(read_text_file(dir / "report.html")
            .find("<p class=\"finding\">straggler: rank 1 (worker 1 on host ") !=
        std::string::npos);
}

}  // namespace trainer::e2e

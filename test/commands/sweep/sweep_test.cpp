#include "commands/sweep/sweep.h"

#include <doctest/doctest.h>

#include "results/sweeps/support.h"

namespace trainer::commands {
namespace {

using test::FakeSweep;

// Records the calls of an observer.
struct Told : SweepObserver {
  std::vector<std::string> lines;
  void on_start(std::size_t, const results::Point& point) override { lines.push_back(point.name); }
  void on_progress(std::size_t, std::int64_t step, std::int64_t total,
                   std::optional<double> eta) override {
    lines.push_back(concat(step, " of ", total, eta ? concat(", eta ", *eta) : ""));
  }
  void on_end(std::size_t, const results::PointState& state, std::optional<double> eta) override {
    lines.push_back(concat(state.message, eta ? concat(", eta ", *eta) : ""));
  }
};

TEST_CASE("run_sweep: events of the runs are read, and each run gets one value per variable") {
  FakeSweep sweep({"parallel.gpus=1"});
  sweep.plan.environment = {{"NUM_GPUS", "1 2"}, {"BATCH_SIZE", "8 16"}};
  sweep.plan.points[0].environment = {{"BATCH_SIZE", "8"}};
  const Path program = sweep.folder.path() / "program";
  write_file_atomic(program,
                    "#!/bin/sh\n"
                    "echo '{\"event\":\"start\",\"total_steps\":4,\"first_step\":1}'\n"
                    "echo '{\"event\":\"step\",\"step\":1}'\n"
                    "echo 'no event'\n"
                    "echo '{\"event\":\"step\",\"step\":4}'\n"
                    "echo \"error: gpus ${NUM_GPUS-none}, batch $BATCH_SIZE\" >&2\nexit 4\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  Told told;
  const auto states = run_sweep(sweep.plan, program, told);
  REQUIRE(states.size() == 1);
  CHECK(states[0].kind == results::PointState::Kind::kFailed);
  CHECK(states[0].code == 4);
  // Nothing is left behind the last step of the last point, whatever the time.
  CHECK(told.lines ==
        std::vector<std::string>{"gpus=1", "1 of 4", "4 of 4, eta 0", "gpus none, batch 8, eta 0"});
}

}  // namespace
}  // namespace trainer::commands

#include "commands/sweep/sweep.h"

#include <doctest/doctest.h>

#include <sstream>

#include "results/sweeps/support.h"

namespace trainer::commands {
namespace {

using test::FakeSweep;

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
  std::ostringstream out;
  SweepPrinter printer({.is_terminal = true}, 1, out);
  const auto states = run_sweep(sweep.plan, program, printer);
  REQUIRE(states.size() == 1);
  CHECK(states[0].kind == results::PointState::Kind::kFailed);
  CHECK(states[0].code == 4);
  // Nothing is left behind the last step of the last point, whatever the time.
  CHECK(out.str() ==
        "\r[1/1] gpus=1  step 1/4  eta ?\x1b[K\r[1/1] gpus=1  step 4/4  eta 0:00\x1b[K"
        "\r[1/1] gpus=1: failed: gpus none, batch 8\x1b[K\n");
}

}  // namespace
}  // namespace trainer::commands

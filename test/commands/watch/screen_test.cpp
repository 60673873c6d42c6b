#include "commands/watch/screen.h"

#include <doctest/doctest.h>

#include "base/formats/columns.h"
#include "base/text.h"
#include "results/support.h"
#include "support/contains.h"

namespace trainer::commands {
namespace {

using test::contains;

std::vector<results::WatchedRun> make_runs(std::size_t count, const Path& folder) {
  test::FakeRun fake;
  fake.steps = 40;
  test::write_run(folder, fake);
  results::WatchedRun run;
  results::look_at_run(folder, run);
  run.progress.folder = "runs/digits";
  run.progress.warnings = {"first", "second warning \x1b[2J", std::string(200, 'x')};
  return std::vector<results::WatchedRun>(count, run);
}

TEST_CASE("describe_run has the state, the step and the newest metrics in one line") {
  const TemporaryFolder folder;
  results::RunProgress progress = make_runs(1, folder.path())[0].progress;
  progress.warnings.clear();
  CHECK(describe_run(progress) ==
        "runs/digits: finished (done)  step 40/40  epoch 20.0/20  train loss -36.5000 accuracy "
        "0.5000  test loss 0.2500 accuracy 0.9000  64 images/s  wait 20 %  1 replica");
  progress.state = results::RunState::kRunning;
  progress.reason.clear();
  progress.step = 20;
  progress.seconds_left = 61.5;
  progress.straggler = 2;
  progress.warnings = {"slow\n"};
  const std::string line = describe_run(progress);
  CHECK(contains(line, "runs/digits: running  step 20/40"));
  CHECK(contains(line, "  eta 1:02  "));
  CHECK(contains(line, "  straggler rank 2  warning: slow\\x0a"));
  results::RunProgress waiting;
  waiting.folder = "runs/new";
  waiting.reason = "there is no such folder yet";
  CHECK(describe_run(waiting) == "runs/new: waiting  there is no such folder yet");
}

TEST_CASE("draw_screen fits runs with charts and their last warnings into the terminal") {
  const TemporaryFolder folder;
  for (const auto& [count, columns, rows] :
       {std::tuple{1, 80, 24}, {2, 80, 24}, {2, 100, 40}, {3, 60, 20}, {9, 40, 10}, {1, 1, 1}}) {
    CAPTURE(count);
    CAPTURE(columns);
    const auto lines = draw_screen(make_runs(count, folder.path()), {columns, rows, true});
    CHECK(std::ssize(lines) <= std::max(rows - 1, 1));
    for (const std::string& line : lines) {
      CAPTURE(line);
      CHECK(count_columns(line) <= static_cast<std::size_t>(std::max(columns - 1, 1)));
      CHECK(is_line_of_text(line));
    }
  }
  const std::string two = join(draw_screen(make_runs(2, folder.path()), {80, 24, true}), "\n");
  INFO(two);
  CHECK(contains(two, "\nLoss: train, • test                     Accuracy: train, • test\n"));
  CHECK(contains(two, "\n  warning: second warning \\x1b[2J\n"));
  CHECK_FALSE(contains(two, "first"));
  CHECK(contains(join(draw_screen(make_runs(9, folder.path()), {40, 10, true}), "\n"),
                 " more lines; a higher"));
}

}  // namespace
}  // namespace trainer::commands

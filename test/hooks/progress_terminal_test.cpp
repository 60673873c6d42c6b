// The line of progress that a terminal rewrites in place.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "hooks/progress_support.h"

namespace trainer::hooks {
namespace {

using namespace test;

// A terminal and a run of so many steps per epoch.
struct Terminal {
  int columns;
  std::ostringstream out = {};
  std::unique_ptr<Hook> hook = {};

  Terminal(int width, std::int64_t steps_per_epoch, std::int64_t total) : columns(width) {
    hook = make_progress_hook(out, true, false, steps(1), {[this] { return columns; }, {}, {}});
    RunInfo info = run_info("r", 0, total);
    info.steps_per_epoch = steps_per_epoch;
    hook->on_start(info);
  }
  // What a step writes, without the sequences that control the terminal.
  std::string line(const StepRecord& p) {
    out.str("");
    hook->on_step(p);
    return without(without(out.str(), "\r\x1b[?7l"), "\x1b[?7h\x1b[K");
  }
};

// The terminal's line of the 12th of 20 steps, 8 per epoch, at each width in turn, with the losses
// given for the first lines.
std::vector<std::string> lines_at(const std::vector<int>& widths, std::int64_t total = 20,
                                  const std::vector<double>& losses = {}) {
  std::ostringstream out;
  std::size_t asked = 0;
  const auto hook =
      make_progress_hook(out, true, false, steps(1),
                         {[&] { return widths[std::min(asked++, widths.size() - 1)]; }, {}, {}});
  hook->on_start(run_info("r", 0, total));
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    out.str("");
    StepRecord p = after_step(12);
    p.elapsed = static_cast<double>(i + 1);
    if (i < losses.size()) p.loss = losses[i];
    hook->on_step(p);
    const std::string text = out.str();
    const std::string start = "\r\x1b[?7l", end = "\x1b[?7h\x1b[K";
    REQUIRE(text.starts_with(start));
    REQUIRE(text.ends_with(end));
    lines.push_back(text.substr(start.size(), text.size() - start.size() - end.size()));
  }
  return lines;
}

}  // namespace

TEST_CASE(
    "progress on a terminal: one line is rewritten ten times per second, and its last state "
    "stays") {
  std::ostringstream out;
  const auto hook = make_progress_hook(out, true, false, steps(1));
  hook->on_start(run_info("r", 0, 100));
  out.str("");
  const auto step = [&](std::int64_t n) {
    StepRecord p = after_step(n);
    p.elapsed = static_cast<double>(n) / 32;
    hook->on_step(p);
  };
  for (std::int64_t n = 1; n <= 51; ++n) step(n);
  std::string text = out.str();
  // 32 steps per second: the first, and then every fourth, up to the 49th.
  CHECK(std::count(text.begin(), text.end(), '\r') == 13);
  CHECK(text.find('\n') == std::string::npos);
  out.str("");
  step(52);
  CHECK(out.str().empty());
  hook->on_evaluation(evaluation(Split::kTest, 52, 1));
  text = out.str();
  CHECK(text.starts_with("\r\x1b[?7lepoch  7/13  4/8 [======      ]"));
  CHECK(text.find("\x1b[?7h\x1b[K\ntest: loss 1.0000  ") != std::string::npos);
  // Nothing is left to end.
  out.str("");
  hook->on_finish(finish(FinishReason::kDone));
  CHECK(out.str() == kClosing + next("r"));
}

TEST_CASE(
    "progress on a terminal: fields are left out from the right, then the bar, for fewer columns") {
  const auto lines = lines_at({50, 80, 120, 30, 17, 8, 80});
  CHECK(lines[0] == "epoch 2/3  4/8 [====     ]  eta 0:01  loss 1.2000");
  CHECK(lines[1] ==
        "epoch 2/3  4/8 [===   ]  eta 0:01  loss 1.2000  accuracy 0.5000  3,200 images/s");
  CHECK(lines[2] ==
        "epoch 2/3  4/8 [=======       ]  eta 0:01  loss 1.2000  accuracy 0.5000  3,200 images/s  "
        "lr 0.001  wait 25%  50 steps/s");
  CHECK(lines[3] == "epoch 2/3  4/8 [======      ]");
  CHECK(lines[4] == "epoch 2/3  4/8");
  CHECK(lines[5] == "epoch 2");
  CHECK(lines[6] == lines[1]);  // resized in mid-run
}

TEST_CASE(
    "progress on a terminal: fields that were left out do not return until the width changes") {
  const auto lines = lines_at({80, 80, 80, 80, 81}, 20, {1, 123456, 1e12, 1, 1});
  CHECK(lines[0] ==
        "epoch 2/3  4/8 [===   ]  eta 0:01  loss 1.0000  accuracy 0.5000  3,200 images/s");
  CHECK(lines[1] ==
        "epoch 2/3  4/8 [=====     ]  eta 0:01  loss 61728.5000  acc 0.5000  3,200 img/s");
  CHECK(lines[2] ==
        "epoch 2/3  4/8 [========        ]  eta 0:01  loss 333333374485.6667  acc 0.5000");
  CHECK(lines[3] ==
        "epoch 2/3  4/8 [========        ]  eta 0:01  loss 250000030864.5000  acc 0.5000");
  CHECK(lines[4] ==
        "epoch 2/3  4/8 [========         ]  eta 0:01  loss 200000024691.8000  acc 0.5000");
}

TEST_CASE(
    "progress on a terminal: the speed stays with shorter names in 80 columns in a long epoch") {
  Terminal terminal(80, 938, 12 * 938);
  std::vector<std::string> lines;
  for (const std::int64_t step : {1, 500, 937 + 100}) {
    StepRecord p = after_step(step);
    p.loss = 0.25;
    p.samples = 240;
    p.elapsed = static_cast<double>(step);
    lines.push_back(terminal.line(p));
  }
  CHECK(lines[0] ==
        "epoch  1/12    1/938 [       ]  eta -:--  loss 0.2500  acc 0.5000  12,000 img/s");
  CHECK(lines[1] ==
        "epoch  1/12  500/938 [===    ]  eta 3:36  loss 0.2500  acc 0.5000  12,000 img/s");
  CHECK(lines[2] ==
        "epoch  2/12   99/938 [       ]  eta 3:25  loss 0.2500  acc 0.5000  12,000 img/s");
}

TEST_CASE(
    "progress on a terminal: a bar that was left out does not return until the width changes") {
  Terminal terminal(24, 16, 32000);
  const auto line = [&](std::int64_t step) {
    StepRecord p = after_step(step);
    p.elapsed = static_cast<double>(step);
    return terminal.line(p);
  };
  CHECK(line(9) == "epoch    1/2000   9/16");
  CHECK(line(17) == "epoch    2/2000   1/16");
  terminal.columns = 31;
  CHECK(line(18) == "epoch    2/2000   2/16 [     ]");
}

TEST_CASE("progress on a terminal: the bar and the steps are those of a short last epoch") {
  const auto line = lines_at({80}, 13).front();
  CHECK(line.starts_with("epoch 2/2  4/5 [====  ]"));
}

TEST_CASE("progress on a terminal: an evaluation that is wider is abbreviated without its step") {
  Evaluation e;
  e.split = Split::kValidation;
  e.step = 8;
  e.epoch = 1;
  e.seconds = 0.25;
  e.metrics.loss = 0.0764;
  e.metrics.classes = 10;
  e.metrics.accuracy = 0.9755;
  e.metrics.accuracy_interval = {0.9678, 0.9814};
  e.metrics.top_k = 5;
  e.metrics.top_k_accuracy = 1;
  // Returns the line below the last step, and that of an evaluation right after it.
  const auto evaluations = [&](int columns) {
    Terminal terminal(80, 8, 20);
    terminal.hook->on_step(after_step(8));
    terminal.columns = columns;
    std::array<std::string, 2> lines;
    for (std::string& line : lines) {
      terminal.out.str("");
      terminal.hook->on_evaluation(e);
      const std::string text = terminal.out.str();
      line = text.substr(text.find("validation: "));
    }
    return lines;
  };
  const std::string full =
      "validation: loss 0.0764  accuracy 0.9755 (95 % interval 0.9678-0.9814)  top 5 1.0000"
      "  step 8  epoch 1  0.2 s\n";
  const int width = static_cast<int>(full.size()) - 1;
  CHECK(evaluations(width)[0] == full);
  const std::string brief =
      "validation: loss 0.0764  acc 0.9755 (95 % 0.9678-0.9814)  top 5 1.0000  0.2 s\n";
  CHECK(evaluations(width - 1)[0] == brief);
  CHECK(evaluations(80)[0] == brief);
  CHECK(evaluations(80)[1] == full);
  // Without the line of the steps above it, the step is shown.
  std::ostringstream quiet;
  const auto hook = make_progress_hook(quiet, true, true, steps(1), {[] { return 80; }, {}, {}});
  hook->on_evaluation(e);
  CHECK(quiet.str() == full);
}

TEST_CASE("progress on a terminal: the fields stay in their columns for values of other lengths") {
  Terminal terminal(120, 10, 100);
  std::vector<std::string> lines;
  for (const auto& [step, loss, seconds] :
       {std::tuple{1, 10.25, 0.02}, {2, 0.25, 0.02}, {11, 0.125, 0.02}}) {
    StepRecord p = after_step(step);
    p.loss = loss;
    p.step_seconds = seconds;
    p.elapsed = step;
    lines.push_back(terminal.line(p));
  }
  CHECK(lines[0].starts_with(
      "epoch  1/10   1/10 [         ]  eta -:--  loss 10.2500  accuracy 0.5000  3,200 images/s"));
  // The mean of the epoch so far, and then that of the next epoch.
  CHECK(lines[1].starts_with(
      "epoch  1/10   2/10 [=        ]  eta -:--  loss 5.2500   accuracy 0.5000  3,200 images/s"));
  CHECK(lines[2].starts_with(
      "epoch  2/10   1/10 [         ]  eta 0:02  loss 0.1250   accuracy 0.5000  3,200 images/s"));
}

}  // namespace trainer::hooks

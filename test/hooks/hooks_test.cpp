#include "hooks/hooks.h"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "hooks/formats/confusion_image.h"
#include "hooks/formats/event_file.h"
#include "hooks/interval.h"
#include "support/confusion.h"

using namespace trainer;
using namespace trainer::hooks;
using config::Duration;

namespace {

const Duration kEveryStep{1, Duration::Unit::kSteps};

RunInfo build_info(const Path& dir, std::int64_t first_step = 0) {
  RunInfo info;
  info.name = "test";
  info.dir = dir;
  info.total_steps = 10;
  info.steps_per_epoch = 5;
  info.first_step = first_step;
  info.global_batch = 4;
  info.devices = "2 CPU threads";
  return info;
}

StepRecord make_step_record(std::int64_t step) {
  StepRecord p;
  p.step = step;
  p.epoch = static_cast<double>(step) / 5;
  p.samples = 4;
  p.loss = 1.0 / static_cast<double>(step);
  p.accuracy = 0.5;
  p.learning_rate = 0.001;
  p.step_seconds = 0.002;
  p.wait_seconds = 0.001;
  p.elapsed = 0.002 * static_cast<double>(step);
  return p;
}

Evaluation make_evaluation(double loss, double accuracy = 0.75) {
  Evaluation e;
  e.split = Split::kValidation;
  e.step = 5;
  e.epoch = 1;
  e.seconds = 0.25;
  e.metrics.loss = loss;
  e.metrics.accuracy = accuracy;
  e.metrics.accuracy_interval = {0.5, 0.9};
  e.metrics.count = 4;
  e.metrics.classes = 2;
  e.metrics.confusion = make_confusion({2, 1, 0, 1});
  return e;
}

std::string split_into_lines(const Path& path) { return read_text_file(path); }

}  // namespace

TEST_CASE("Interval accepts steps, whole and fractional epochs, and seconds") {
  const auto steps_due = [](Duration duration) {
    Interval interval(duration, 5);
    std::vector<std::int64_t> due;
    for (std::int64_t step = 1; step <= 12; ++step) {
      if (interval.due(step, static_cast<double>(step))) due.push_back(step);
    }
    return due;
  };
  CHECK(steps_due({4, Duration::Unit::kSteps}) == std::vector<std::int64_t>{4, 8, 12});
  CHECK(steps_due({1, Duration::Unit::kEpochs}) == std::vector<std::int64_t>{5, 10});
  CHECK(steps_due({0.5, Duration::Unit::kEpochs}) == std::vector<std::int64_t>{3, 5, 8, 10});
  CHECK(steps_due({5, Duration::Unit::kSeconds}) == std::vector<std::int64_t>{5, 10});
}

TEST_CASE("Interval: due() at a step does not depend on the step of a resume") {
  Interval whole({0.3, Duration::Unit::kEpochs}, 7);
  for (std::int64_t step = 1; step <= 40; ++step) {
    Interval resumed({0.3, Duration::Unit::kEpochs}, 7);
    CHECK(whole.due(step, 0) == resumed.due(step, 0));
  }
}

TEST_CASE("find_metric returns the value of each metric by its name") {
  Evaluation e = make_evaluation(0.5);
  CHECK(find_metric(e, "validation/loss") == 0.5);
  CHECK(find_metric(e, "validation/accuracy") == 0.75);
  CHECK_FALSE(find_metric(e, "test/accuracy"));
  CHECK_FALSE(find_metric(e, "validation/top_k_accuracy"));
  e.metrics.classes = 2;
  e.metrics.confusion = make_confusion({3, 1, 0, 4});
  e.metrics.auc = 0.9;
  CHECK(find_metric(e, "validation/balanced_accuracy") == 0.875);
  CHECK(find_metric(e, "validation/f1_macro") == doctest::Approx((6.0 / 7 + 8.0 / 9) / 2));
  CHECK(find_metric(e, "validation/auc") == 0.9);
  CHECK(larger_is_better("validation/auc"));
  CHECK(larger_is_better("validation/accuracy"));
  CHECK_FALSE(larger_is_better("validation/loss"));
}

TEST_CASE("progress in a log: lines are printed when due, and the closing lines at the end") {
  std::ostringstream out;
  const auto hook = make_progress_hook(out, false, false, {2, Duration::Unit::kSteps});
  hook->on_start(build_info("runs/test"));
  for (std::int64_t step = 1; step <= 3; ++step) hook->on_step(make_step_record(step));
  hook->on_evaluation(make_evaluation(0.25));
  Finish finish;
  finish.steps = 3;
  finish.wall_seconds = 1.75;
  finish.step_seconds = 1.5;
  finish.images_per_second = 2000;
  finish.reason = FinishReason::kDone;
  hook->on_finish(finish);
  CHECK(out.str() ==
        "test: 10 steps of 4 samples, 5 per epoch, run folder runs/test\n"
        "epoch 1/2  step 2/10  loss 0.7500  accuracy 0.5000  lr 0.001  2,000 images/s  "
        "500 steps/s  wait 50%  eta 0:01\n"
        "validation: loss 0.2500  accuracy 0.7500 (95 % interval 0.5000-0.9000)  step 5  epoch 1  "
        "0.2 s\n"
        "wall time: 1.750 seconds\n"
        "total time with 2 CPU threads: 1.500 seconds\n"
        "2000.0 images/second with 2 CPU threads\n"
        "next: trainer evaluate runs/test, or trainer predict runs/test IMAGE...\n");
}

TEST_CASE("progress: on a terminal one line is rewritten, quiet prints results only") {
  std::ostringstream terminal;
  auto hook = make_progress_hook(terminal, true, false, kEveryStep);
  hook->on_start(build_info("r"));
  hook->on_step(make_step_record(1));
  CHECK(terminal.str().find(" [=  ") != std::string::npos);
  CHECK(terminal.str().ends_with("\x1b[K"));

  std::ostringstream quiet;
  hook = make_progress_hook(quiet, false, true, kEveryStep);
  hook->on_start(build_info("r"));
  hook->on_step(make_step_record(1));
  CHECK(quiet.str().empty());
  hook->on_evaluation(make_evaluation(1));
  CHECK(quiet.str().empty());

  // A follower has no run, and each evaluation is a result.
  hook = make_progress_hook(quiet, false, true, kEveryStep);
  hook->on_evaluation(make_evaluation(1));
  CHECK(quiet.str().starts_with("validation: loss 1.0000  accuracy 0.7500"));
}

TEST_CASE("json: every line is an object, the first step has one and NaN is null") {
  std::ostringstream out;
  const auto hook = make_json_hook(out, {3, Duration::Unit::kSteps});
  hook->on_start(build_info("r"));
  for (std::int64_t step = 1; step <= 3; ++step) {
    StepRecord p = make_step_record(step);
    if (step == 3) p.loss = std::numeric_limits<double>::quiet_NaN();
    hook->on_step(p);
  }
  hook->on_evaluation(make_evaluation(0.25));
  Finish finish;
  finish.evaluations = {make_evaluation(0.25)};
  finish.reason = FinishReason::kDone;
  hook->on_finish(finish);
  std::istringstream lines(out.str());
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  REQUIRE(events.size() == 5);
  CHECK(events[0]["event"] == "start");
  CHECK(events[1]["step"] == 1);
  CHECK(events[2]["step"] == 3);
  CHECK(events[2]["loss"].is_null());
  CHECK(events[3]["accuracy"] == 0.75);
  CHECK(events[4]["metrics"]["validation"]["count"] == 4);
}

TEST_CASE("metric files: a resumed run removes later rows and a half-written line") {
  const TemporaryFolder folder;
  {
    const auto hook = make_metrics_files_hook(kEveryStep);
    hook->on_start(build_info(folder.path()));
    for (std::int64_t step = 1; step <= 4; ++step) hook->on_step(make_step_record(step));
  }
  const std::string whole = split_into_lines(folder.path() / "metrics.csv");
  write_file_atomic(folder.path() / "metrics.csv", whole + "5,1.0,tra");
  const auto hook = make_metrics_files_hook(kEveryStep);
  hook->on_start(build_info(folder.path(), 2));
  for (std::int64_t step = 3; step <= 4; ++step) hook->on_step(make_step_record(step));
  CHECK(split_into_lines(folder.path() / "metrics.csv") == whole);
  std::istringstream rows(split_into_lines(folder.path() / "metrics.jsonl"));
  std::int64_t expected = 1;
  for (std::string line; std::getline(rows, line);) {
    CHECK(nlohmann::json::parse(line)["step"] == expected++);
  }
  CHECK(expected == 5);
}

TEST_CASE("event file: records have correct lengths and checksums") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "events";
  {
    EventFile file(path, 1.5);
    file.scalar("train/loss", 7, 2.5, 0.125f);
    const Picture picture = draw_confusion(make_evaluation(1).metrics);
    CHECK(picture.width == 2 * picture.cell + picture.left);
    CHECK(std::memcmp(picture.png.data(), "\x89PNG", 4) == 0);
    file.image("test/confusion_matrix", 8, 3.5, picture.png);
  }
  const Bytes bytes = read_file(path);
  const auto unmask = [](std::uint32_t masked) {
    const std::uint32_t rotated = masked - 0xa282ead8u;
    return rotated >> 17 | rotated << 15;
  };
  std::vector<std::string> events;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t length;
    std::uint32_t crc;
    REQUIRE(at + 12 <= bytes.size());
    std::memcpy(&length, &bytes[at], 8);
    std::memcpy(&crc, &bytes[at + 8], 4);
    CHECK(unmask(crc) == crc32c(std::span(bytes).subspan(at, 8)));
    REQUIRE(at + 16 + length <= bytes.size());
    const auto data = std::span(bytes).subspan(at + 12, length);
    std::memcpy(&crc, &bytes[at + 12 + length], 4);
    CHECK(unmask(crc) == crc32c(data));
    events.emplace_back(data.begin(), data.end());
    at += 16 + length;
  }
  REQUIRE(events.size() == 3);
  CHECK(events[0].find("brain.Event:2") != std::string::npos);
  CHECK(events[1].find("train/loss") != std::string::npos);
  CHECK(events[2].find("test/confusion_matrix") != std::string::npos);
}

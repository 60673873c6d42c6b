#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/formats/table.h"
#include "hooks/support.h"

namespace trainer::hooks {

using namespace test;

TEST_CASE("json: every event has its keys in order") {
  std::ostringstream out;
  const auto hook = make_json_hook(out, steps(4));
  hook->on_start(run_info("runs/digits"));
  for (std::int64_t n = 1; n <= 4; ++n) {
    StepRecord p = after_step(n);
    p.loss = 2.302585092994046;
    hook->on_step(p);
  }
  Evaluation e = evaluation(Split::kValidation, 4, 0.1);
  e.metrics.accuracy_interval = {0.25, 0.875};
  hook->on_evaluation(e);
  e.metrics.top_k = 5;
  e.metrics.top_k_accuracy = 0.875;
  hook->on_evaluation(e);
  hook->on_checkpoint("runs/digits/checkpoints/step-00000004.safetensors");
  Finish f = finish(FinishReason::kDone);
  f.evaluations = {evaluation(Split::kValidation, 20, 0.5),
                   evaluation(Split::kTest, 20, 0.30000000000000004)};
  f.input = "2 threads, 4 batches ahead";
  engine::RankTimes rank;
  rank[engine::StepPhase::kForward] = 0.25;
  const engine::RankTimes ranks[] = {rank};
  f.times.add(ranks, 20);
  hook->on_finish(f);
  const std::vector<std::string> expected{
      R"({"event":"start","run":"runs/digits","total_steps":20,"steps_per_epoch":8,"first_step":0,)"
      R"("global_batch":64,"replicas":1,"passes_per_epoch":1})",
      R"({"event":"step","step":1,"epoch":0.125,"loss":2.30258509,"accuracy":0.5,)"
      R"("learning_rate":0.001,"images_per_second":3200.0,"steps_per_second":50.0,)"
      R"("wait_share":0.25,"elapsed":0.02})",
      R"({"event":"step","step":4,"epoch":0.5,"loss":2.30258509,"accuracy":0.5,)"
      R"("learning_rate":0.001,"images_per_second":3200.0,"steps_per_second":50.0,)"
      R"("wait_share":0.25,"elapsed":0.08})",
      R"({"event":"evaluation","split":"validation","step":4,"epoch":0.5,"loss":0.1,)"
      R"("accuracy":0.75,"accuracy_low":0.25,"accuracy_high":0.875,"f1_macro":0.7333333333333334,)"
      R"("f1_weighted":0.7333333333333334,"balanced_accuracy":0.75,"count":4,"seconds":1.25})",
      R"({"event":"evaluation","split":"validation","step":4,"epoch":0.5,"loss":0.1,)"
      R"("accuracy":0.75,"accuracy_low":0.25,"accuracy_high":0.875,"top_k":5,)"
      R"("top_k_accuracy":0.875,"f1_macro":0.7333333333333334,)"
      R"("f1_weighted":0.7333333333333334,"balanced_accuracy":0.75,"count":4,"seconds":1.25})",
      R"({"event":"checkpoint","path":"runs/digits/checkpoints/step-00000004.safetensors",)"
      R"("step":4})",
      // Exact: `evaluate` prints the same digits.
      R"({"event":"finished","run":"runs/digits","steps":20,"total_seconds":10.5,"wall_seconds":12.3456,)"
      R"("images_per_second":21345.67,"reason":"done","metrics":{"validation":{"loss":0.5,)"
      R"("accuracy":0.75,"count":4},"test":{"loss":0.30000000000000004,"accuracy":0.75,"count":4}},)"
      R"("parameters_sha256":"ab12","input":"2 threads, 4 batches ahead","step_times":{"steps":20,)"
      R"("ranks":[{"data_wait_seconds":0.0,"copy_seconds":0.0,"forward_seconds":0.25,)"
      R"("backward_seconds":0.0,"all_reduce_seconds":0.0,"hidden_all_reduce_seconds":0.0,)"
      R"("update_seconds":0.0,"other_seconds":0.0}],"straggler":null}})"};
  const auto lines = split_into_lines(out.str());
  REQUIRE(lines.size() == expected.size());
  for (std::size_t i = 0; i < lines.size(); ++i) CHECK(lines[i] == expected[i]);
}

TEST_CASE(
    "json: the first step is alone, and other lines have means over all steps since the last "
    "line") {
  std::ostringstream out;
  const auto hook = make_json_hook(out, steps(3));
  hook->on_start(run_info("r", 3));
  for (std::int64_t n = 4; n <= 9; ++n) {
    StepRecord p = after_step(n);
    p.accuracy = n == 6 ? 1.0 : 0.25;
    p.step_seconds = n == 4 ? 1.0 : 0.5;
    hook->on_step(p);
  }
  const auto lines = split_into_lines(out.str());
  REQUIRE(lines.size() == 4);  // the first step after a resume is printed, too
  const auto first = nlohmann::json::parse(lines[1]), second = nlohmann::json::parse(lines[2]),
             third = nlohmann::json::parse(lines[3]);
  CHECK(first["step"] == 4);
  CHECK(first["loss"] == 0.4);
  CHECK(first["images_per_second"] == 64.0);
  CHECK(second["step"] == 6);
  CHECK(second["loss"] == 0.5);
  CHECK(second["accuracy"] == 0.5);
  CHECK(second["images_per_second"] == 96.0);
  CHECK(second["steps_per_second"] == 1.5);
  CHECK(third["step"] == 9);
  CHECK(third["loss"] == 0.8);
  CHECK(third["accuracy"] == 0.25);
}

TEST_CASE("hooks: progress, JSON and metric files print the same values of a step") {
  const TemporaryFolder folder;
  std::ostringstream text, events;
  std::vector<std::unique_ptr<Hook>> hooks;
  hooks.push_back(make_progress_hook(text, false, false, steps(4)));
  hooks.push_back(make_json_hook(events, steps(4)));
  hooks.push_back(make_metrics_files_hook(steps(4)));
  for (const auto& hook : hooks) {
    hook->on_start(run_info(folder.path()));
    for (std::int64_t n = 1; n <= 8; ++n) {
      StepRecord p = after_step(n);
      p.accuracy = static_cast<double>(n * n) / 100;
      hook->on_step(p);
    }
  }
  const auto terminal = split_into_lines(text.str()), lines = split_into_lines(events.str()),
             rows = split_into_lines(read_text_file(folder.path() / "metrics.jsonl"));
  REQUIRE(terminal.size() == 3);
  REQUIRE(lines.size() == 4);
  REQUIRE(rows.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto event = nlohmann::json::parse(lines[i + 2]), row = nlohmann::json::parse(rows[i]);
    for (const char* key : {"step", "loss", "accuracy", "images_per_second", "steps_per_second"}) {
      CAPTURE(key);
      CHECK(event.at(key) == row.at(key));
    }
    CHECK(terminal[i + 1].find(concat("  loss ", fixed(row.at("loss").get<double>(), 4),
                                      "  accuracy ", fixed(row.at("accuracy").get<double>(), 4),
                                      "  ")) != std::string::npos);
  }
}

TEST_CASE("utc_time is UTC with three digits of milliseconds") {
  const std::chrono::system_clock::time_point time{std::chrono::milliseconds(1'700'000'000'042)};
  CHECK(utc_time(time) == "2023-11-14T22:13:20.042Z");
  CHECK(utc_time(time + std::chrono::milliseconds(900)) == "2023-11-14T22:13:20.942Z");
}

TEST_CASE("json: values that are not finite are null, bytes that are not UTF-8 become U+FFFD") {
  std::ostringstream out;
  const auto hook = make_json_hook(out, steps(1));
  hook->on_start(run_info("runs/\xff\n"));
  StepRecord p = after_step(1);
  p.loss = std::numeric_limits<double>::infinity();
  p.step_seconds = p.wait_seconds = 0;
  hook->on_step(p);
  hook->on_evaluation(evaluation(Split::kTest, 1, std::numeric_limits<double>::quiet_NaN()));
  const auto lines = split_into_lines(out.str());
  REQUIRE(lines.size() == 3);
  CHECK(nlohmann::json::parse(lines[0])["run"] == "runs/\xef\xbf\xbd\n");
  CHECK(nlohmann::json::parse(lines[1])["loss"].is_null());
  CHECK(nlohmann::json::parse(lines[1])["images_per_second"] == 0.0);
  CHECK(nlohmann::json::parse(lines[2])["loss"].is_null());
}

}  // namespace trainer::hooks

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "train/hooks/support.h"

namespace trainer::train {

using namespace test;

TEST_CASE("json: every event, its keys in order") {
  std::ostringstream out;
  const auto hook = make_json_hook(out, steps(4));
  hook->on_start(run_info("runs/digits"));
  for (std::int64_t n = 1; n <= 4; ++n) {
    Progress p = after_step(n);
    p.loss = 2.302585092994046;
    hook->on_step(p);
  }
  Evaluation e = evaluation("validation", 4, 0.1);
  e.metrics.accuracy_interval = {0.25, 0.875};
  hook->on_evaluation(e);
  e.metrics.top_k = 5;
  e.metrics.top_k_accuracy = 0.875;
  hook->on_evaluation(e);
  hook->on_checkpoint("runs/digits/checkpoints/step-00000004.safetensors");
  Finish f = finish("done");
  f.evaluations = {evaluation("validation", 20, 0.5), evaluation("test", 20, 0.30000000000000004)};
  hook->on_finish(f);
  const std::vector<std::string> expected{
      R"({"event":"start","run":"runs/digits","total_steps":20,"steps_per_epoch":8,"first_step":0,)"
      R"("global_batch":64,"replicas":1,"passes_per_epoch":1})",
      R"({"event":"step","step":1,"epoch":0.125,"loss":2.30258509,"accuracy":0.5,)"
      R"("learning_rate":0.001,"images_per_second":3200.0,"wait_share":0.25,"elapsed":0.02})",
      R"({"event":"step","step":4,"epoch":0.5,"loss":2.30258509,"accuracy":0.5,)"
      R"("learning_rate":0.001,"images_per_second":3200.0,"wait_share":0.25,"elapsed":0.08})",
      R"({"event":"evaluation","split":"validation","step":4,"epoch":0.5,"loss":0.1,)"
      R"("accuracy":0.75,"accuracy_low":0.25,"accuracy_high":0.875,"count":4,"seconds":1.25})",
      R"({"event":"evaluation","split":"validation","step":4,"epoch":0.5,"loss":0.1,)"
      R"("accuracy":0.75,"accuracy_low":0.25,"accuracy_high":0.875,"top_k":5,)"
      R"("top_k_accuracy":0.875,"count":4,"seconds":1.25})",
      R"({"event":"checkpoint","path":"runs/digits/checkpoints/step-00000004.safetensors",)"
      R"("step":4})",
      // Exact: `evaluate` prints the same digits.
      R"({"event":"finished","run":"runs/digits","steps":20,"seconds":12.3456,)"
      R"("images_per_second":21345.67,"reason":"done","metrics":{"validation":{"loss":0.5,)"
      R"("accuracy":0.75,"count":4},"test":{"loss":0.30000000000000004,"accuracy":0.75,"count":4}},)"
      R"("parameters_sha256":"ab12"})"};
  const auto lines = lines_of(out.str());
  REQUIRE(lines.size() == expected.size());
  for (std::size_t i = 0; i < lines.size(); ++i) CHECK(lines[i] == expected[i]);
}

TEST_CASE("json: the loss is the step's own, speed the mean since the last line") {
  std::ostringstream out;
  const auto hook = make_json_hook(out, steps(3));
  hook->on_start(run_info("r", 4));
  for (std::int64_t n = 5; n <= 6; ++n) {
    Progress p = after_step(n);
    p.step_seconds = n == 5 ? 1.0 : 0.5;
    hook->on_step(p);
  }
  const auto lines = lines_of(out.str());
  REQUIRE(lines.size() == 3);  // the first step after a resume is told, too
  const auto first = nlohmann::json::parse(lines[1]), second = nlohmann::json::parse(lines[2]);
  CHECK(first["step"] == 5);
  CHECK(first["loss"] == 0.5);
  CHECK(first["images_per_second"] == 64.0);
  CHECK(second["step"] == 6);
  CHECK(second["loss"] == 0.6);
  CHECK(second["images_per_second"] == 128.0);
}

TEST_CASE("json: what is not finite is null, what is not UTF-8 does not break a line") {
  std::ostringstream out;
  const auto hook = make_json_hook(out, steps(1));
  hook->on_start(run_info("runs/\xff\n"));
  Progress p = after_step(1);
  p.loss = std::numeric_limits<double>::infinity();
  p.step_seconds = p.wait_seconds = 0;
  hook->on_step(p);
  hook->on_evaluation(evaluation("test", 1, std::numeric_limits<double>::quiet_NaN()));
  const auto lines = lines_of(out.str());
  REQUIRE(lines.size() == 3);
  CHECK(nlohmann::json::parse(lines[0])["run"] == "runs/\xef\xbf\xbd\n");
  CHECK(nlohmann::json::parse(lines[1])["loss"].is_null());
  CHECK(nlohmann::json::parse(lines[1])["images_per_second"] == 0.0);
  CHECK(nlohmann::json::parse(lines[2])["loss"].is_null());
}

}  // namespace trainer::train

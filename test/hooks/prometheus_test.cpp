#include <doctest/doctest.h>

#include <array>

#include "base/files/files.h"
#include "base/process/progress.h"
#include "cluster/transport/socket.h"
#include "config/config.h"
#include "http/client.h"
#include "http/server.h"
#include "support.h"
#include "support/contains.h"

namespace trainer::hooks::prometheus_test {
namespace {

using trainer::test::contains;

struct Monitored {
  explicit Monitored(const std::string& target) {
    config.run.prometheus = target;
    config.parallel.timeout = {30, config::Duration::Unit::kSeconds};
    hook = make_prometheus_hook(
        config, {progress, [this](const std::string& text) { warnings.push_back(text); }});
  }
  config::Config config;
  Progress progress;
  std::vector<std::string> warnings;
  std::unique_ptr<Hook> hook;
};

http::Response get(int port, const std::string& path) {
  http::Request request;
  request.url = concat("http://127.0.0.1:", port, path);
  return http::Client().send(request);
}

}  // namespace

TEST_CASE("make_prometheus_hook writes the metrics of each rank to the file") {
  const TemporaryFolder folder;
  const Path file = folder.path() / "digits.prom";
  Monitored run(file.string());
  RunInfo info = test::run_info("runs/a", 10);
  run.hook->on_start(info);
  CHECK(contains(read_text_file(file), "trainer_step 10\n"));
  std::array<engine::RankTimes, 2> ranks;
  ranks[0][engine::StepPhase::kDataWait] = 0.25;
  ranks[0][engine::StepPhase::kForward] = 0.5;
  ranks[1][engine::StepPhase::kOther] = 0.75;
  for (std::int64_t step = 11; step <= 12; ++step) {
    StepRecord record = test::after_step(step);
    record.ranks = ranks;
    run.hook->on_step(record);
  }
  run.hook->on_evaluation(test::evaluation(Split::kValidation, 12, 0.5));
  run.hook->on_checkpoint({});
  CHECK_FALSE(contains(read_text_file(file), "trainer_step 12\n"));  // five seconds have not passed
  run.hook->on_finish(test::finish(FinishReason::kDone));
  const std::string text = read_text_file(file);
  for (const char* line : {
           "# TYPE trainer_steps_total counter\ntrainer_steps_total 2\n",
           "trainer_step 12\n",
           "trainer_planned_steps 20\n",
           "# TYPE trainer_step_duration_seconds summary\n"
           "trainer_step_duration_seconds_sum{rank=\"0\"} 1.5\n"
           "trainer_step_duration_seconds_count{rank=\"0\"} 2\n"
           "trainer_step_duration_seconds_sum{rank=\"1\"} 1.5\n"
           "trainer_step_duration_seconds_count{rank=\"1\"} 2\n",
           "trainer_input_wait_seconds_total{rank=\"0\"} 0.5\n"
           "trainer_input_wait_seconds_total{rank=\"1\"} 0\n",
           "trainer_images_per_second 3200\n",
           "trainer_loss 1.1\n",
           "trainer_checkpoint_age_seconds ",
           "trainer_evaluation{split=\"validation\",metric=\"accuracy\"} 0.75\n",
           "trainer_evaluation{split=\"validation\",metric=\"loss\"} 0.5\n",
       }) {
    CAPTURE(text);
    CHECK(contains(text, line));
  }
  CHECK(run.warnings.empty());
}

TEST_CASE("make_prometheus_hook writes the file at most every five seconds") {
  const TemporaryFolder folder;
  const Path file = folder.path() / "a.prom";
  Monitored run(file.string());
  run.hook->on_start(test::run_info("run"));
  StepRecord record = test::after_step(1);
  for (const auto& [elapsed, step] : {std::pair{4.9, 0}, {5.0, 2}, {9.9, 2}, {10.1, 4}}) {
    record.elapsed = elapsed;
    run.hook->on_step(record);
    CAPTURE(elapsed);
    CHECK(contains(read_text_file(file), concat("trainer_steps_total ", step, "\n")));
    ++record.step;
  }
}

TEST_CASE("make_prometheus_hook serves the metrics, and whether the process makes progress") {
  const cluster::ReservedPort reserved;
  const int port = reserved.number();
  Monitored run(concat(":", port));
  run.hook->on_start(test::run_info("run"));
  run.hook->on_step(test::after_step(1));
  const http::Response metrics = get(port, "/metrics");
  CHECK(metrics.status == 200);
  CHECK(contains(metrics.body, "trainer_steps_total 1\n"));
  CHECK(contains(metrics.body, "trainer_step_duration_seconds_sum{rank=\"0\"} 0.02\n"));
  CHECK(get(port, "/healthz").status == 200);
  run.progress.set_stalled_for(std::chrono::milliseconds(29'999));
  CHECK(get(port, "/healthz").status == 200);
  run.progress.set_stalled_for(std::chrono::milliseconds(30'000));
  const http::Response stalled = get(port, "/healthz");
  CHECK(stalled.status == 503);
  CHECK(stalled.body == "no progress for 30 s\n");
  CHECK(get(port, "/").status == 404);
  run.hook.reset();
  CHECK(get(port, "/metrics").status == 0);
}

TEST_CASE("make_prometheus_hook warns once of a port or file that cannot be used") {
  const http::Server other("127.0.0.1", 0, [](std::string_view) { return http::Page{}; });
  Monitored served(concat(":", other.port()));
  served.hook->on_start(test::run_info("run"));
  REQUIRE(served.warnings.size() == 1);
  CHECK(contains(served.warnings[0], concat("run.prometheus: cannot listen on port ", other.port(),
                                            " of 127.0.0.1: ")));
  const TemporaryFolder folder;
  Monitored written((folder.path() / "missing" / "a.prom").string());
  written.hook->on_start(test::run_info("run"));
  written.hook->on_finish(test::finish(FinishReason::kDone));
  REQUIRE(written.warnings.size() == 1);
  CHECK(contains(written.warnings[0], "missing"));
}

}  // namespace trainer::hooks::prometheus_test

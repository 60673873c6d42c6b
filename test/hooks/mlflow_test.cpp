// The MLflow hook before a server that misbehaves (mlflow_server.py). test/scripts/mlflow_test.py
// has a real one.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/files/files.h"
#include "config/config.h"
#include "hooks/mlflow/names.h"
#include "hooks/mlflow/sender.h"
#include "requests.h"
#include "support.h"
#include "support/contains.h"
#include "support/loopback_server.h"

namespace trainer::hooks::mlflow_test {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using trainer::test::contains;

class Tracking {
 public:
  // `kind` as mlflow_server.py describes it.
  explicit Tracking(const std::string& kind = "good")
      : server_("test/hooks/mlflow_server.py", {(folder_.path() / "log").string()}),
        url_(concat(server_.url(), '/', kind)) {
    std::filesystem::create_directory(dir());
  }

  Path dir() const { return folder_.path() / "runs" / "digits-1"; }
  const std::string& url() const { return url_; }
  void stop() { server_.stop(); }

  // The requests so far, in order; those of one call, if it is not "".
  std::vector<Json> requests(const std::string& call = "") const {
    std::vector<Json> found = test::read_requests(folder_.path() / "log");
    std::erase_if(found, [&](const Json& one) { return !call.empty() && one["call"] != call; });
    return found;
  }
  // The values of all log-batch requests.
  std::vector<Json> metrics(const std::string& key) const {
    std::vector<Json> found;
    for (const Json& request : requests("runs/log-batch")) {
      for (const Json& metric : request["body"].value("metrics", Json::array())) {
        if (metric["key"] == key) found.push_back(metric);
      }
    }
    return found;
  }
  std::map<std::string, std::string> pairs(const std::string& kind) const {
    std::map<std::string, std::string> found;
    for (const Json& request : requests("runs/log-batch")) {
      for (const Json& pair : request["body"].value(kind, Json::array())) {
        found[pair["key"]] = pair["value"];
      }
    }
    return found;
  }
  std::vector<std::string> statuses() const {
    std::vector<std::string> found;
    for (const Json& request : requests("runs/update")) found.push_back(request["body"]["status"]);
    return found;
  }
  std::map<std::string, std::string> artifacts() const {
    std::map<std::string, std::string> found;
    for (const Json& request : requests()) {
      const std::string path = request["path"];
      if (request["method"] == "PUT")
        found[path.substr(path.find("/artifacts/"))] = request["body"];
    }
    return found;
  }

 private:
  struct Folder : TemporaryFolder {
    Folder() { std::filesystem::create_directory(path() / "runs"); }
  };
  Folder folder_;
  trainer::test::LoopbackServer server_;
  std::string url_;
};

// A hook with short pauses, and its warnings.
struct Tracked {
  explicit Tracked(const std::string& url, std::map<std::string, std::string> environment = {},
                   milliseconds patience = milliseconds(5000)) {
    config.name = "digits";
    config.run.mlflow = url;
    config.run.summary_every = test::steps(1);
    MlflowOptions options;
    options.tags = {{"trainer.version", "trainer 1"}};
    options.environment = std::move(environment);
    options.warn = [this](const std::string& text) { warnings.push_back(text); };
    options.pause = milliseconds(10);
    options.patience = patience;
    hook = make_mlflow_hook(config, std::move(options));
  }
  // Makes steps up to `last`, with an evaluation behind it.
  void train(const Path& dir, std::int64_t first, std::int64_t last) {
    hook->on_start(test::run_info(dir, first));
    for (std::int64_t step = first + 1; step <= last; ++step) hook->on_step(test::after_step(step));
    hook->on_evaluation(test::evaluation(Split::kValidation, last, 0.5));
  }
  void finish(FinishReason reason = FinishReason::kDone) {
    Finish end = test::finish(reason);
    end.evaluations = {test::evaluation(Split::kValidation, 20, 0.5)};
    hook->on_finish(end);
  }

  config::Config config;
  std::vector<std::string> warnings;
  std::unique_ptr<Hook> hook;
};

std::vector<std::int64_t> list_steps(const std::vector<Json>& metrics) {
  std::vector<std::int64_t> steps;
  for (const Json& metric : metrics) steps.push_back(metric["step"]);
  return steps;
}

using Steps = std::vector<std::int64_t>;
using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("MlflowHook sends a run, its settings, rows, end and files") {
  Tracking tracking;
  Tracked tracked(tracking.url());
  tracked.train(tracking.dir(), 0, 3);
  std::ofstream(tracking.dir() / "report.html") << "<p>report";
  tracked.finish();
  CHECK(tracked.warnings.empty());
  CHECK(tracking.requests("experiments/create").at(0)["body"]["name"] == "digits");
  const Json created = tracking.requests("runs/create").at(0)["body"];
  CHECK(created["experiment_id"] == "1");
  CHECK(created["run_name"] == "digits-1");
  CHECK(created["start_time"].get<std::int64_t>() > 1'700'000'000'000);
  CHECK(tracking.pairs("params")["optimizer.adam.learning_rate"] == "0.001");
  CHECK(tracking.pairs("tags")["trainer.version"] == "trainer 1");
  CHECK(tracking.pairs("tags")["trainer.run"] == tracking.dir().string());
  CHECK(list_steps(tracking.metrics("train/loss")) == Steps{1, 2, 3});
  CHECK(tracking.metrics("train/loss").at(1)["value"] == doctest::Approx(0.2));
  CHECK(tracking.metrics("epoch").at(1)["value"] == 0.25);
  CHECK(tracking.metrics("learning_rate").size() == 3);
  CHECK(tracking.metrics("validation/loss").at(0)["value"] == 0.5);
  CHECK(tracking.metrics("validation/accuracy").at(0)["step"] == 3);
  CHECK(tracking.statuses() == Words{"RUNNING", "FINISHED"});
  CHECK_FALSE(tracking.requests("runs/update").at(0)["body"].contains("end_time"));
  CHECK(tracking.requests("runs/update").at(1)["body"]["end_time"] >= created["start_time"]);
  const auto artifacts = tracking.artifacts();
  CHECK(artifacts.size() == 3);
  CHECK(artifacts.at("/artifacts/1/run0/artifacts/config.yaml") == config::to_yaml(tracked.config));
  CHECK(artifacts.at("/artifacts/1/run0/artifacts/report.html") == "<p>report");
  const Json metrics = Json::parse(artifacts.at("/artifacts/1/run0/artifacts/final_metrics.json"));
  CHECK(metrics["steps"] == 20);
  CHECK(metrics["reason"] == "done");
  CHECK(metrics["metrics"]["validation"]["accuracy"] == 0.75);
  CHECK(Json::parse(read_text_file(tracking.dir() / "mlflow.json")) ==
        Json{{"url", tracking.url()}, {"run_id", "run0"}});
}

TEST_CASE("MlflowHook: times of a step and use of devices are on MLflow's page of system metrics") {
  Tracking tracking;
  Tracked tracked(tracking.url());
  RunInfo info = test::run_info(tracking.dir(), 0);
  engine::Gaps gaps;
  info.gaps = [&] { return gaps; };
  std::vector<engine::DeviceTotals> devices{engine::DeviceTotals("gpu0")};
  info.device_totals = [&] { return devices; };
  tracked.hook->on_start(info);
  gaps = {1, 0.125};
  backend::DeviceReading reading;
  reading.power_watts = 300;
  devices[0].add(reading, 1);
  StepRecord p = test::after_step(1);
  engine::RankTimes times;
  times[engine::StepPhase::kForward] = 0.25;
  const engine::RankTimes ranks[] = {times};
  p.ranks = ranks;
  tracked.hook->on_step(p);
  tracked.finish();
  CHECK(tracking.metrics("system/step_time/forward_seconds").at(0)["value"] == 0.25);
  CHECK(tracking.metrics("system/gap_seconds").at(0)["value"] == 0.125);
  CHECK(tracking.metrics("system/gpu0/power_watts").at(0)["value"] == 300);
  for (const char* name : {"step_time/forward_seconds", "gap_seconds", "gpu0/power_watts"}) {
    CAPTURE(std::string(name));
    CHECK(tracking.metrics(name).empty());
  }
  CHECK(tracking.metrics("images_per_second").size() == 1);
  CHECK(tracking.metrics("learning_rate").size() == 1);
}

TEST_CASE("MlflowHook: MLFLOW_EXPERIMENT_NAME names the experiment") {
  Tracking tracking;
  Tracked tracked(tracking.url(), {{"MLFLOW_EXPERIMENT_NAME", "a & b/é"}});
  tracked.train(tracking.dir(), 0, 1);
  tracked.finish();
  CHECK(tracking.requests("experiments/get-by-name").at(0)["body"]["experiment_name"] == "a & b/é");
  CHECK(tracking.requests("experiments/create").at(0)["body"]["name"] == "a & b/é");
}

TEST_CASE("MlflowHook: credentials of the environment are in every request and in no file") {
  Tracking tracking;
  std::map<std::string, std::string> environment{{"MLFLOW_TRACKING_TOKEN", "s3cret"}};
  std::string expected = "Bearer s3cret";
  SUBCASE("a token") {}
  SUBCASE("a user without a password and a token") {
    environment["MLFLOW_TRACKING_USERNAME"] = "ann";
  }
  SUBCASE("a user with a password") {
    environment["MLFLOW_TRACKING_USERNAME"] = "ann";
    environment["MLFLOW_TRACKING_PASSWORD"] = "s3cret";
    expected = "Basic YW5uOnMzY3JldA==";
  }
  Tracked tracked(tracking.url(), environment);
  tracked.train(tracking.dir(), 0, 1);
  tracked.finish();
  for (const Json& request : tracking.requests()) {
    CHECK(request["authorization"] == expected);
    CHECK_FALSE(contains(request["body"].dump(), "s3cret"));
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(tracking.dir())) {
    CHECK_FALSE(contains(read_text_file(entry.path()), "s3cret"));
  }
}

TEST_CASE("MlflowHook: each way in which a run ends has its status") {
  Tracking tracking;
  std::optional<Tracked> tracked(std::in_place, tracking.url());
  tracked->train(tracking.dir(), 0, 1);
  std::string status;
  SUBCASE("done") {
    tracked->finish();
    status = "FINISHED";
  }
  SUBCASE("early stop") {
    tracked->finish(FinishReason::kEarlyStop);
    status = "FINISHED";
  }
  SUBCASE("a signal") {
    tracked->finish(FinishReason::kInterrupted);
    status = "KILLED";
  }
  SUBCASE("an error, after which on_finish() is not called") { status = "FAILED"; }
  tracked.reset();
  CHECK(tracking.statuses() == Words{"RUNNING", status});
}

TEST_CASE("MlflowHook: numbers that are not finite are the texts of Protocol Buffers") {
  Tracking tracking;
  Tracked tracked(tracking.url());
  tracked.hook->on_start(test::run_info(tracking.dir()));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::int64_t step = 0;
  for (const double loss : {std::nan(""), kInfinity, -kInfinity}) {
    tracked.hook->on_evaluation(test::evaluation(Split::kTest, ++step, loss));
  }
  tracked.finish();
  const std::vector<Json> losses = tracking.metrics("test/loss");
  REQUIRE(losses.size() == 3);
  CHECK(losses[0]["value"] == "NaN");
  CHECK(losses[1]["value"] == "Infinity");
  CHECK(losses[2]["value"] == "-Infinity");
}

TEST_CASE("MlflowHook: an evaluation that is repeated at its step is sent once") {
  Tracking tracking;
  Tracked tracked(tracking.url());
  tracked.train(tracking.dir(), 0, 2);
  tracked.hook->on_evaluation(test::evaluation(Split::kValidation, 2, 0.25));
  tracked.hook->on_evaluation(test::evaluation(Split::kTest, 2, 0.125));
  tracked.finish();
  CHECK(tracking.metrics("validation/loss").size() == 1);
  CHECK(tracking.metrics("test/loss").size() == 1);
}

TEST_CASE("MlflowHook: a resumed run continues its run on the server without repeated values") {
  Tracking tracking;
  {
    Tracked first(tracking.url());
    first.train(tracking.dir(), 0, 4);
    first.finish(FinishReason::kInterrupted);
  }
  Tracked second(tracking.url());
  second.config.seed = 7;
  MlflowOptions options;
  options.warn = [&](const std::string& text) { second.warnings.push_back(text); };
  options.pause = milliseconds(10);
  second.hook = make_mlflow_hook(second.config, std::move(options));
  second.train(tracking.dir(), 2, 6);
  second.finish();
  CHECK(second.warnings.empty());
  CHECK(tracking.requests("runs/create").size() == 1);
  CHECK(list_steps(tracking.metrics("train/loss")) == Steps{1, 2, 3, 4, 5, 6});
  CHECK(list_steps(tracking.metrics("validation/loss")) == Steps{4, 6});
  CHECK(tracking.statuses() == Words{"RUNNING", "KILLED", "RUNNING", "FINISHED"});
  // Parameters cannot be changed; the new value is a tag.
  std::multiset<std::string> params;
  for (const Json& request : tracking.requests("runs/log-batch")) {
    for (const Json& param : request["body"].value("params", Json::array())) {
      params.insert(param["key"].get<std::string>());
    }
  }
  CHECK(params.count("seed") == 1);
  CHECK(tracking.pairs("params")["seed"] == "42");
  CHECK(tracking.pairs("tags")["seed"] == "7");
}

TEST_CASE("MlflowHook: a run that the server does not have is created again") {
  Tracking tracking;
  std::string id_file;
  SUBCASE("the server has lost it") {
    id_file = concat(R"({"url":")", tracking.url(), R"(","run_id":"lost"})");
  }
  SUBCASE("the run was on another server") {
    id_file = R"({"url":"http://host:1","run_id":"run0"})";
  }
  SUBCASE("the file is damaged") { id_file = R"({"url":)"; }
  write_file_atomic(tracking.dir() / "mlflow.json", id_file);
  Tracked tracked(tracking.url());
  tracked.train(tracking.dir(), 2, 3);
  tracked.finish();
  CHECK(tracked.warnings.empty());
  CHECK(tracking.requests("runs/create").size() == 1);
  CHECK(tracking.statuses() == Words{"RUNNING", "FINISHED"});
  CHECK(contains(read_text_file(tracking.dir() / "mlflow.json"), "run0"));
}

TEST_CASE("MlflowHook: a server that fails at first causes one warning, and nothing is lost") {
  Tracking tracking("failing/503/3");
  Tracked tracked(tracking.url());
  tracked.train(tracking.dir(), 0, 5);
  test::wait_until([&] { return !tracking.statuses().empty(); });
  tracked.finish();
  REQUIRE(tracked.warnings.size() == 1);
  CHECK(contains(tracked.warnings[0], concat("MLflow at ", tracking.url(),
                                             ": the server answers "
                                             "with status 503; the run goes on")));
  CHECK(list_steps(tracking.metrics("train/loss")) == Steps{1, 2, 3, 4, 5});
  CHECK(tracking.statuses() == Words{"RUNNING", "FINISHED"});
}

TEST_CASE("MlflowHook: a missing server causes a warning with the count of rows and no waiting") {
  Tracking tracking;
  tracking.stop();
  Tracked tracked(tracking.url());
  const Clock::time_point start = Clock::now();
  tracked.train(tracking.dir(), 0, 20);
  tracked.finish();
  CHECK(Clock::now() - start < milliseconds(5000));  // the patience of the hook
  REQUIRE(tracked.warnings.size() == 2);
  CHECK(contains(tracked.warnings[0], tracking.url()));
  CHECK(contains(tracked.warnings[0], "the run goes on"));
  CHECK(contains(tracked.warnings[1], "21 of 21 rows were not sent, nor how the run ended"));
  CHECK_FALSE(std::filesystem::exists(tracking.dir() / "mlflow.json"));
}

TEST_CASE("MlflowHook: a server that stops during the run has the rows from before") {
  Tracking tracking;
  Tracked tracked(tracking.url());
  tracked.train(tracking.dir(), 0, 3);
  test::wait_until([&] { return !tracking.metrics("validation/loss").empty(); });
  tracked.hook->on_step(test::after_step(4));
  test::wait_until([&] { return tracking.metrics("train/loss").size() == 4; });
  tracking.stop();
  for (std::int64_t step = 5; step <= 10; ++step) tracked.hook->on_step(test::after_step(step));
  tracked.finish();
  REQUIRE(tracked.warnings.size() == 2);
  // The server may have stopped before it confirmed step 4.
  CHECK((contains(tracked.warnings[1], "6 of 11 rows were not sent, nor how the run ended") ||
         contains(tracked.warnings[1], "7 of 11 rows were not sent, nor how the run ended")));
}

TEST_CASE("MlflowHook: each answer of a slow server extends the time at the end of the run") {
  Tracking tracking("sluggish");
  Tracked tracked(tracking.url(), {}, milliseconds(2000));
  tracked.train(tracking.dir(), 0, 1);
  tracked.finish();  // the status is the eighth call of half a second
  CHECK(tracked.warnings.empty());
  CHECK(tracking.statuses() == Words{"RUNNING", "FINISHED"});
}

TEST_CASE("MlflowHook: a slow server does not slow the run, whose end waits for a limited time") {
  Tracking tracking("slow");
  Tracked tracked(tracking.url(), {}, milliseconds(500));
  const Clock::time_point start = Clock::now();
  tracked.train(tracking.dir(), 0, 20);
  CHECK(Clock::now() - start < milliseconds(2000));  // the time of one answer
  tracked.finish();
  CHECK(Clock::now() - start < milliseconds(20'000));  // 22 answers take 44 s
  CHECK(contains(tracked.warnings.back(), "21 of 21 rows were not sent"));
}

TEST_CASE("MlflowHook: a server that rejects the run gets one call and causes one warning") {
  std::string kind, reason;
  SUBCASE("without credentials") {
    kind = "closed";
    reason = "the server answers with status 401";
  }
  SUBCASE("another program") {
    kind = "strange";
    reason = "the answer is not that of an MLflow server";
  }
  Tracking tracking(kind);
  Tracked tracked(tracking.url());
  tracked.train(tracking.dir(), 0, 20);
  tracked.finish();
  CHECK(tracking.requests().size() == 1);
  REQUIRE(tracked.warnings.size() == 2);
  CHECK(contains(tracked.warnings[0], reason));
  CHECK(contains(tracked.warnings[1], "21 of 21 rows were not sent"));
}

TEST_CASE("MlflowHook: rows that the server rejects are counted, and the rest is sent") {
  Tracking tracking("rejecting/400");
  Tracked tracked(tracking.url());
  tracked.train(tracking.dir(), 0, 2);
  tracked.finish();
  REQUIRE(tracked.warnings.size() == 2);
  CHECK(contains(tracked.warnings[0], "status 400: bad\\x1b metrics"));
  CHECK(contains(tracked.warnings[1], "3 of 3 rows were not sent"));
  CHECK_FALSE(contains(tracked.warnings[1], "ended"));
  CHECK(tracking.statuses() == Words{"RUNNING", "FINISHED"});
}

TEST_CASE(
    "MlflowHook: artifacts that are not on the server cause a warning, and all else is sent") {
  Tracking tracking("elsewhere");
  Tracked tracked(tracking.url());
  tracked.train(tracking.dir(), 0, 2);
  tracked.finish();
  REQUIRE(tracked.warnings.size() == 1);
  CHECK(contains(tracked.warnings[0], "s3://bucket/run0/artifacts"));
  CHECK(tracking.artifacts().empty());
  CHECK(tracking.metrics("train/loss").size() == 2);
}

TEST_CASE("mlflow::Sender: requests with many rows and settings stay within MLflow's limits") {
  Tracking tracking;
  mlflow::RunDescription run;
  run.url = tracking.url();
  run.experiment = "digits";
  run.id_file = tracking.dir() / "mlflow.json";
  for (int i = 0; i < 250; ++i) {
    run.params.emplace_back(concat("p", i), "v");
    run.tags.emplace_back(concat("t", i), "v");
  }
  {
    mlflow::Sender sender(run, {}, {.between_requests = milliseconds(200)});
    for (int step = 0; step < 900; ++step) sender.add(step, {{"a", 1}, {"b", 2}, {"c", 3}});
    sender.close({"FINISHED", {}});
    CHECK(sender.rows_not_sent() == 0);
    CHECK(sender.has_sent_status());
  }
  for (const Json& request : tracking.requests("runs/log-batch")) {
    CHECK(request["body"].value("metrics", Json::array()).size() <= 1000);
    CHECK(request["body"].value("params", Json::array()).size() <= 100);
    CHECK(request["body"].value("tags", Json::array()).size() <= 100);
  }
  CHECK(tracking.pairs("params").size() == 250);
  CHECK(tracking.pairs("tags").size() == 250);
  CHECK(tracking.metrics("c").size() == 900);
  CHECK(tracking.requests("runs/log-batch").size() < 12);  // and not one per row
}

TEST_CASE("mlflow::Sender: the rows beyond the queue are counted in a long outage") {
  Tracking tracking("failing/503/5");
  mlflow::RunDescription run;
  run.url = tracking.url();
  run.experiment = "digits";
  run.id_file = tracking.dir() / "mlflow.json";
  mlflow::Sender sender(run, {}, {.first_pause = milliseconds(50), .max_rows = 10});
  for (int step = 0; step < 25; ++step) sender.add(step, {{"a", 1}});
  test::wait_until([&] { return !tracking.statuses().empty(); });
  sender.close({"FINISHED", {}});
  CHECK(sender.rows_not_sent() == 15);
  CHECK(list_steps(tracking.metrics("a")) == Steps{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("mlflow::to_params: keys and values of a config are texts that MLflow accepts") {
  const std::string long_value(7000, 'x');
  const mlflow::Pairs params = mlflow::to_params({{"model.layers[2].conv.filters", "8"},
                                                  {"train.class_weight.cat/dög", "2"},
                                                  {"a:b", "1"},
                                                  {"a;b", "2"},
                                                  {"a,b", "3"},
                                                  {"none", "null"},
                                                  {"nothing", ""},
                                                  {"list", "[]"},
                                                  {"text", "\"\""},
                                                  {"long", long_value},
                                                  {std::string(300, 'k'), "1"},
                                                  {std::string(301, 'k'), "2"}});
  const std::map<std::string, std::string> found(params.begin(), params.end());
  CHECK(found.size() == 8);
  CHECK(found.at("model.layers.2.conv.filters") == "8");
  CHECK(found.at("train.class_weight.cat_d__g") == "2");
  CHECK(found.at("a_b") == "1");
  CHECK(found.at("a_b_2") == "2");
  CHECK(found.at("a_b_3") == "3");
  CHECK(found.at("long").size() == 6000);
  CHECK(found.at(std::string(250, 'k')) == "1");
  CHECK(found.at(std::string(242, 'k') + "_2") == "2");
}

TEST_CASE("mlflow::cut_text: a character of several bytes is kept or left out as a whole") {
  CHECK(mlflow::cut_text("aé", 3) == "aé");
  CHECK(mlflow::cut_text("aé", 2) == "a");
  CHECK(mlflow::cut_text("aéb", 3) == "aé");
  CHECK(mlflow::cut_text("é", 1).empty());
}

}  // namespace trainer::hooks::mlflow_test

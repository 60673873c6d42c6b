// The hook for Kubeflow before a server that misbehaves (kubeflow_server.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "requests.h"
#include "support.h"
#include "support/contains.h"
#include "support/loopback_server.h"

namespace trainer::hooks::kubeflow_test {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using trainer::test::contains;

// The time that the hook waits for an answer.
constexpr milliseconds kAnswer{15'000};

// A server, the files that a pod gets, and a hook with short pauses.
struct Pod {
  // `kind` as kubeflow_server.py describes it.
  explicit Pod(const std::string& kind, milliseconds period = milliseconds(20),
               milliseconds token_age = milliseconds(0))
      : server("test/hooks/kubeflow_server.py", {(folder.path() / "log").string()}) {
    write_token("first");
    KubeflowOptions options;
    options.environment = {{"KUBEFLOW_TRAINER_SERVER_URL", concat(server.url(), "/", kind)},
                           {"KUBEFLOW_TRAINER_SERVER_CA_CERT", (folder.path() / "ca").string()},
                           {"KUBEFLOW_TRAINER_SERVER_TOKEN", (folder.path() / "token").string()}};
    options.warn = [this](const std::string& text) { warnings.push_back(text); };
    options.period = period;
    options.patience = kAnswer;
    options.token_age = token_age;
    if (kind == "slow") options.patience = milliseconds(100);
    hook = make_kubeflow_hook(std::move(options));
  }
  void write_token(const std::string& token) const {
    std::ofstream(folder.path() / "token") << token << "\n";
  }
  std::vector<Json> requests() const { return test::read_requests(folder.path() / "log"); }
  int count(int status) const {
    return static_cast<int>(std::ranges::count_if(
        requests(), [&](const Json& request) { return request["status"] == status; }));
  }
  // Waits until the server has answered so many requests with the status.
  void wait_for(int status, int times = 1) const {
    test::wait_until([&] { return count(status) >= times; });
  }

  TemporaryFolder folder;
  trainer::test::LoopbackServer server;
  std::vector<std::string> warnings;
  std::unique_ptr<Hook> hook;
};

std::string find_metric(const Json& request, const std::string& name) {
  for (const Json& metric : request["body"]["trainerStatus"]["metrics"]) {
    if (metric["name"] == name) return metric["value"];
  }
  return "";
}

}  // namespace

TEST_CASE("make_kubeflow_hook returns null unless all variables are set") {
  std::map<std::string, std::string> environment{{"KUBEFLOW_TRAINER_SERVER_URL", "http://a"},
                                                 {"KUBEFLOW_TRAINER_SERVER_CA_CERT", "b"}};
  CHECK(make_kubeflow_hook({environment, {}}) == nullptr);
  environment["KUBEFLOW_TRAINER_SERVER_TOKEN"] = "c";
  CHECK(make_kubeflow_hook({environment, {}}) != nullptr);
}

TEST_CASE("make_kubeflow_hook posts progress, time to the end, metrics and the end") {
  Pod pod("good");
  pod.hook->on_start(test::run_info("run", 5));  // of 20 steps
  pod.wait_for(200);
  StepRecord record = test::after_step(10);
  record.elapsed = 50;  // for five steps
  pod.hook->on_step(record);
  pod.hook->on_evaluation(test::evaluation(Split::kValidation, 10, 0.25));
  pod.wait_for(200, 2);
  pod.hook->on_finish(test::finish(FinishReason::kDone));
  const std::vector<Json> requests = pod.requests();
  const Json first = requests.front()["body"]["trainerStatus"];
  CHECK(first["progressPercentage"] == 25);
  CHECK_FALSE(first.contains("estimatedRemainingSeconds"));
  CHECK(requests.front()["authorization"] == "Bearer first");
  CHECK(requests.front()["type"] == "application/json");
  CHECK(requests.front()["path"] == "/good");
  const Json step = requests[1]["body"]["trainerStatus"];
  CHECK(step["progressPercentage"] == 50);
  CHECK(step["estimatedRemainingSeconds"] == 100);
  CHECK(step["lastUpdatedTime"].get<std::string>().ends_with("Z"));
  const Json last = requests.back()["body"]["trainerStatus"];
  CHECK(last["progressPercentage"] == 100);
  CHECK(last["estimatedRemainingSeconds"] == 0);
  CHECK(find_metric(requests.back(), "train/loss") == "1");
  CHECK(find_metric(requests.back(), "images_per_second") == "3200");
  CHECK(find_metric(requests.back(), "validation/loss") == "0.25");
  CHECK(pod.warnings.empty());
}

TEST_CASE("make_kubeflow_hook makes at most one post per period, and one at the end") {
  constexpr milliseconds kPeriod{300};
  Pod pod("good", kPeriod);
  const Clock::time_point start = Clock::now();
  pod.hook->on_start(test::run_info("run"));
  for (std::int64_t step = 1; step <= 20; ++step) {
    pod.hook->on_step(test::after_step(step));
    std::this_thread::sleep_for(milliseconds(20));  // the pace of the steps
  }
  pod.hook->on_finish(test::finish(FinishReason::kInterrupted));
  const auto periods = (Clock::now() - start) / kPeriod;
  const std::vector<Json> requests = pod.requests();
  CHECK(requests.size() >= 2);
  CHECK(static_cast<std::int64_t>(requests.size()) <= 2 + periods);
  CHECK(requests.back()["body"]["trainerStatus"]["progressPercentage"] == 99);  // interrupted
}

TEST_CASE("make_kubeflow_hook reads a token again that the server rejects") {
  Pod pod("second");
  pod.hook->on_start(test::run_info("run"));
  pod.wait_for(401);
  pod.write_token("second");
  pod.wait_for(200);
  pod.hook->on_finish(test::finish(FinishReason::kDone));
  CHECK(pod.requests().back()["authorization"] == "Bearer second");
  REQUIRE(pod.warnings.size() == 1);
  CHECK(contains(pod.warnings[0], "the server answers with status 401"));
  CHECK_FALSE(contains(pod.warnings[0], "first"));
}

TEST_CASE("make_kubeflow_hook reads a token again once it has reached its age") {
  for (const auto& [age, token] : {std::pair{std::chrono::hours(0), "Bearer second"},
                                   {std::chrono::hours(1), "Bearer first"}}) {
    Pod pod("good", milliseconds(20), age);
    pod.hook->on_start(test::run_info("run"));
    pod.wait_for(200);
    pod.write_token("second");
    for (int posts = 2; posts <= 4; ++posts) {
      pod.hook->on_step(test::after_step(posts));
      pod.wait_for(200, posts);
    }
    pod.hook->on_finish(test::finish(FinishReason::kDone));
    CHECK(pod.requests().front()["authorization"] == "Bearer first");
    CHECK(pod.requests().back()["authorization"] == token);
  }
}

TEST_CASE("make_kubeflow_hook repeats a post that fails, and warns once") {
  Pod pod("failing");
  pod.hook->on_start(test::run_info("run"));
  pod.wait_for(503, 2);
  pod.hook->on_step(test::after_step(1));
  pod.wait_for(200);
  pod.hook->on_finish(test::finish(FinishReason::kDone));
  CHECK(pod.requests().back()["body"]["trainerStatus"]["progressPercentage"] == 100);
  REQUIRE(pod.warnings.size() == 1);
  CHECK(contains(pod.warnings[0], "status 503"));
}

TEST_CASE("make_kubeflow_hook ends without the answer of a server") {
  for (const char* kind : {"closed", "slow", "broken"}) {
    CAPTURE(kind);
    Pod pod(kind);
    pod.hook->on_start(test::run_info("run"));
    pod.wait_for(kind == std::string("closed") ? 403 : 200);
    if (kind != std::string("slow")) pod.server.stop();
    pod.hook.reset();  // an error ends the run
    CHECK(pod.warnings.empty());
  }
  Pod pod("slow");
  pod.hook->on_start(test::run_info("run"));
  pod.wait_for(200);
  pod.hook->on_finish(test::finish(FinishReason::kDone));
  CHECK(pod.warnings.size() == 1);
}

}  // namespace trainer::hooks::kubeflow_test

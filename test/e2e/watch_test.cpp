// `watch` beside training processes, and after them.
#include <doctest/doctest.h>
#include <signal.h>

#include <fstream>
#include <set>

#include "base/error.h"
#include "base/files/files.h"
#include "program.h"
#include "support/contains.h"
#include "support/process_events.h"

namespace trainer::e2e::watch_test {
namespace {

using test::contains;

std::string build_config(const Workspace& work) {
  return work.config(kModel + ("data: {format: idx, path: " + work.data() + R"(, limit: 320}
optimizer: {adam: {learning_rate: 3.0e-3}}
train: {max_steps: 1000000, batch_size: 32}
run: {evaluate_every: 20 steps, summary_every: 2 steps, tensorboard: false}
)"));
}

Arguments train(const std::string& config, const Path& run, int steps = 1000000) {
  return {"train", config, "--quiet", "--run-dir", run, "--set", concat("train.max_steps=", steps)};
}
Arguments watch(const std::vector<Path>& runs, const Arguments& more = {}) {
  Arguments arguments{"watch", "--every", "0.1"};
  arguments.insert(arguments.end(), runs.begin(), runs.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Returns the lines of a run.
std::vector<Json> select(const Result& result, const Path& run) {
  std::vector<Json> lines;
  for (const Json& line : result.lines()) {
    CHECK(line.at("event") == "progress");
    if (line.at("folder") == run.string()) lines.push_back(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("watch follows two runs from before their start to their ends, and then ends with 0") {
  const Workspace work;
  const std::string config = build_config(work);
  const Path a = work / "a", b = work / "b", page = work / "page.html";
  Program lines(watch({a, b}));
  Program json(watch({a, b}, {"--json", "--html", page}));
  REQUIRE(lines.wait_for("b: waiting  there is no such folder yet"));
  REQUIRE(test::poll_until([&] { return std::filesystem::exists(page); }));
  CHECK(contains(read_text_file(page), "http-equiv=\"refresh\" content=\"1\""));
  CHECK_FALSE(contains(read_text_file(page), "<svg"));
  Program first(train(config, a, 80));
  REQUIRE(run(train(config, b, 40)).code == 0);
  REQUIRE(first.wait().code == 0);

  const Result shown = lines.wait();
  CHECK(shown.code == 0);
  CHECK(shown.err.empty());
  INFO(shown.out);
  CHECK(contains(shown.out, "a: finished (done)  step 80/80  epoch "));
  CHECK(contains(shown.out, "b: finished (done)  step 40/40  epoch "));
  CHECK_FALSE(contains(shown.out, "\x1b"));
  CHECK_FALSE(contains(shown.out, "\r"));

  const Result events = json.wait();
  CHECK(events.code == 0);
  for (const Path& path : {a, b}) {
    const std::vector<Json> changes = select(events, path);
    REQUIRE(changes.size() >= 2);
    std::set<std::string> states;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      states.insert(changes[i].at("state"));
      if (i > 0) CHECK(changes[i] != changes[i - 1]);
      if (i > 0) CHECK(changes[i].at("step") >= changes[i - 1].at("step"));
    }
    CHECK(changes.front().at("state") == "waiting");
    CHECK(states.contains("finished"));
    const Json& last = changes.back();
    CHECK(last.at("state") == "finished");
    CHECK(last.at("step") == last.at("total_steps"));
    const Json record = Json::parse(read_text_file(path / "run.json"));
    CHECK(last.at("images_per_second") == record.at("finished").at("images_per_second"));
    const Json test = record.at("finished").at("metrics").at("test");
    CHECK(last.at("metrics").at("test").at("accuracy") == test.at("accuracy"));
  }
  // The page has the charts of both runs, and needs no further load.
  const std::string html = read_text_file(page);
  CHECK_FALSE(contains(html, "http-equiv"));
  CHECK(contains(html, "<h2>" + a.string() + "</h2>"));
  CHECK(contains(html, "id=\"loss-1\""));
  CHECK(contains(html, "id=\"accuracy-2\""));
  CHECK(run(watch({a}, {"--html", page})).code == kExitConfig);
  CHECK(run(watch({a}, {"--html", page, "--overwrite"})).code == 0);
  CHECK_FALSE(contains(read_text_file(page), b.string()));
}

TEST_CASE("watch shows a run in training until Ctrl-C, and ends with 3 when the run was killed") {
  const Workspace work;
  const Path folder = work / "run";
  Program training(train(build_config(work), folder));
  {
    Program watching(watch({folder}));
    REQUIRE(watching.wait_for("run: running  step "));
    REQUIRE(watching.wait_for("  eta "));
    REQUIRE(watching.wait_for("  test loss "));
    watching.signal(SIGINT);
    const Result ended = watching.wait();
    CHECK(ended.code == 0);
    CHECK(ended.err.empty());
  }
  Program watching(watch({folder}));
  REQUIRE(watching.wait_for("run: running"));
  training.signal(SIGKILL);
  const Result killed = watching.wait();
  CHECK(killed.code == kExitData);
  CHECK(contains(killed.out, "run: killed  step "));
  CHECK(contains(killed.out, "--resume goes on from the newest checkpoint\n"));

  // Files that a kill or a copy has left in the middle of a line.
  std::ofstream(folder / "ledger.csv", std::ios::app) << "2,3";
  std::ofstream(folder / "metrics.csv", std::ios::app) << "9,0.1,tr";
  CHECK(contains(run(watch({folder})).out, "run: killed  step "));
  std::ofstream(folder / "run.json") << "{\"program\": \"tr";
  const Result damaged = run(watch({folder}));
  CHECK(damaged.code == kExitData);
  CHECK(contains(damaged.out, "run: damaged  "));
  CHECK(contains(damaged.out, "run.json: is damaged"));
}

TEST_CASE("watch rejects what is not a run, and names the runs of a folder") {
  const Workspace work;
  const std::string config = build_config(work);
  std::filesystem::create_directories(work / "runs" / "a");
  std::ofstream(work / "runs" / "a" / "run.json") << "{}";
  std::filesystem::create_directories(work / "notes");
  std::ofstream(work / "notes" / "text.md") << "x";
  for (const auto& [path, reason] :
       {std::pair{Path(config), "is a config, not a run"},
        {work / "runs", "is a folder of runs; name one of them: "},
        {work / "notes", "is neither a run"},
        {work / "notes" / "text.md", "is a file; expected the folder of a run"}}) {
    const Result result = run(watch({path}));
    CHECK(result.code == kExitData);
    CHECK(contains(result.err, reason));
  }
}

TEST_CASE("train keeps its warnings in the run, which watch and report show") {
  const Workspace work;
  const Path dir = work / "warned";
  const std::string config = build_config(work);
  Arguments arguments = train(config, dir, 3);
  arguments.insert(arguments.end(), {"--resume", "--set", "optimizer.adam.learning_rate=1e-30"});
  const Result warned = run(arguments);
  CHECK(warned.code == 0);
  CHECK(contains(warned.err, "note: no checkpoint in "));  // notes are not kept
  REQUIRE(contains(warned.err, "warning: 3 updates did not change"));
  const std::vector<Json> kept = Result{0, read_text_file(dir / "warnings.jsonl"), ""}.lines();
  Json texts = Json::array();
  for (const Json& line : kept) {
    CHECK(contains(warned.err, "warning: " + std::string(line.at("text"))));
    CHECK(contains(std::string(line.at("time")), "T"));
    texts.push_back(line.at("text"));
  }
  CHECK(contains(texts.dump(), "3 updates did not change"));
  CHECK(select(run(watch({dir}, {"--json"})), dir).back().at("warnings") == texts);
  REQUIRE(run({"report", dir.string(), "--output", (work / "report.html").string()}).code == 0);
  CHECK(contains(read_text_file(work / "report.html"), "Warnings of training"));
  arguments = train(config, dir, 3);
  arguments.push_back("--overwrite");
  CHECK(run(arguments).code == 0);
  CHECK_FALSE(contains(run(watch({dir}, {"--json"})).out, "did not change"));
}

}  // namespace trainer::e2e::watch_test

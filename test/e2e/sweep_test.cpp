// Sweeps, comparisons and reports, by the program itself.
#include <doctest/doctest.h>
#include <signal.h>

#include <cstdlib>
#include <map>

#include "base/error.h"
#include "pictures.h"
#include "program.h"
#include "support/contains.h"

namespace trainer::e2e::sweep_test {
namespace {

using test::contains;

struct Small {
  Workspace work;
  std::string config;

  explicit Small(int steps = 12)
      : config(work.config(
            concat(kModel, "data: {format: idx, path: ", work.data(),
                   "}\noptimizer: {sgd: {learning_rate: 0.02}}\ntrain: {max_steps: ", steps,
                   ", batch_size: 16}\n"
                   "parallel: {gpus: \"${NUM_GPUS:-all}\", lr_scaling: none}\n"
                   "run: {checkpoint_every: 4 steps, log_every: 1 steps, "
                   "summary_every: 1 steps, tensorboard: false}\n"))) {}
  Path folder() const { return work / "sweep"; }
  Arguments sweep(const Arguments& more) const {
    Arguments arguments{"sweep", config, "--dir", folder(), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

// By the name of the point.
std::map<std::string, std::string> states(const Result& result) {
  std::map<std::string, std::string> found;
  for (const Json& line : result.lines()) {
    if (line.at("event") == "point") found[line.at("name")] = line.at("state");
  }
  return found;
}

}  // namespace

TEST_CASE("sweep: every point of two axes is trained and summarized") {
  const Small small;
  const Result result = run(small.sweep({}), {{"NUM_GPUS", "1 2"}, {"BATCH_SIZE", "8 16"}});
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(states(result).size() == 4);
  const Json table = result.event("sweep");
  REQUIRE(table["rows"].size() == 4);
  const Json& row = table["rows"][3];
  CHECK(row["values"]["parallel.gpus"] == "2");
  CHECK(row["values"]["train.batch_size"] == "16");
  CHECK(row["replicas"] == 2);
  CHECK(row["images_per_second"].get<double>() > 0);
  CHECK(row["speed_up"].is_number());
  CHECK(row["verdict"] != "");
  const Json record =
      Json::parse(read_text_file(small.folder() / "gpus=2_batch_size=16" / "run.json"));
  CHECK(record["global_batch"] == 32);
  CHECK(record["on_cpu"] == true);
  for (const char* file :
       {"table.csv", "table.md", "table.json", "report.html", "throughput.svg", "total-time.svg"}) {
    INFO(file);
    CHECK(std::filesystem::exists(small.folder() / file));
  }
}

TEST_CASE("sweep: finished points are not repeated when it is killed and started again") {
  const Small small(150);
  const Arguments arguments = small.sweep({"--over", "train.batch_size=8,16,24"});
  Path first = small.folder() / "batch_size=8" / "run.json";
  {
    Program program(arguments);
    REQUIRE(program.wait_for("\"event\":\"point\""));
    program.signal(SIGKILL);
    program.wait();
  }
  const std::string before = read_text_file(first);
  const Result again = run(arguments);
  INFO(again.err);
  CHECK(again.code == 0);
  auto found = states(again);
  CHECK(found["batch_size=8"] == "finished earlier");
  CHECK(found["batch_size=24"] == "finished");
  CHECK(read_text_file(first) == before);
  CHECK(again.event("sweep")["rows"].size() == 3);
}

TEST_CASE("sweep: the folder of a running sweep is an error") {
  const Small small(150);
  const Arguments arguments = small.sweep({"--over", "train.batch_size=8,16"});
  Program program(arguments);
  REQUIRE(program.wait_for("\"event\":\"point\""));
  program.signal(SIGSTOP);
  const Result second = run(arguments);
  CHECK(second.code == 2);
  CHECK(contains(second.err, "another process trains this sweep"));
  // Its table may be looked at.
  Arguments collect = arguments;
  collect.push_back("--collect");
  CHECK(run(collect).event("sweep")["points"][0]["state"] == "finished earlier");
  program.signal(SIGKILL);
  program.wait();
}

TEST_CASE("sweep: SIGTERM saves the point, which is resumed later") {
  const Small small(150);
  const Arguments arguments = small.sweep({"--over", "train.batch_size=8,16"});
  Program program(arguments);
  REQUIRE(program.wait_for("\"event\":\"point\""));
  program.signal(SIGTERM);
  const Result stopped = program.wait();
  CHECK(stopped.code == 75);
  CHECK(stopped.event("sweep")["rows"].size() == 2);
  const Result again = run(arguments);
  CHECK(again.code == 0);
  CHECK(states(again)["batch_size=8"] == "finished earlier");
  const Path point = small.folder() / "batch_size=16";
  CHECK(Json::parse(read_text_file(point / "run.json")).contains("finished"));

  // What was stopped and resumed is, step by step, what was not.
  REQUIRE(
      run({"train", small.config, "--batch-size", "16", "--run-dir", small.work / "whole"}).code ==
      0);
  const Result diff = run({"diff", point, small.work / "whole", "--json"});
  INFO(diff.out, diff.err);
  CHECK(diff.code == 0);
  CHECK(diff.event("diff")["common_steps"] == 150);
  CHECK(diff.event("diff")["step"].is_null());
}

TEST_CASE("sweep: a point that fails is listed, and the others are trained") {
  const Small small;
  const Arguments arguments = small.sweep({"--over", "optimizer.sgd.learning_rate=1e30,0.01"});
  const Result result = run(arguments);
  CHECK(result.code == 5);
  auto found = states(result);
  CHECK(found["learning_rate=1e30"] == "failed");
  CHECK(found["learning_rate=0.01"] == "finished");
  const Json rows = result.event("sweep")["rows"];
  CHECK(contains(rows[0]["verdict"], "failed: "));
  CHECK(rows[1]["missing"] == 0);
  CHECK(std::filesystem::exists(small.folder() / "learning_rate=1e30" / "errors.log"));
  // The table can be made again without training.
  Arguments collect = arguments;
  collect.push_back("--collect");
  const Result collected = run(collect);
  CHECK(collected.event("sweep")["rows"] == rows);
}

TEST_CASE("sweep --launcher slurm: the script trains the points") {
  const Small small;
  const Result script = run({"sweep", small.config, "--dir", small.folder(), "--launcher", "slurm"},
                            {{"BATCH_SIZE", "8 16"}});
  REQUIRE(script.code == 0);
  const Path file = small.work / "array.sh";
  write_file_atomic(file, script.out);
  for (const char* task : {"0", "1"}) {
    const std::string command =
        concat("SLURM_ARRAY_TASK_ID=", task, " bash ", file.string(), " > /dev/null");
    CHECK(std::system(command.c_str()) == 0);
  }
  const Result collected = run(small.sweep({"--collect"}), {{"BATCH_SIZE", "8 16"}});
  CHECK(collected.code == 0);
  const Json rows = collected.event("sweep")["rows"];
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["runs"] == 1);
  CHECK(rows[1]["runs"] == 1);
}

TEST_CASE("sweep and compare and report: --last shows the last checkpoints in place of the best") {
  const Pictures pictures;
  const Path folder = pictures.work / "sweep";
  const Arguments arguments{"sweep",
                            pictures.config,
                            "--dir",
                            folder,
                            "--json",
                            "--epochs",
                            "2",
                            "--over",
                            "seed=1,2",
                            "--set",
                            "run.best=validation/loss"};
  REQUIRE(run(arguments).code == 0);
  const Path page = folder / "report.html";
  const std::string best = "validation, best checkpoints (validation/loss).";
  const std::string last = "validation, last checkpoints, by --last; 2 of 2 runs have a best one.";
  CHECK(contains(read_text_file(page), best));
  Arguments collect = arguments;
  collect.insert(collect.end(), {"--collect", "--last"});
  CHECK(run(collect).event("sweep")["points"][0]["checkpoint"] == "last");
  CHECK(contains(read_text_file(page), last));
  CHECK(run({"report", folder}).code == 0);
  CHECK(contains(read_text_file(page), best));
  CHECK(run({"report", folder, "--last"}).code == 0);
  CHECK(contains(read_text_file(page), last));

  const Path first = folder / "seed=1", second = folder / "seed=2";
  const auto find_checkpoint = [&](const Arguments& more) {
    Arguments compare{"compare", first, second, "--json"};
    compare.insert(compare.end(), more.begin(), more.end());
    const Json compared = run(compare).event("compared");
    CHECK(compared["mcnemar"].size() == 1);
    return compared["results"][0]["checkpoint"].get<std::string>();
  };
  CHECK(find_checkpoint({}) == "best");
  CHECK(find_checkpoint({"--last"}) == "last");

  // The report of a sweep with a damaged point is made, and names the point.
  const std::string record = read_text_file(second / "run.json");
  write_file_atomic(second / "run.json", record.substr(0, record.size() / 2));
  const Result damaged = run({"report", folder});
  CHECK(damaged.code == 3);
  CHECK(contains(damaged.err, "the report has no results of seed=2: "));
  CHECK(contains(read_text_file(page), "damaged: "));
  CHECK(run(collect).code == 3);
}

TEST_CASE("diff and compare: the parameters of runs of two seeds differ before the first step") {
  const Small small;
  const Path a = small.work / "a", b = small.work / "b";
  REQUIRE(run({"train", small.config, "--run-dir", a}).code == 0);
  REQUIRE(run({"train", small.config, "--run-dir", b, "--seed", "8"}).code == 0);
  const Result diff = run({"diff", a, b, "--json"});
  CHECK(diff.code == 5);
  const Json found = diff.event("diff");
  CHECK(found["step"] == 0);
  CHECK(found["fields"].contains("parameters"));
  CHECK(found["settings"].contains("seed"));
  const Result compared = run({"compare", a, b, "--json"});
  INFO(compared.err);
  CHECK(compared.code == 0);
  const Json comparison = compared.event("compared");
  CHECK(comparison["settings"].size() == 1);
  REQUIRE(comparison["mcnemar"].size() == 1);
  const Json pair = comparison["mcnemar"][0];
  CHECK(pair["both_right"].get<int>() + pair["only_first"].get<int>() +
            pair["only_second"].get<int>() + pair["both_wrong"].get<int>() ==
        250);
  // Without the time for them, there is no pair, and a note with the reason.
  const Result hasty = run({"compare", a, b, "--seconds", "0"});
  CHECK(hasty.code == 0);
  CHECK(contains(hasty.out, "images took longer than --seconds 0"));
  CHECK_FALSE(contains(hasty.out, "McNemar A against B"));
  // Stored predictions give the same counts.
  for (const Path& folder : {a, b}) {
    const Result predicted = run({"predict", folder, "--json"});
    REQUIRE(predicted.code == 0);
    write_file_atomic(folder / "predictions.jsonl", predicted.out);
  }
  CHECK(run({"compare", a, b, "--json"}).event("compared")["mcnemar"][0] == pair);
  // A run that cannot be opened has no part in the test, and the rest is compared.
  std::filesystem::remove(b / "predictions.jsonl");
  std::filesystem::remove_all(b / "checkpoints");
  const Result rest = run({"compare", a, b});
  CHECK(rest.code == 0);
  CHECK(contains(rest.out, "has no part in McNemar's test: "));
}

TEST_CASE("compare: the stored predictions of a run that was trained again are not used") {
  const Small small;
  const Path a = small.work / "a", b = small.work / "b";
  REQUIRE(run({"train", small.config, "--run-dir", a}).code == 0);
  REQUIRE(run({"train", small.config, "--run-dir", b, "--seed", "8"}).code == 0);
  const auto compare = [&] {
    return run({"compare", a, b, "--json"}).event("compared")["mcnemar"];
  };
  const Json pair = compare();
  REQUIRE(pair.size() == 1);
  const Arguments overwrite{"--overwrite"}, resume{"--resume"},
      longer{"--resume", "--set", "train.max_steps=20"};
  for (const Arguments& options : {overwrite, resume, longer}) {
    CAPTURE(options);
    // These name no sample of the data, so that they give no pair.
    write_file_atomic(a / "predictions.jsonl",
                      "{\"index\": 0, \"class\": \"0\", \"label\": \"1\"}\n");
    REQUIRE(compare().empty());
    Arguments again{"train", small.config, "--run-dir", a};
    again.insert(again.end(), options.begin(), options.end());
    REQUIRE(run(again).code == 0);
    // A resume that makes no step keeps what was stored, which may have taken hours.
    CHECK(std::filesystem::exists(a / "predictions.jsonl") == (options == resume));
    if (options == resume) continue;
    const Json trained = compare();
    REQUIRE(trained.size() == 1);
    CHECK((trained == pair) == (options != longer));
  }
}

}  // namespace trainer::e2e::sweep_test

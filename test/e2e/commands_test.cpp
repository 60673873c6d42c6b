// The commands on a small run, as a user types them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/threads/cores.h"
#include "program.h"
#include "support/contains.h"

namespace trainer::e2e {
namespace {

using test::contains;

std::string small_config(const Workspace& work, const std::string& more = "") {
  return work.config(kModel + ("data: {format: idx, path: " + work.data() + R"(}
optimizer: {adam: {learning_rate: 3.0e-3}}
train: {epochs: 12, batch_size: 32}
)") + more);
}

void write_npy(const Path& path, const std::vector<int>& dims) {
  std::string shape;
  std::size_t count = 1;
  for (const int dim : dims) {
    shape += std::to_string(dim) + ", ";
    count *= static_cast<std::size_t>(dim);
  }
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append((64 - (header.size() + 11) % 64) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY\x01" << '\0' << static_cast<char>(header.size() & 255)
       << static_cast<char>(header.size() >> 8) << header << std::string(count, '\x40');
}

}  // namespace

TEST_CASE("train and evaluate: digits are learned, and evaluate repeats the metrics of the run") {
  const Workspace work;
  const Result trained = run({"train", small_config(work), "--json", "--run-dir", work / "run"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const Json test = trained.event("finished").at("metrics").at("test");
  CHECK(test.at("accuracy").get<double>() > 0.8);
  CHECK(test.at("count") == 250);
  CHECK(std::filesystem::exists(work / "run" / "config.yaml"));
  const Json record = Json::parse(read_text_file(work / "run" / "run.json"));
  CHECK(contains(record.at("machine").get<std::string>(), " NUMA node"));
  CHECK(contains(record.at("device").get<std::string>(), " lane"));

  const Result evaluated = run({"evaluate", work / "run", "--json"});
  INFO(evaluated.err);
  REQUIRE(evaluated.code == 0);
  const Json json = evaluated.event("evaluated");
  CHECK(json.at("loss") == test.at("loss"));
  CHECK(json.at("accuracy") == test.at("accuracy"));
  CHECK(json.at("count") == test.at("count"));
  CHECK(json.at("split") == "test");
  CHECK(json.at("accuracy_low") < json.at("accuracy"));
  CHECK(json.at("accuracy_high") > json.at("accuracy"));
  CHECK(json.at("per_class").size() == 10);
  std::int64_t diagonal = 0, all = 0;
  for (std::size_t r = 0; r < 10; ++r) {
    for (std::size_t c = 0; c < 10; ++c) {
      const auto count = json.at("confusion").at(r).at(c).get<std::int64_t>();
      all += count;
      diagonal += r == c ? count : 0;
    }
  }
  CHECK(all == 250);
  CHECK(static_cast<double>(diagonal) / 250 == doctest::Approx(test.at("accuracy").get<double>()));

  const Result text = run({"evaluate", work / "run"});
  CHECK(contains(text.out, "precision"));
  CHECK(contains(text.out, "true \\ predicted"));
  const Result several = run({"evaluate", work / "run", work / "run", "--quiet"});
  const Result brief = run({"evaluate", work / "run", "--quiet"});
  const std::string one = (work / "run").string() + ":\n" + brief.out;
  CHECK(several.out == one + one);
  CHECK(run({"evaluate", work / "run", work / "run", "--json"}).lines().size() == 2);
  CHECK(run({"evaluate", work / "run", work / "none"}).code == 3);
  CHECK(run({"evaluate", work / "run", work / "run", "--follow"}).code == 2);
  CHECK(std::count(brief.out.begin(), brief.out.end(), '\n') == 1);
  const Result train_split = run({"evaluate", work / "run", "--split", "train", "--json"});
  CHECK(train_split.event("evaluated").at("count") == 600);
  // Without a validation split nothing was chosen as the best.
  CHECK(run({"evaluate", work / "run", "--best"}).code == 3);
}

TEST_CASE("evaluate --best opens the best evaluation of the training") {
  const Workspace work;
  const Result trained = run({"train", small_config(work), "--json", "--run-dir", work / "run",
                              "--epochs", "4", "--set", "data.validation_split=0.2"});
  REQUIRE(trained.code == 0);
  double best = 0;
  for (const Json& line : trained.lines()) {
    if (line.at("event") == "evaluation" && line.at("split") == "validation") {
      best = std::max(best, line.at("accuracy").get<double>());
    }
  }
  const Result evaluated =
      run({"evaluate", work / "run", "--best", "--split", "validation", "--json"});
  REQUIRE(evaluated.code == 0);
  CHECK(evaluated.event("evaluated").at("accuracy") == best);
  CHECK(evaluated.event("evaluated").at("count") == 120);
}

TEST_CASE("predict: a split or files have the accuracy of evaluate") {
  const Workspace work;
  REQUIRE(run({"train", small_config(work), "--run-dir", work / "run", "--epochs", "3"}).code == 0);
  const Json evaluated = run({"evaluate", work / "run", "--json"}).event("evaluated");
  const Result split = run({"predict", work / "run", "--format", "jsonl"});
  INFO(split.err);
  REQUIRE(split.code == 0);
  const auto lines = split.lines();
  REQUIRE(lines.size() == 250);
  int right = 0;
  for (const Json& line : lines) {
    double sum = 0;
    for (const auto& p : line.at("probabilities")) sum += p.get<double>();
    CHECK(sum == doctest::Approx(1));
    CHECK(line.at("probabilities").at(line.at("class").get<std::string>()) ==
          line.at("probability"));
    right += line.at("class") == line.at("label") ? 1 : 0;
  }
  CHECK(right / 250.0 == doctest::Approx(evaluated.at("accuracy").get<double>()));

  const Result file = run({"predict", work / "run", work.data() + "/t10k-images-idx3-ubyte",
                           "--format", "jsonl", "--limit", "7"});
  INFO(file.err);
  REQUIRE(file.code == 0);
  REQUIRE(file.lines().size() == 7);
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(file.lines()[i].at("probabilities") == lines[i].at("probabilities"));
    CHECK_FALSE(file.lines()[i].contains("label"));
  }
  const Result csv = run({"predict", work / "run", "--format", "csv", "--limit", "3"});
  CHECK(csv.out.starts_with("index,class,probability,label,p_0,p_1,"));
  CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 4);

  write_npy(work / "right.npy", {2, 28, 28});
  CHECK(run({"predict", work / "run", work / "right.npy"}).code == 0);
  write_npy(work / "wrong.npy", {2, 32, 32, 3});
  const Result wrong = run({"predict", work / "run", work / "wrong.npy"});
  CHECK(wrong.code == 3);
  CHECK(contains(wrong.err, "[32, 32, 3]"));
  CHECK(contains(wrong.err, "[28, 28, 1]"));
}

TEST_CASE("plan --program and profile: a residual block has the names of its fused ops") {
  const Workspace work;
  const std::string config = work.config(R"(
model:
  layers:
    - conv: {filters: 4, kernel_size: 1, use_bias: false}
    - batch_norm
    - residual: {layers: [conv: {filters: 4, kernel_size: 1, use_bias: false}, batch_norm],
                 activation: relu}
    - global_average_pool
    - dense: 10
data: {format: idx, path: )" + work.data() +
                                         R"(}
train: {epochs: 1, batch_size: 32}
)");
  const Result plan = run({"plan", config, "--program"});
  const Result profile =
      run({"profile", config, "--json", "--steps", "1", "--trace", work / "trace.json"});
  INFO(plan.err << profile.err);
  REQUIRE(plan.code == 0);
  REQUIRE(profile.code == 0);
  for (const std::string op : {"residual_sum ", "residual_gradient ", "partial_batch_norm "}) {
    CAPTURE(op);
    CHECK(contains(plan.out, ": " + op));
    CHECK(contains(profile.out, op));
  }
}

TEST_CASE("plan prints values, model, graphs and steps, with and without the data") {
  const Workspace work;
  const std::string config = small_config(work);
  const Result text = run({"plan", config, "--epochs", "2", "--print-after", "all", "--program"});
  INFO(text.err);
  REQUIRE(text.code == 0);
  for (const char* part :
       {"config, as given in ", "config.yaml\n", "default", "--epochs", "conv2d_1 (Conv2D)",
        "steps per epoch", "after fuse_activation:", "training program", "evaluation program"}) {
    CAPTURE(part);
    CHECK(contains(text.out, part));
  }
  CHECK_FALSE(contains(text.out, "parallel.timeout"));
  CHECK(contains(run({"plan", config, "--all"}).out, "parallel.timeout"));
  const Result json = run({"plan", config, "--json"});
  const Json plan = json.event("plan");
  CHECK(json.lines().size() == 1);
  CHECK(plan.at("steps_per_epoch") == 19);
  CHECK(plan.at("total_steps") == 12 * 19);
  CHECK(plan.at("data").at("train") == 600);

  // What is left open, as a run would take it.
  const auto setting = [&](const std::string& key) {
    for (const Json& one : plan.at("config")) {
      if (one.at("key") == key)
        return one.at("value").get<std::string>() + " by " + one.at("origin").get<std::string>();
    }
    return std::string();
  };
  CHECK(setting("run.dir") == "runs/small by name");
  CHECK(setting("model.input") == "[28, 28, 1] by data");
  CHECK(setting("data.num_classes") == "10 by data");
  CHECK(contains(setting("data.normalize"), "{scale: 0.00392"));
  CHECK(setting("train.max_steps") == "228 by train.epochs");
  CHECK(setting("evaluate.batch_size") == "32 by train.batch_size");
  CHECK(setting("parallel.threads") == concat(usable_core_count(), " by machine"));
  CHECK(contains(setting("parallel.lanes"), " by machine"));
  CHECK(std::stoi(setting("parallel.lanes")) >= 1);

  const Arguments lost{"plan", config, "--json", "--set", "data.path=/nowhere"};
  const Json blind = run(lost).event("plan");
  CHECK(contains(blind.at("data").at("unknown"), "/nowhere"));
  CHECK(blind.at("layers").empty());
  Arguments told = lost;
  told.insert(told.end(), {"--set", "model.input=[28, 28, 1]", "--set", "data.num_classes=10"});
  const Result known = run(told);
  CHECK(known.code == 0);
  CHECK(known.event("plan").at("parameters") == plan.at("parameters"));
  CHECK(known.event("plan").contains("memory"));
}

TEST_CASE("plan --machine uses the cores, threads and lanes of another machine") {
  const Workspace work;
  const std::string config = small_config(work), machine = work / "machine.yaml";
  std::ofstream(machine) << "nodes: 2\ndomains_per_node: 2\ncores_per_domain: 3\nl3_kib: 16384\n";
  const Result planned = run({"plan", config, "--machine", machine, "--json"});
  INFO(planned.err);
  REQUIRE(planned.code == 0);
  const Json plan = planned.event("plan");
  CHECK(plan.at("machine") == "12 cores, 4 L3 domains, 2 NUMA nodes, L3 16384 KiB");
  CHECK(contains(plan.at("backend").get<std::string>(), "cpu, 4 lanes x 3 threads, "));
  std::string lanes;
  for (const Json& one : plan.at("config")) {
    if (one.at("key") == "parallel.threads") CHECK(one.at("value") == "12");
    if (one.at("key") == "parallel.lanes") lanes = one.at("origin");
  }
  CHECK(contains(lanes,
                 "machine: 12 lanes would hold gradients of more than 4 times the parameters; a "
                 "step reads "));
  CHECK(contains(lanes, " MiB of gradients across NUMA nodes"));
  CHECK(run({"plan", config, "--machine", machine, "--json"}).event("plan").at("memory") ==
        plan.at("memory"));
  const Result more = run({"plan", config, "--machine", machine, "--set", "parallel.threads=13"});
  CHECK(contains(more.err, "parallel.threads: 13, but that machine has 12 cores"));
  CHECK(contains(more.out, "12 cores, 4 L3 domains, 2 NUMA nodes"));

  std::ofstream(machine) << "nodes: 2\ncore_per_domain: 3\n";
  const Result wrong = run({"plan", config, "--machine", machine});
  CHECK(wrong.code == kExitConfig);
  CHECK(contains(wrong.err,
                 "machine.yaml:2:1: error: unknown key 'core_per_domain', did you mean "
                 "'cores_per_domain'?"));
  CHECK(run({"plan", config, "--machine", work / "no.yaml"}).code == kExitConfig);
  CHECK(run({"plan", config, "--machine", machine, "--device", "h100"}).code == kExitConfig);
  const Result here = run({"plan", config, "--json"});
  CHECK(here.event("plan").at("machine").get<std::string>().starts_with(
      concat(usable_core_count(), ' ')));
}

TEST_CASE("train: --json prints JSON lines only, --quiet prints results only") {
  const Workspace work;
  const std::string config = small_config(work);
  const Result json = run({"train", config, "--json", "--run-dir", work / "json", "--epochs", "1"});
  REQUIRE(json.code == 0);
  const auto lines = json.lines();
  CHECK(lines.front().at("event") == "model");
  CHECK(lines[1].at("event") == "start");
  CHECK(lines.back().at("event") == "finished");
  const Result quiet =
      run({"train", config, "--quiet", "--run-dir", work / "quiet", "--epochs", "1"});
  CHECK(quiet.code == 0);
  // Results, of which there are three lines, and no progress.
  CHECK(std::count(quiet.out.begin(), quiet.out.end(), '\n') == 3);
  CHECK(quiet.out.starts_with("test: loss "));
  // A run of so few steps has a warning on batch norm, and nothing else.
  CHECK(quiet.err.starts_with("warning: "));
  CHECK(std::count(quiet.err.begin(), quiet.err.end(), '\n') == 1);
}

TEST_CASE("commands: output that cannot be written ends with exit code 3") {
  const Workspace work;
  const std::string train =
      concat("train ", small_config(work), " --epochs 1 --run-dir ", (work / "run").string());
  for (const std::string& arguments : {std::string("schema"), train, train + " --json --resume"}) {
    CAPTURE(arguments);
    const Path errors = work / "errors.txt";
    const std::string command =
        concat(TRAINER_PROGRAM, " ", arguments, " > /dev/full 2> ", errors.string());
    CHECK(WEXITSTATUS(std::system(command.c_str())) == 3);
    const std::string told = read_text_file(errors);
    CHECK(told.find("error: not all of the output could be written: ") != std::string::npos);
    CHECK(told.find("Success") == std::string::npos);
  }
}

TEST_CASE("commands: schema, devices and benchmark print their results") {
  CHECK(Json::parse(run({"schema"}).out).at("else").contains("properties"));
  CHECK(run({"devices", "--json"}).event("devices").contains("cpu"));
  const Workspace work;
  const Result measured = run({"benchmark", small_config(work), "--seconds", "0.3", "--json"});
  INFO(measured.err);
  REQUIRE(measured.code == 0);
  CHECK(measured.event("benchmark").at("images_per_second").get<double>() > 0);
  CHECK(run({"benchmark", small_config(work), "--seconds", "0.2", "--input-only"}).code == 0);
  const Result predicted =
      run({"benchmark", small_config(work), "--seconds", "0.3", "--predict", "--json"});
  REQUIRE(predicted.code == 0);
  CHECK(predicted.event("benchmark").at("images_per_second").get<double>() > 0);
  CHECK(
      predicted.event("benchmark").at("counted").get<std::string>().starts_with("predictions of"));
  CHECK(run({"benchmark", small_config(work), "--input-only", "--predict"}).code == 2);
}

}  // namespace trainer::e2e

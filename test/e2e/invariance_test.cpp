// What must not depend on the machine's parallelism, and what must depend on the seed.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "pictures.h"
#include "program.h"

namespace trainer::e2e {
namespace {

std::string sha256_of(const Workspace& work, const std::string& config, const Arguments& more) {
  static int count = 0;
  Arguments arguments{"train", config, "--json", "--run-dir",
                      work / ("run" + std::to_string(count++))};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Result result = run(arguments);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return result.event("finished").at("parameters_sha256");
}

}  // namespace

TEST_CASE("train: the same seed gives the same bits, and another seed other bits") {
  const Workspace work;
  const std::string config = rich_config(work);
  const std::string once = sha256_of(work, config, {});
  CHECK(once.size() == 64);
  CHECK(sha256_of(work, config, {}) == once);
  CHECK(sha256_of(work, config, {"--seed", "8"}) != once);
}

TEST_CASE("train: any data.threads and data.prefetch give the same bits") {
  const Workspace work;
  const std::string config = rich_config(work);
  const std::string once = sha256_of(work, config, {});
  for (const char* threads : {"1", "2", "4"}) {
    for (const char* prefetch : {"1", "8"}) {
      CAPTURE(threads);
      CAPTURE(prefetch);
      CHECK(sha256_of(work, config,
                      {"--set", std::string("data.threads=") + threads, "--set",
                       std::string("data.prefetch=") + prefetch}) == once);
    }
  }
  CHECK(sha256_of(work, config, {"--set", "data.prefetch=0"}) == once);
}

TEST_CASE("train: mixup and cutmix give the same bits with any threads and after a resume") {
  const Workspace work;
  const std::string config = rich_config(work);
  const Arguments mixing{"--epochs", "2", "--set", "data.train.augment=[mixup: 0.4, cutmix]"};
  const std::string once = sha256_of(work, config, mixing);
  CHECK(sha256_of(work, config, {"--epochs", "2"}) != once);
  Arguments threads = mixing;
  threads.insert(threads.end(), {"--set", "data.threads=3"});
  CHECK(sha256_of(work, config, threads) == once);

  // Stopped after some steps of the first epoch: a constant rate, so that the rest is the same.
  // Mixup ends with this epoch. The metrics are those of the averages of the weights.
  const Arguments start{"--set", "data.train.augment=[mixup: {alpha: 0.4, epochs: 1}, cutmix]",
                        "--set", "schedule=constant",
                        "--set", "optimizer.ema_warm_up=true"};
  const auto part = [&](const char* run_dir, const char* steps, bool resume) {
    Arguments arguments{"train",
                        config,
                        "--json",
                        "--run-dir",
                        work / run_dir,
                        "--set",
                        std::string("train.max_steps=") + steps};
    if (resume) arguments.push_back("--resume");
    arguments.insert(arguments.end(), start.begin(), start.end());
    const Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    const Json finished = result.event("finished");
    return finished.at("parameters_sha256").get<std::string>() + finished.at("metrics").dump();
  };
  const std::string whole = part("whole", "13", false);
  CHECK(part("halves", "6", false) != whole);
  CHECK(part("halves", "13", true) == whole);
}

TEST_CASE("train: one and two lanes have nearly equal losses") {
  const Workspace work;
  const std::string config = work.config(kModel + ("data: {format: idx, path: " + work.data() + R"(}
optimizer: {sgd: {learning_rate: 0.01}}
train: {max_steps: 20, batch_size: 32}
run: {log_every: 1 steps}
)"));
  std::vector<std::vector<double>> losses;
  for (const char* lanes : {"1", "2"}) {
    const Result result =
        run({"train", config, "--json", "--run-dir", work / (std::string("lanes") + lanes), "--set",
             "parallel.threads=2", "--set", std::string("parallel.lanes=") + lanes});
    INFO(result.err);
    REQUIRE(result.code == 0);
    losses.emplace_back();
    for (const Json& line : result.lines()) {
      if (line.at("event") == "step") losses.back().push_back(line.at("loss"));
    }
  }
  REQUIRE(losses[0].size() == 20);
  REQUIRE(losses[1].size() == 20);
  for (std::size_t i = 0; i < 20; ++i) {
    CAPTURE(i);
    CHECK(std::abs(losses[0][i] - losses[1][i]) <= 1e-4 * losses[0][i]);
  }
}

TEST_CASE(
    "train: sample weights give the same bits with any number of replicas and after a resume") {
  const Workspace work;
  write_images(work / "pictures", 12, 1);
  const auto list = [&](const char* heavy) {
    const Path path = work / concat("list", heavy, ".csv");
    std::ofstream file(path);
    file << "path,label,sample_weight\n";
    for (const char* name : {"left", "right"}) {
      for (int i = 0; i < 12; ++i) {
        file << "pictures/" << name << '/' << i << ".ppm," << name << ','
             << (i % 3 == 0 ? heavy : "0.5") << '\n';
      }
    }
    return path.string();
  };
  const std::string config = work.config(R"(
model: {layers: [conv: {filters: 4, kernel_size: 3, activation: relu}, flatten, dense: 2]}
data: {format: csv, resize: [10, 12], train: {path: list.csv}}
optimizer: {adam: {learning_rate: 0.01}}
train: {max_steps: 9, batch_size: 8}
parallel: {threads: 2, reduction: ordered}
run: {checkpoint_every: 1 steps}
)");
  const auto with = [&](const std::string& path, Arguments more) {
    more.insert(more.end(), {"--set", "data.train.path=" + path});
    return more;
  };
  const std::string weighed = list("2"), once = sha256_of(work, config, with(weighed, {}));
  CHECK(sha256_of(work, config, with(list("1"), {})) != once);
  const Arguments two{"--replicas", "2", "--batch-size", "4", "--set", "parallel.lr_scaling=none"};
  CHECK(sha256_of(work, config, with(weighed, two)) == once);

  const auto part = [&](const Arguments& more) {
    Arguments arguments{"train", config, "--json", "--run-dir", work / "halves"};
    const Arguments own = with(weighed, more);
    arguments.insert(arguments.end(), own.begin(), own.end());
    const Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.event("finished").at("parameters_sha256").get<std::string>();
  };
  CHECK(part({"--set", "train.max_steps=4"}) != once);
  CHECK(part({"--resume"}) == once);
}

TEST_CASE("evaluate: sample weights give the same bits with any number of replicas and processes") {
  const Workspace work;
  write_images(work / "pictures", 16, 1);
  std::ofstream list(work / "list.csv");
  list << "path,label,sample_weight\n";
  for (const char* name : {"left", "right"}) {
    for (int i = 0; i < 16; ++i) {
      list << "pictures/" << name << '/' << i << ".ppm," << name << ',' << 0.3 * (i % 7) << '\n';
    }
  }
  list.close();
  const std::string split = concat("{path: '", (work / "list.csv").string(), "'}");
  const std::string config = work.config(
      concat("data: {format: csv, resize: [10, 12], validation_split: 0.4, train: ", split,
             ", test: ", split, R"(}
model: {layers: [conv: {filters: 4, kernel_size: 3, activation: relu}, flatten, dense: 2]}
optimizer: {adam: {learning_rate: 0.01}}
train: {max_steps: 6, batch_size: 8}
parallel: {threads: 2, reduction: ordered, lr_scaling: none}
)"));
  const auto trained = [&](const char* name, Arguments before, const Arguments& more) {
    before.insert(before.end(), {"train", config, "--json", "--run-dir", work / name});
    before.insert(before.end(), more.begin(), more.end());
    const Result result = run(before);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.event("finished").at("metrics");
  };
  const Json once = trained("once", {}, {});
  const double loss = once.at("validation").at("loss");
  CHECK(trained("replicas", {}, {"--replicas", "2", "--batch-size", "4"}) == once);
  const Arguments two{"launch", "-n", "2", "--"};
  CHECK(trained("workers", two, {"--batch-size", "4"}) == once);
  CHECK(trained("chief", two, {"--batch-size", "4", "--set", "parallel.evaluate=false"}) == once);
  for (const char* name : {"validation", "test"}) {
    const Result again = run({"evaluate", work / "once", "--last", "--split", name, "--json"});
    REQUIRE(again.code == 0);
    CHECK(again.event("evaluated").at("loss") == once.at(name).at("loss"));
    CHECK(again.event("evaluated").at("accuracy") == once.at(name).at("accuracy"));
  }
  // Without weights the loss is another, and accuracy is not.
  std::ifstream weighed(work / "list.csv");
  std::ofstream plain(work / "plain.csv");
  for (std::string line; std::getline(weighed, line);) {
    plain << line.substr(0, line.rfind(',')) << '\n';
  }
  plain.close();
  const Result unweighed = run({"evaluate", work / "once", "--split", "test", "--json", "--set",
                                "data.test.path=" + (work / "plain.csv").string()});
  INFO(unweighed.err);
  REQUIRE(unweighed.code == 0);
  CHECK(unweighed.event("evaluated").at("loss") != once.at("test").at("loss"));
  CHECK(unweighed.event("evaluated").at("accuracy") == once.at("test").at("accuracy"));
  CHECK(loss > 0);
}

}  // namespace trainer::e2e

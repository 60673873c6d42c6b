// Each failure has its exit code and a message with what to do.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/error.h"
#include "npy.h"
#include "program.h"
#include "support/contains.h"
#include "support/fail_system_calls.h"
#include "support/source_files.h"

namespace trainer::e2e {
namespace {

using test::contains;

}  // namespace

// Some limits let oneDNN fail to get memory for the code of a layer, which it does not check.
TEST_CASE("train: any failed allocation under a limit on address space is an error and no signal") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return;  // the sanitizers reserve more address space than any limit here allows
#endif
  const Workspace work;
  const std::string config =
      work.config(concat(kModel, "data: {format: idx, limit: 64, path: ", work.data(),
                         "}\noptimizer: {sgd: {learning_rate: 0.01}}\n"
                         "train: {max_steps: 1, batch_size: 8}\nparallel: {threads: 1}\n"));
  int succeeded = 0;
  for (rlim_t mib = 96; mib <= 224; mib += 4) {
    CAPTURE(mib);
    const rlimit limit{mib << 20, mib << 20};
    Program program({"train", config, "--overwrite", "--run-dir", work / "run"}, {},
                    [&] { ::setrlimit(RLIMIT_AS, &limit); });
    const Result result = program.wait();
    INFO(result.err);
    CHECK(result.code >= 0);
    CHECK((result.code == 0 || !result.err.empty()));
    succeeded += result.code == 0 ? 1 : 0;
  }
  CHECK(succeeded > 0);
}

TEST_CASE("commands: a config with five mistakes gives five lines of errors") {
  const std::string config = test::source_file("test/bad/five_mistakes.yaml");
  for (const char* command : {"train", "plan", "validate", "benchmark"}) {
    CAPTURE(command);
    const Result result = run({command, config});
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 5);
    CHECK(contains(result.err, "five_mistakes.yaml:"));
  }
}

TEST_CASE("validate prints a result for each of several configs") {
  const std::string configs = test::source_file("configs/");
  const Result good = run({"validate", configs + "mnist.yaml", configs + "digits.yaml"});
  CHECK(good.code == 0);
  CHECK(std::count(good.out.begin(), good.out.end(), '\n') == 2);
  const std::string bad = test::source_file("test/bad/five_mistakes.yaml");
  const Result mixed = run({"validate", bad, configs + "mnist.yaml"});
  CHECK(mixed.code == 2);
  CHECK(contains(mixed.out, "mnist.yaml: ok; not checked: samples and labels (trainer data), "));
  // Weights that are named are not read.
  const Result weights = run({"validate", configs + "cats_dogs_mobilenet_v2.yaml"},
                             {{"WEIGHTS_DIR", ""}, {"HOME", "/nowhere"}});
  CHECK(weights.code == 0);
  CHECK(contains(weights.out, "shapes in the file of weights (trainer train), "));
}

TEST_CASE("commands: a wrong command line ends with exit code 2") {
  for (const Arguments& arguments :
       {Arguments{},
        {"trian"},
        {"train"},
        {"train", "x.yaml", "--no-such"},
        {"evaluate", "x", "--split", "tset"},
        {"predict", "x", "--format", "xml"},
        {"plan", test::source_file("configs/mnist.yaml"), "--print-after", "fsue"},
        {"train", test::source_file("configs/mnist.yaml"), "--set", "train"}}) {
    const Result result = run(arguments);
    CHECK(result.code == 2);
    CHECK_FALSE(result.err.empty());
    CHECK(result.out.empty());
  }
  CHECK(contains(run({"evaluate", "x", "--follow", "--throttle", "abc"}).err,
                 "--throttle: expected a number of at least 0, found abc"));
  CHECK(contains(run({"find", "learning-rate", "x", "--low", "0"}).err,
                 "--low: expected a number greater than 0, found 0"));
  CHECK(run({"--help"}).code == 0);
  CHECK(run({"--version"}).code == 0);
}

TEST_CASE("train: the error of missing data has the path and the key") {
  const Workspace work;
  const std::string config = work.config(
      std::string(kModel) + "data: {format: idx, path: /nowhere/at/all}\ntrain: {epochs: 1}\n");
  const Result result = run({"train", config, "--run-dir", work / "run"});
  CHECK(result.code == 3);
  CHECK(contains(result.err, "/nowhere/at/all"));
  CHECK(contains(result.err, "data.path"));
  CHECK(run({"evaluate", work / "none"}).code == 3);
  CHECK(run({"predict", work / "none"}).code == 3);
}

TEST_CASE("train: a loss that is not finite ends with exit code 5 and the step, layer and line") {
  const Workspace work;
  const std::string config = work.config("data: {format: idx, path: " + work.data() + R"(}
model:
  layers:
    - conv: {filters: 6, kernel_size: 3, activation: relu}
    - max_pool: 2
    - flatten
    - dense: {units: 32, activation: relu}
    - dense: {units: 10, name: last}
optimizer: {sgd: {learning_rate: 1.0e10}}
train: {epochs: 5, batch_size: 32}
)");
  const Result result = run({"train", config, "--run-dir", work / "run"});
  CHECK(result.code == 5);
  CHECK(contains(result.err, "step "));
  CHECK((contains(result.err, "layer ") || contains(result.err, "variable ")));
  CHECK(contains(result.err, "config.yaml:"));
  CHECK(contains(result.err, "learning rate 1e+10"));
  CHECK(contains(result.err, " samples of the batch: "));
  CHECK(contains(result.err, "step-00000000.safetensors"));
  CHECK(contains(result.err, "optimizer: a learning_rate of 1e+10 is far above"));
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 2);
}

TEST_CASE("train and predict reject samples that are not finite before the first step") {
  const Workspace work;
  std::vector<float> finite(40 * 16, 0.5f), bad = finite, targets(40, 1);
  bad[33 * 16 + 5] = std::numeric_limits<float>::infinity();
  bad[35 * 16] = targets[37] = std::numeric_limits<float>::quiet_NaN();
  write_npy(work / "x.npy", "<f4", {40, 4, 4}, finite);
  write_npy(work / "bad.npy", "<f4", {40, 4, 4}, bad);
  write_npy(work / "y.npy", "<i4", {40}, std::vector<std::int32_t>(40, 1));
  write_npy(work / "t.npy", "<f4", {40, 1}, targets);
  const auto files = [&](const char* images, const char* labels) {
    return concat("{images: ", (work / images).string(), ", labels: ", (work / labels).string(),
                  "}");
  };
  const auto train = [&](const std::string& data, const char* units, const char* run_dir) {
    const std::string config = work.config(concat(
        "model: {layers: [flatten, dense: ", units,
        "], loss: mean_squared_error}\ntrain: {epochs: 1, batch_size: 4}\ndata: {format: npz, ",
        data, "}\n"));
    return run({"train", config, "--run-dir", work / run_dir});
  };
  const auto check = [](const Result& result, const std::string& error) {
    INFO(result.err);
    CHECK(result.code == 3);
    CHECK(contains(result.err, error));
  };
  const std::string good = files("x.npy", "y.npy"), two = "sample 33 (from 0) of the ",
                    more = " holds NaN or infinity, as do 1 more of the 40 samples";
  for (const std::string split : {"train", "validation", "test"}) {
    const std::string others = split == "train" ? "" : concat("train: ", good, ", ");
    const std::string data = concat(others, split, ": ", files("bad.npy", "y.npy"));
    check(train(data, "2", "bad"), concat("bad.npy: ", two, split, " split", more));
  }
  check(train("train: " + files("x.npy", "t.npy"), "1", "bad"),
        "t.npy: the label of sample 37 (from 0) of the train split holds NaN or infinity; ");
  CHECK(!std::filesystem::exists(work / "bad"));
  CHECK(train("train: " + good, "2", "run").code == 0);
  check(run({"predict", work / "run", work / "bad.npy"}),
        "bad.npy: sample 33 (from 0) holds NaN or infinity, as do 1 more");
}

TEST_CASE("train: targets that are not classes give a loss and no accuracy") {
  const Workspace work;
  std::vector<float> images(40 * 16);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i % 7) / 7;
  std::vector<float> targets, one_hot;
  for (int i = 0; i < 40; ++i) {
    targets.insert(targets.end(), {static_cast<float>(i) / 4, -1.5f});
    one_hot.insert(one_hot.end(), {i % 2 == 0 ? 1.0f : 0.0f, i % 2 == 0 ? 0.0f : 1.0f});
  }
  write_npy(work / "x.npy", "<f4", {40, 4, 4}, images);
  write_npy(work / "targets.npy", "<f4", {40, 2}, targets);
  write_npy(work / "one_hot.npy", "<f4", {40, 2}, one_hot);
  const auto files = [&](const std::string& labels) {
    return "{images: " + (work / "x.npy").string() + ", labels: " + (work / labels).string() + "}";
  };
  const auto train = [&](const std::string& name, const Arguments& more = {}) {
    const std::string config =
        work.config(R"(model: {layers: [flatten, dense: 2], loss: mean_squared_error}
data: {format: npz, train: )" +
                    files(name + ".npy") + ", test: " + files(name + ".npy") +
                    R"(}
optimizer: {sgd: {learning_rate: 0.001}}
train: {epochs: 2, batch_size: 8}
run: {log_every: 1 steps, summary_every: 1 steps}
)");
    Arguments arguments{"train", config, "--overwrite", "--run-dir", work / name};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result;
  };
  const Result text = train("targets");
  CHECK(contains(text.out, "test: loss "));
  CHECK_FALSE(contains(text.out, "accuracy"));
  const Json json = train("targets", {"--json"}).event("finished");
  CHECK(json.at("metrics").at("test").at("accuracy").is_null());
  CHECK(json.at("metrics").at("test").at("loss").get<double>() > 0);
  const std::string csv = read_text_file(work / "targets" / "metrics.csv");
  CHECK(contains(csv, ",test,"));
  CHECK_FALSE(contains(csv, "nan"));
  const Result evaluated = run({"evaluate", work / "targets"});
  CHECK(evaluated.code == 0);
  CHECK(contains(evaluated.out, "(40 samples), step 10"));
  CHECK(std::count(evaluated.out.begin(), evaluated.out.end(), '\n') == 1);
  CHECK(run({"evaluate", work / "targets", "--json"}).event("evaluated").at("accuracy").is_null());

  CHECK(contains(train("one_hot").out, "  accuracy 0."));
  CHECK(contains(run({"evaluate", work / "one_hot"}).out, "precision"));
}

TEST_CASE("train: the error of samples whose loss is not finite names them") {
  const Workspace work;
  std::vector<float> images(40 * 16, 0.5f);
  const std::vector<std::int32_t> classes(40, 1);
  for (const std::size_t sample : {34, 37}) images[sample * 16 + 5] = 1e38f;  // its square is none
  write_npy(work / "x.npy", "<f4", {40, 4, 4}, images);
  write_npy(work / "y.npy", "<i4", {40}, classes);
  const std::string config =
      work.config(R"(model: {layers: [flatten, dense: 2], loss: mean_squared_error}
data:
  format: npz
  shuffle: false
  normalize: {scale: 1}
  train: {images: )" +
                  (work / "x.npy").string() + ", labels: " + (work / "y.npy").string() + R"(}
optimizer: {sgd: {learning_rate: 0.001}}
train: {epochs: 2, batch_size: 8}
)");
  const Result result = run({"train", config, "--run-dir", work / "run"});
  CHECK(result.code == 5);
  INFO(result.err);
  CHECK(contains(result.err, "at step 5 (epoch 1, "));
  CHECK(contains(result.err,
                 ", for 2 of the 8 samples of the batch: 34, 37. The parameters were not"));
}

TEST_CASE("evaluate: other classes than those of the run give exit code 3") {
  const Workspace work;
  const std::string config = work.config(
      kModel + ("data: {format: idx, path: " + work.data() + "}\ntrain: {max_steps: 3}\n"));
  REQUIRE(run({"train", config, "--run-dir", work / "run"}).code == 0);
  const Result result =
      run({"evaluate", work / "run", "--set", "data.classes=[a, b, c, d, e, f, g, h, i, j]"});
  CHECK(result.code == 3);
  CHECK(contains(result.err, "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"));
  CHECK(contains(result.err, "[a, b, c, d, e, f, g, h, i, j]"));
}

TEST_CASE("train and evaluate end with exit code 4 and the remedy where no thread can be created") {
  const Workspace work;
  const std::string config = rich_config(work);
  const Arguments train{"train", config, "--run-dir", work / "run", "--set", "train.max_steps=2"};
  REQUIRE(run(train).code == 0);
  for (const Arguments& arguments :
       {Arguments{"train", config, "--run-dir", work / "other"}, {"evaluate", work / "run"}}) {
    CAPTURE(arguments[0]);
    // pthread_create() of glibc makes this call, and fork() does not.
    Program program(arguments, {}, [] {
      if (!test::fail_system_call(SYS_clone3, EAGAIN)) ::_exit(126);
    });
    const Result result = program.wait();
    CHECK(result.code == 4);
    INFO(result.err);
    CHECK(contains(result.err, "raise the limit on processes (ulimit -u, pids.max"));
  }
}

}  // namespace trainer::e2e

// Data that cannot be read ends a run, which loses no step by it.
#include <doctest/doctest.h>

#include <array>
#include <fstream>

#include "base/error.h"
#include "config/config.h"
#include "data/open.h"
#include "pictures.h"

namespace trainer::e2e::unreadable_test {
namespace {

// Makes an image file unreadable, and in the end readable again.
class Damage {
 public:
  explicit Damage(Path path) : path_(std::move(path)), content_(read_file(path_)) {
    Bytes damaged = content_;
    damaged[1] = 'x';
    write_file_atomic(path_, damaged);
  }
  void repair() const { write_file_atomic(path_, content_); }
  const Path& path() const { return path_; }

 private:
  Path path_;
  Bytes content_;
};

// 34 pictures in batches of 4, two of them a step: the second batch of step 3 are the samples 20 to
// 23, in the order of the list. Batch norm's moving statistics follow both batches.
struct Job {
  Workspace work;
  std::string config;

  Job() {
    write_images(work / "train", 17, 1);
    write_images(work / "validation", 7, 2);
    config = work.config(concat(R"(
model:
  layers:
    - conv: {filters: 4, activation: relu}
    - batch_norm
    - max_pool: 4
    - flatten
    - dropout: 0.2
    - dense: 2
data:
  format: image_folder
  classes: [left, right]
  train: {path: )",
                                (work / "train").string(), R"(}
  validation: {path: )",
                                (work / "validation").string(), R"(}
  resize: [16, 16]
  shuffle: false
optimizer: {sgd: {learning_rate: 0.02, momentum: 0.9}, accumulate: 2, ema: 0.9}
train: {epochs: 3, batch_size: 4}
parallel: {threads: 1, timeout: 20 seconds, lr_scaling: none}
run: {checkpoint_every: 4 epochs, log_every: 1 steps}
)"));
  }

  Path file(Split split, std::int64_t index) const {
    const config::Config loaded = config::load_config(config, {}, {}).config;
    const data::Datasets data = data::open_datasets(loaded.data, loaded.seed, split);
    return data.dataset(split)->describe(index);
  }
  Arguments train(const std::string& dir, const Arguments& more = {}) const {
    Arguments arguments{"train", config, "--json", "--run-dir", work / dir};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Json finished(const std::string& dir, const Arguments& more = {}) const {
    const Result result = run(train(dir, more));
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.event("finished");
  }
  // Trains two processes with the same global batch.
  std::array<Result, 2> train_two(const std::string& dir, const Arguments& more = {}) const {
    Arguments common = train(dir, more);
    const std::string master = concat("127.0.0.1:", draw_port());
    common.insert(common.end(), {"--batch-size", "2", "--world-size", "2", "--master", master});
    Arguments first = common, second = common;
    first.insert(first.end(), {"--rank", "0"});
    second.insert(second.end(), {"--rank", "1"});
    Program chief(first), other(second);
    return {chief.wait(), other.wait()};
  }
  Json finished_two(const std::string& dir, const Arguments& more = {}) const {
    const auto results = train_two(dir, more);
    INFO(results[0].err, results[1].err);
    REQUIRE(results[0].code == 0);
    CHECK(results[1].code == 0);
    return results[0].event("finished");
  }
};

void check_says(const Result& result, const std::vector<std::string>& parts) {
  INFO(result.err);
  for (const std::string& part : parts) {
    INFO(part);
    CHECK(result.err.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("train: an unreadable image saves the last step, and the run can be resumed") {
  const Job job;
  const Json whole = job.finished("whole");
  const Damage damage(job.file(Split::kTrain, 20));
  const Result result = run(job.train("run"));
  CHECK(result.code == 3);
  check_says(result, {damage.path(), "Stopped after step 2, saved as ", "step-00000002", "--resume",
                      "data.on_error=replace"});
  const Result replaced = run(job.train("other"));
  CHECK(replaced.code == 3);
  CHECK(job.finished("other", {"--resume", "--set", "data.on_error=replace"}).at("steps") == 15);
  damage.repair();
  check_same(whole, job.finished("run", {"--resume"}));
}

TEST_CASE("train: an unreadable validation image saves the last step, and the run can be resumed") {
  const Job job;
  const Json whole = job.finished("whole");
  const Damage damage(job.file(Split::kValidation, 9));
  const Result result = run(job.train("run"));
  CHECK(result.code == 3);
  check_says(result, {damage.path(), "Stopped after step 5, saved as ", "step-00000005"});
  damage.repair();
  const Result resumed = run(job.train("run", {"--resume"}));
  REQUIRE(resumed.code == 0);
  check_same(whole, resumed.event("finished"));
  // What was cut short is made up for.
  const auto lines = resumed.lines();
  const auto first = std::find_if(lines.begin(), lines.end(), [](const Json& line) {
    return line.at("event") == "evaluation";
  });
  REQUIRE(first != lines.end());
  CHECK(first->at("step") == 5);
}

TEST_CASE("evaluate and predict: on_error replace leaves out unreadable images with a message") {
  const Job job;
  const Arguments replace{"--set", "data.on_error=replace", "--set", "train.epochs=1"};
  CHECK(job.finished("run", replace).at("metrics").at("validation").at("count") == 14);
  const Damage validation(job.file(Split::kValidation, 9)), training(job.file(Split::kTrain, 20));
  const Result evaluated = run({"evaluate", job.work / "run", "--json"});
  INFO(evaluated.err);
  REQUIRE(evaluated.code == 0);
  CHECK(evaluated.event("evaluated").at("count") == 13);
  check_says(evaluated, {"1 of 14 files of the validation split cannot be read and is left out: ",
                         validation.path()});
  const Result of_training = run({"evaluate", job.work / "run", "--split", "train", "--json"});
  CHECK(of_training.event("evaluated").at("count") == 33);
  check_says(of_training, {"1 of 34 files of the train split", training.path()});

  Arguments predict{"predict", job.work / "run", "--format", "csv"};
  const Result predicted = run(predict);
  CHECK(predicted.code == 3);
  check_says(predicted, {"left out: ", validation.path()});
  CHECK(predicted.out.find(validation.path()) == std::string::npos);
  CHECK(std::count(predicted.out.begin(), predicted.out.end(), '\n') == 14);
  predict.insert(predict.end(), {"--on-error", "skip"});
  CHECK(run(predict).code == 0);

  // So it is while training goes on.
  const Result again = run(job.train("again", replace));
  REQUIRE(again.code == 0);
  CHECK(again.event("finished").at("metrics").at("validation").at("count") == 13);
  check_says(again, {"1 of 14 files skipped (validation)", "1 of 34 files replaced (train)"});
}

TEST_CASE("train: two processes end after the last step is saved when one cannot read an image") {
  const Job job;
  Arguments more;
  Split split = Split::kTrain;
  std::string step = "2";
  std::int64_t sample = 22;  // of the second process
  std::size_t culprit = 1;
  SUBCASE("in the middle of a step") {}
  SUBCASE("at its beginning") { sample = 18; }
  SUBCASE("in the first step") {
    sample = 0;
    step = "0";
    culprit = 0;
  }
  SUBCASE("in an evaluation") {
    split = Split::kValidation;
    sample = 2;
    step = "5";
  }
  SUBCASE("in an evaluation by the chief alone") {
    split = Split::kValidation;
    sample = 9;
    step = "5";
    culprit = 0;
    more = {"--set", "parallel.evaluate=false"};
  }
  const Json whole = job.finished_two("whole", more);
  const Damage damage(job.file(split, sample));
  const auto results = job.train_two("run", more);
  const Result &failed = results[culprit], &other = results[1 - culprit];
  CHECK(failed.code == 3);
  CHECK(other.code == 4);
  check_says(failed, {damage.path(), "Stopped after step " + step, "--resume"});
  check_says(other, {concat("rank ", culprit), damage.path(), "Stopped after step " + step});
  CHECK(std::filesystem::exists(job.work / "run" / "checkpoints" /
                                concat("step-0000000", step, ".safetensors")));
  damage.repair();
  Arguments resume = more;
  resume.push_back("--resume");
  check_same(whole, job.finished_two("run", resume));
}

}  // namespace trainer::e2e::unreadable_test

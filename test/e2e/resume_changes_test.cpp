// What --resume does with a config that differs from the run's: rejected where the run could not go
// on, named where the result may change, silent where it cannot.
#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "pictures.h"

namespace trainer::e2e {
namespace {

// Three steps on small pictures, saved; then resumed for a fourth one with other settings.
class Run {
 public:
  explicit Run(const std::string& optimizer = "sgd: {learning_rate: 0.01}") {
    write_images(work_ / "train", 9, 1);
    config_ = work_.config(concat(R"(
model:
  input: [16, 16, 3]
  layers: [conv: {filters: 2, strides: 2, activation: relu}, flatten, dense: 2]
data: {format: image_folder, validation_split: 0.2, train: )",
                                  (work_ / "train").string(), R"(}
optimizer: {)",
                                  optimizer, R"(}
train: {max_steps: 3, batch_size: 4}
)"));
    const Result first = run(arguments({}));
    INFO(first.err);
    REQUIRE(first.code == 0);
  }

  Result resumed(const std::vector<std::string>& settings) const {
    Arguments more{"--resume", "--set", "train.max_steps=4"};
    for (const std::string& setting : settings) more.insert(more.end(), {"--set", setting});
    return run(arguments(more));
  }
  void check_refused(const std::string& setting, const std::string& reason) const {
    const Result result = resumed({setting});
    CAPTURE(setting);
    CAPTURE(result.err);
    CHECK(result.code == 3);
    // The difference is the reason of the error, not a warning before another error.
    const auto error = result.err.find("cannot be resumed: ");
    CHECK(error != std::string::npos);
    CHECK(result.err.find(reason, error) != std::string::npos);
    CHECK(last_step() == 3);
  }
  // Goes on, and prints what has changed when `message` is not empty.
  void check_accepted(const std::string& setting, const std::string& message) const {
    const Result result = resumed({setting});
    CAPTURE(setting);
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(last_step() == 4);
    if (message.empty()) {
      CHECK(result.err.find(setting.substr(0, setting.find('='))) == std::string::npos);
    } else {
      CHECK(result.err.find(message) != std::string::npos);
    }
  }

 private:
  Arguments arguments(const Arguments& more) const {
    Arguments all{"train", config_, "--json", "--run-dir", work_ / "run"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  int last_step() const {
    int step = 0;
    while (std::filesystem::exists(work_ / "run" / "checkpoints" /
                                   concat("step-0000000", step + 1, ".safetensors")) ||
           step < 3) {
      ++step;
    }
    return step;
  }

  Workspace work_;
  std::string config_;
};

}  // namespace

TEST_CASE("train --resume: the error of changed keys of the data has the key") {
  const Run run;
  SUBCASE("scale") { run.check_refused("data.normalize.scale=0.5", "data.normalize.scale was "); }
  SUBCASE("mean") { run.check_refused("data.normalize.mean=0.5", "data.normalize.mean was "); }
  SUBCASE("deviation") { run.check_refused("data.normalize.std=2", "data.normalize.std was "); }
  SUBCASE("order of the channels") {
    run.check_refused("data.normalize.reverse_channels=true",
                      "data.normalize.reverse_channels was absent, is true");
  }
  SUBCASE("preset") { run.check_refused("data.preprocess=caffe", "data.preprocess"); }
  SUBCASE("interpolation") {
    run.check_refused("data.interpolation=bicubic", "data.interpolation was bilinear, is bicubic");
  }
  SUBCASE("antialias") {
    run.check_refused("data.antialias=false", "data.antialias was true, is false");
  }
  SUBCASE("fit") { run.check_refused("data.fit=crop", "data.fit was stretch, is crop"); }
  SUBCASE("order of the samples") {
    run.check_refused("data.shuffle=false", "data.shuffle was true, is false");
  }
  SUBCASE("division into training and validation") {
    run.check_refused("data.validation_split=0.4", "training data: ");
  }
  SUBCASE("limit") { run.check_refused("data.limit=6", "training data: "); }
}

TEST_CASE("train --resume: another crop_fraction is an error") {
  const Run run;
  CHECK(run.resumed({"data.fit=crop", "data.crop_fraction=0.5"})
            .err.find("data.crop_fraction was 1, is 0.5") != std::string::npos);
}

TEST_CASE(
    "train --resume: data.relabel that changes labels is an error, and unchanged labels are "
    "accepted") {
  const Run run;
  const TemporaryFolder folder;
  const Path fixes = folder.path() / "fixes.csv";
  std::ofstream(fixes) << "path,label\nleft/3.ppm,left\n";
  run.check_accepted(concat("data.relabel=", fixes.string()), "changes 0 labels");
  std::ofstream(fixes) << "path,label\nleft/3.ppm,right\n";
  const Run other;
  other.check_refused(concat("data.relabel=", fixes.string()), "training data: ");
}

TEST_CASE("train --resume: changes that keep the model cause a warning or nothing") {
  const Run run;
  SUBCASE("learning rate") {
    run.check_accepted("optimizer.sgd.learning_rate=0.02",
                       "optimizer.sgd.learning_rate was 0.01, is 0.02");
  }
  SUBCASE("threads") { run.check_accepted("data.threads=1", ""); }
  SUBCASE("cache of images") { run.check_accepted("data.cache=memory", ""); }
}

TEST_CASE("train --resume: an optimizer with other slots is an error") {
  SUBCASE("momentum begins") {
    Run("sgd: {learning_rate: 0.01}")
        .check_refused("optimizer.sgd.momentum=0.9", "optimizer.sgd.momentum was 0, is 0.9");
  }
  SUBCASE("momentum ends") {
    Run("sgd: {learning_rate: 0.01, momentum: 0.9}")
        .check_refused("optimizer.sgd.momentum=0", "optimizer.sgd.momentum was 0.9, is 0");
  }
  SUBCASE("another momentum has the same slot") {
    Run("sgd: {learning_rate: 0.01, momentum: 0.9}")
        .check_accepted("optimizer.sgd.momentum=0.8", "optimizer.sgd.momentum was 0.9, is 0.8");
  }
  SUBCASE("amsgrad") {
    Run("adam: {learning_rate: 0.001}")
        .check_refused("optimizer.adam.amsgrad=true", "optimizer.adam.amsgrad was false, is true");
  }
  SUBCASE("centered") {
    Run("rmsprop: {learning_rate: 0.001}")
        .check_refused("optimizer.rmsprop.centered=true",
                       "optimizer.rmsprop.centered was false, is true");
  }
  SUBCASE("another optimizer") {
    const Run run("sgd: {learning_rate: 0.01}");
    const std::string other = "optimizer={adam: {learning_rate: 0.001}}";
    run.check_refused(other, "optimizer was sgd, is adam");
    run.check_refused(other,
                      "Restore these values, or start a new run from its parameters: "
                      "--run-dir NEW --set model.weights=");
  }
  SUBCASE("averages begin") {
    const Run run("sgd: {learning_rate: 0.01}");
    run.check_refused("optimizer.ema=0.9", "optimizer.ema needs averages of the weights");
    run.check_refused("optimizer.ema=0.9", "--run-dir NEW --set model.weights=");
  }
}

}  // namespace trainer::e2e

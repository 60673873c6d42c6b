#include "train/state.h"

#include <doctest/doctest.h>

#include "checkpoint/weights.h"
#include "support.h"

namespace trainer::train::state_test {
namespace {

using namespace support;

// What is reported about a config that differs from the checkpoint's in `now`; "" when it goes on.
std::string refusal(const config::Config& before, const config::Config& now,
                    std::int64_t samples = 24) {
  const Trial saved(before), resumed(now, samples);
  const auto metadata = to_metadata({}, before, saved.data, plan_steps(before, 24));
  try {
    from_metadata(metadata, now, resumed.data, plan_steps(now, samples), "run");
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

config::Config with_optimizer(const std::string& optimizer) {
  config::Config config = run_config();
  config.optimizer =
      trainer::test::build_config(kDense, "optimizer: {" + optimizer + "}\n").optimizer;
  return config;
}

void check_contains(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("RunState: every field is stored in the metadata and read back") {
  const Trial trial(run_config());
  config::Config config = trial.config;
  config.data.validation_split = 0.25;
  config.train.early_stop = config::EarlyStop{};
  const TrainingPlan plan = plan_steps(config, 24);
  RunState state;
  state.step = 17;
  state.stage = 2;
  state.best = 0.1 + 0.2;  // no short decimal
  state.best_step = 12;
  state.loss_scale = {.value = 0x1.8p+20f, .good_updates = 1999};
  state.evaluation_due = true;
  state.stopped = true;
  state.hooks = {{"early_stop", "0x1p-3 1 17"}, {"other", "two\nlines"}};
  const auto metadata = to_metadata(state, config, trial.data, plan);
  const RunState back = from_metadata(metadata, config, trial.data, plan, "run");
  CHECK(back.step == 17);
  CHECK(back.best == state.best);
  CHECK(back.best_step == 12);
  CHECK(back.loss_scale == state.loss_scale);
  CHECK(back.evaluation_due);
  CHECK(back.stopped);
  CHECK(back.hooks == state.hooks);
  CHECK(read_stage(metadata, "run") == 2);
  CHECK(checkpoint::read_classes(metadata) == std::vector<std::string>{"even", "odd"});
  CHECK(read_image_shape(metadata, "run") == Shape({4, 4, 1}));
  CHECK(read_image_type(metadata, "run") == DType::kFloat32);
  CHECK(read_label_is_index(metadata, "run") == true);
  CHECK(read_length(metadata, "run").total_steps == 6);
  CHECK(read_length(metadata, "run").stopped);
  // Values of another metric are no longer compared with.
  config.run.best = "validation/accuracy";
  config.train.early_stop->metric = "validation/accuracy";
  const RunState other = from_metadata(metadata, config, trial.data, plan, "run");
  CHECK_FALSE(other.best.has_value());
  CHECK_FALSE(other.hooks.contains("early_stop"));
  CHECK(other.hooks.contains("other"));
  // Whoever takes early_stop out wants the run to go on.
  config.train.early_stop.reset();
  CHECK_FALSE(from_metadata(metadata, config, trial.data, plan, "run").stopped);
}

TEST_CASE("checkpoint metadata: shape, type and labels of samples are read, or are an error") {
  for (const char* text : {"", "5", "4 4", "4 4 1 1", "4 4 x", "4 -4 1", "4 4 0", "4  4 1",
                           "4 4 1 ", "1048577 4 1", "99999999999999999999 4 1"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(read_image_shape({{"image_shape", text}}, "run"),
                         doctest::Contains("expected the height, width and number of channels"),
                         DataError);
  }
  CHECK_THROWS_WITH_AS(read_image_type({{"image_type", "int8"}}, "run"),
                       doctest::Contains("\"image_type\" is \"int8\", expected uint8 or float32"),
                       DataError);
  CHECK_THROWS_WITH_AS(read_label_is_index({{"label_is_index", "True"}}, "run"),
                       doctest::Contains("expected true or false"), DataError);
  CHECK_FALSE(read_image_shape({}, "run").has_value());
  CHECK_FALSE(read_image_type({}, "run").has_value());
  CHECK_FALSE(read_label_is_index({}, "run").has_value());
}

TEST_CASE(
    "RunState: a checkpoint without a loss scale has no value, and a text instead is an error") {
  const Trial trial(run_config());
  const TrainingPlan plan = plan_steps(trial.config, 24);
  auto metadata = to_metadata({}, trial.config, trial.data, plan);
  CHECK_FALSE(metadata.contains("loss_scale"));
  CHECK(from_metadata(metadata, trial.config, trial.data, plan, "run").loss_scale == std::nullopt);
  metadata["loss_scale"] = "high";
  metadata["loss_scale_good_updates"] = "3";
  CHECK_THROWS_WITH_AS(from_metadata(metadata, trial.config, trial.data, plan, "run"),
                       doctest::Contains("loss_scale"), DataError);
}

TEST_CASE("from_metadata: the error of a change that a resume does not allow has the key") {
  const config::Config config = run_config();
  CHECK(refusal(config, config) == "");
  config::Config other = config;
  other.seed = config.seed + 1;
  check_contains(refusal(config, other), "seed was ");
  other = config;
  other.train.batch_size = 8;
  check_contains(refusal(config, other), "global batch was 4, is 8");
  other = config;
  other.optimizer.accumulate = 2;
  check_contains(refusal(config, other), "optimizer.accumulate was 1, is 2");
  other = config;
  other.data.shuffle = !config.data.shuffle;
  check_contains(refusal(config, other), "data.shuffle was ");
  other = config;
  other.data.normalize = config::Normalize{0.5, {}, {}, false};
  check_contains(refusal(config, other), "data.normalize");
  check_contains(refusal(config, config, 28), "training data: 24 samples before, 28 now");
  // Only a run with a folder has parameters to begin anew from.
  CHECK(refusal(config, other).ends_with("\nRestore these values."));
}

TEST_CASE("from_metadata: other optimizer slots are an error, and other optimizer values are not") {
  const config::Config sgd = with_optimizer("sgd: {learning_rate: 0.1}");
  const config::Config momentum = with_optimizer("sgd: {learning_rate: 0.1, momentum: 0.9}");
  check_contains(refusal(sgd, momentum), "momentum was 0, is 0.9");
  check_contains(refusal(momentum, sgd), "momentum was 0.9, is 0");
  check_contains(refusal(sgd, with_optimizer("adam: {learning_rate: 0.1}")), "optimizer was sgd");
  check_contains(refusal(with_optimizer("adam: {learning_rate: 0.1}"),
                         with_optimizer("adam: {learning_rate: 0.1, amsgrad: true}")),
                 "amsgrad was false, is true");
  check_contains(refusal(with_optimizer("rmsprop: {learning_rate: 0.1}"),
                         with_optimizer("rmsprop: {learning_rate: 0.1, centered: true}")),
                 "centered was false, is true");
  CHECK(refusal(momentum, with_optimizer("sgd: {learning_rate: 0.2, momentum: 0.8}")) == "");
}

TEST_CASE("changes_since: a relevant change that is allowed is a warning") {
  const config::Config config = run_config();
  const Trial trial(config);
  const auto metadata = to_metadata({}, config, trial.data, plan_steps(config, 24));
  config::Config other = config;
  CHECK(changes_since(metadata, other).warnings.empty());
  other.optimizer = with_optimizer("sgd: {learning_rate: 0.2, momentum: 0.9}").optimizer;
  const Changes changes = changes_since(metadata, other);
  CHECK(changes.errors.empty());
  REQUIRE(changes.warnings.size() == 1);
  CHECK(changes.warnings[0] == "optimizer.sgd.learning_rate was 0.1, is 0.2");
}

TEST_CASE("read_step: a checkpoint without a valid step is an error") {
  CHECK_THROWS_WITH_AS(read_step({}, "file"), doctest::Contains("lacks \"step\""), DataError);
  CHECK_THROWS_WITH_AS(read_step({{"step", "12x"}}, "file"), doctest::Contains("expected a number"),
                       DataError);
}

TEST_CASE("read_classes escapes control characters of a crafted checkpoint") {
  CHECK(checkpoint::read_classes({{"classes", "cat\nd\xc3\xb6g\n\x1b[2J\ra\n"}}) ==
        std::vector<std::string>{"cat", "d\xc3\xb6g", "\\x1b[2J\\x0da"});
}

TEST_CASE(
    "read_step: negative or huge numbers of a crafted checkpoint are an error with the file") {
  for (const char* value : {"-1", "9223372036854775807", "-9223372036854775808"}) {
    CAPTURE(value);
    CHECK_THROWS_WITH_AS(read_step({{"step", value}}, "a.safetensors"),
                         doctest::Contains("a.safetensors: \"step\" is "), DataError);
    CHECK_THROWS_AS(read_length({{"total_steps", value}, {"steps_per_epoch", "3"}}, "a"),
                    DataError);
    CHECK_THROWS_AS(read_length({{"total_steps", "3"}, {"steps_per_epoch", value}}, "a"),
                    DataError);
  }
  CHECK(read_step({{"step", "0"}}, "a") == 0);
  CHECK_THROWS_AS(read_length({{"total_steps", "3"}, {"steps_per_epoch", "0"}}, "a"), DataError);
}

}  // namespace trainer::train::state_test

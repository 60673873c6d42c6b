#include <doctest/doctest.h>

#include <algorithm>

#include "config/describe/schema.h"
#include "config/support.h"

namespace trainer::config {
namespace {

const std::string kBackbone =
    "model: {backbone: {name: vgg16, freeze: all}, head: [flatten, dropout: 0.5, dense: 2]}\n"
    "data: {format: image_folder, path: d, resize: [32, 32]}\ntrain: {epochs: 1}\noptimizer: "
    "adam\n";

// "KEY BEFORE NOW error|warning", sorted, of one setting against none.
std::vector<std::string> changes(const std::string& text, const std::vector<Override>& before,
                                 const std::vector<Override>& now) {
  std::vector<std::string> lines;
  for (const Change& change : resume_changes(parse(text, before).config, parse(text, now).config)) {
    lines.push_back(concat(change.key, ' ', change.before, ' ', change.now,
                           change.severity == Change::Severity::kError ? " error" : " warning"));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST_CASE("resume_changes returns no changes for equal configs") {
  CHECK(changes(kBackbone, {}, {}).empty());
  CHECK(changes(rich_config(), {}, {}).empty());
}

TEST_CASE("resume_changes: each key is free, a warning or an error") {
  struct Row {
    std::string key, value;
    std::string severity;  // "" for a free one
  };
  const std::vector<Row> rows{
      {"name", "other", ""},
      {"seed", "7", "error"},
      {"data.path", "e", ""},
      {"data.train.glob", "a/*.png", ""},
      {"data.cache", "memory", ""},
      {"data.cache_dir", "c", ""},
      {"data.threads", "3", ""},
      {"data.prefetch", "3", ""},
      {"data.max_pixels", "3", ""},
      {"data.limit", "3", "warning"},
      {"data.folds", "5", "error"},
      {"data.group_by", "patient", "error"},
      {"data.resize", "[64, 64]", "error"},
      {"data.channels", "1", "error"},
      {"data.fit", "crop", "error"},
      {"data.antialias", "false", "error"},
      {"data.interpolation", "bicubic", "error"},
      {"data.preprocess", "tf", "error"},
      {"data.shuffle", "false", "error"},
      {"data.drop_remainder", "true", "error"},
      {"optimizer.accumulate", "2", "error"},
      {"model.loss", "mean_squared_error", "error"},
      {"model.label_smoothing", "0.1", "warning"},
      {"model.backbone.freeze", "none", "warning"},
      {"model.backbone.batch_norm", "eval", "warning"},
      {"model.backbone.weights", "w.h5", ""},
      {"model.backbone.name", "resnet50", "error"},
      {"model.head[1].dropout.rate", "0.25", "warning"},
      {"model.head[2].dense.units", "3", "error"},
      {"model.head[2].dense.kernel_initializer", "zeros", "warning"},
      {"model.head[2].dense.kernel_regularizer.l2", "0.1", "warning"},
      {"optimizer.adam.learning_rate", "0.1", "warning"},
      {"optimizer.adam.amsgrad", "true", "error"},
      {"optimizer.ema", "0.9", "warning"},
      {"train.batch_size", "7", "warning"},
      {"train.cache_features", "off", ""},
      {"parallel.threads", "1", "warning"},
      {"parallel.lanes", "2", "warning"},
      {"parallel.pin", "true", ""},
      {"evaluate.top_k", "2", ""},
      {"run.keep", "9", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.key);
    const Lines found = changes(kBackbone, {}, {set(row.key, row.value)});
    if (row.severity.empty()) {
      CHECK(found.empty());
      continue;
    }
    const bool listed = std::any_of(found.begin(), found.end(), [&](const std::string& line) {
      return line.starts_with(row.key) && line.ends_with(row.severity);
    });
    CHECK(listed);
  }
}

TEST_CASE("resume_changes: threads and lanes do not count with ordered sums in both runs") {
  const Override ordered = set("parallel.reduction", "ordered");
  const Override threads = set("parallel.threads", "2"), lanes = set("parallel.lanes", "2");
  CHECK(changes(kBackbone, {ordered}, {ordered, threads, lanes}).empty());
  CHECK(changes(kBackbone, {}, {ordered, threads}) == Lines{"parallel.threads null 2 warning"});
}

TEST_CASE("resume_changes: another optimizer is one change, and a slot more or less is an error") {
  const auto sgd = [](const char* momentum) {
    return std::vector<Override>{set("optimizer.sgd.momentum", momentum)};
  };
  CHECK(changes(kBackbone, {}, {set("optimizer", "sgd")}) == Lines{"optimizer adam sgd error"});
  CHECK(changes(kBackbone, {}, {set("optimizer", "{sgd: , ema: 0.9}")}) ==
        Lines{"optimizer adam sgd error", "optimizer.ema null 0.9 warning"});
  CHECK(changes(kBackbone, sgd("0"), sgd("0.9")) == Lines{"optimizer.sgd.momentum 0 0.9 error"});
  CHECK(changes(kBackbone, sgd("0.9"), sgd("0")) == Lines{"optimizer.sgd.momentum 0.9 0 error"});
  CHECK(changes(kBackbone, sgd("0.8"), sgd("0.9")) ==
        Lines{"optimizer.sgd.momentum 0.8 0.9 warning"});
}

TEST_CASE("resume_changes returns only the changed one of keys that belong together") {
  const Override crop = set("data.fit", "crop");
  CHECK(changes(kBackbone, {crop}, {crop, set("data.crop_fraction", "0.5")}) ==
        Lines{"data.crop_fraction 1 0.5 error"});
}

TEST_CASE("resume_changes: the order of validation_split is an error") {
  const Override split = set("data.validation_split", "0.2");
  CHECK(changes(kBackbone, {split}, {split, set("data.validation_split_order", "last")}) ==
        Lines{"data.validation_split_order stratified last error"});
}

TEST_CASE("resume_changes: another schedule is a warning for each key") {
  CHECK(changes(kBackbone, {}, {set("schedule", "cosine")}) ==
        Lines{"schedule.constant {} absent warning", "schedule.cosine.alpha absent 0 warning",
              "schedule.cosine.decay_over absent null warning"});
}

}  // namespace
}  // namespace trainer::config

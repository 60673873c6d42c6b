// Metrics that a config names, beside the labels of the data.
#include "train/check_metrics.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "base/error.h"
#include "support/model.h"

namespace trainer::train::check_metrics_test {
namespace {

// Samples with this kind of label, which are not read.
class Samples final : public data::Dataset {
 public:
  explicit Samples(data::LabelKind kind) {
    spec_.label_kind = kind;
    spec_.label_width = spec_.label_is_index() ? 1 : 3;
  }
  std::int64_t size() const override { return 4; }
  const data::DatasetSpec& spec() const override { return spec_; }
  using data::Dataset::get;
  void get(std::int64_t, std::int64_t, void*, void*) const override {
    throw std::logic_error("check_metrics() reads no sample");
  }
  std::string fingerprint() const override { return "samples"; }

 private:
  data::DatasetSpec spec_;
};

data::Datasets make_data(data::LabelKind kind) {
  data::Datasets data;
  data.train = std::make_unique<Samples>(kind);
  return data;
}

config::Config make_config(const std::string& best) {
  config::Config config = test::build_config("{layers: [flatten, dense: 3]}");
  if (!best.empty()) config.run.best = best;
  return config;
}

// Returns the message of check_metrics(); "" if it accepts the metric.
std::string find_error(const std::string& best, data::LabelKind kind) {
  try {
    check_metrics(make_config(best), make_data(kind));
    return "";
  } catch (const ConfigError& error) {
    return error.diagnostics().at(0).message;
  }
}

}  // namespace

TEST_CASE("resolve_best: several labels replace the accuracy by the loss, with a note") {
  const data::Datasets several = make_data(data::LabelKind::kMultiLabel);
  for (const char* best : {"", "validation/accuracy"}) {
    config::Config config = make_config(best);
    const Notice notice = resolve_best(config, several);
    CHECK(config.run.best == "validation/loss");
    CHECK(notice.kind == Notice::Kind::kNote);
    CHECK(notice.text ==
          "run.best: validation/accuracy is for one class per image, but these images have several "
          "labels; validation/loss is used in its place");
    CHECK(resolve_best(config, several).text.empty());
  }
  config::Config auc = make_config("validation/auc");
  CHECK(resolve_best(auc, several).text.empty());
  CHECK(auc.run.best == "validation/auc");
  config::Config one_class = make_config("");
  CHECK(resolve_best(one_class, make_data(data::LabelKind::kIndex)).text.empty());
  CHECK(one_class.run.best == "validation/accuracy");
}

TEST_CASE("check_metrics: the error of metrics of another kind of label has those that exist") {
  using data::LabelKind;
  for (const LabelKind kind : {LabelKind::kIndex, LabelKind::kTargets, LabelKind::kMultiLabel}) {
    CHECK(find_error("", kind) == "");
    CHECK(find_error("validation/loss", kind) == "");
  }
  CHECK(find_error("validation/f1_weighted", LabelKind::kMultiLabel) ==
        "the metric f1_weighted is for one class per image, but these images have several labels; "
        "name loss, f1_macro, f1_micro, subset_accuracy, hamming_loss, auc or average_precision in "
        "run.best, train.early_stop, train.stop_at and schedule.reduce_on_plateau");
  CHECK(find_error("validation/f1_micro", LabelKind::kMultiLabel) == "");
  CHECK(find_error("validation/f1_micro", LabelKind::kIndex) ==
        "the metric f1_micro is for several labels per image, but these images have one class "
        "each; name loss, accuracy, top_k_accuracy, f1_macro, f1_weighted, balanced_accuracy or "
        "auc in run.best, train.early_stop, train.stop_at and schedule.reduce_on_plateau");
  CHECK(find_error("validation/hamming_loss", LabelKind::kTargets) ==
        "the metric hamming_loss is for several labels per image, but this data has rows of "
        "targets that are not labels of 0 and 1; name loss in run.best, train.early_stop, "
        "train.stop_at and schedule.reduce_on_plateau");
}

}  // namespace trainer::train::check_metrics_test

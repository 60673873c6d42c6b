// Weights of the terms of several labels.
#include "train/target_weight.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "base/error.h"

namespace trainer::train::target_weight_test {
namespace {

// Three labels: with 1, 2 and 0 positives, and 3, 1 and 4 negatives of 4 samples. With `rare`, the
// last one has 1 positive and 3 negatives.
class Labelled final : public data::Dataset {
 public:
  explicit Labelled(bool rare) {
    if (rare) present_[3] = {2};
    spec_.image_shape = {1, 1, 1};
    spec_.label_kind = data::LabelKind::kMultiLabel;
    spec_.label_width = 3;
  }
  std::int64_t size() const override { return 4; }
  const data::DatasetSpec& spec() const override { return spec_; }
  using data::Dataset::get;
  void get(std::int64_t, std::int64_t, void*, void*) const override {
    throw std::logic_error("the weights need no images");
  }
  data::LabelSet label_set_at(std::int64_t index) const override {
    const auto sample = static_cast<std::size_t>(index);
    return {present_[sample], unknown_[sample]};
  }
  std::string fingerprint() const override { return "labelled"; }

 private:
  data::DatasetSpec spec_;
  std::vector<std::int32_t> present_[4] = {{0, 1}, {1}, {}, {}};
  std::vector<std::int32_t> unknown_[4] = {{}, {}, {}, {1}};
};

data::Datasets make_data(bool rare = false) {
  data::Datasets data;
  data.train = std::make_unique<Labelled>(rare);
  data.classes = {"edema", "mass", "none"};
  return data;
}

config::ClassWeight make_map(std::vector<std::pair<std::string, double>> weights) {
  return {false, std::move(weights), {}};
}

std::string find_error(const config::Config& config) {
  try {
    target_weights(config, make_data());
    return "";
  } catch (const ConfigError& error) {
    return error.diagnostics().at(0).message;
  }
}

}  // namespace

TEST_CASE(
    "target_weights: class_weight scales both terms of a label, and pos_weight its positives") {
  config::Config config;
  CHECK(target_weights(config, make_data()).empty());
  config.train.pos_weight = make_map({{"mass", 4}, {"0", 3}});
  CHECK(target_weights(config, make_data()) == std::vector<float>{1, 1, 1, 3, 4, 1});
  config.train.class_weight = make_map({{"mass", 0.5}});
  CHECK(target_weights(config, make_data()) == std::vector<float>{1, 0.5, 1, 3, 2, 1});
}

TEST_CASE("target_weights: balanced divides samples without a label by samples with it") {
  config::Config config;
  config.train.pos_weight = config::ClassWeight{true, {}, {}};
  CHECK(find_error(config) ==
        "train.pos_weight: balanced needs training samples with and without each label, but none "
        "has 'none'; give a map of labels to weights");
  CHECK(target_weights(config, make_data(true)) == std::vector<float>{1, 1, 1, 3, 0.5, 3});
  config.train.pos_weight.reset();
  config.train.class_weight = config::ClassWeight{true, {}, {}};
  CHECK(find_error(config).starts_with("train.class_weight: balanced is for one class per image"));
  config.train.class_weight = make_map({{"left", 2}});
  CHECK(find_error(config) ==
        "train.class_weight: the data has no class 'left'; its classes: edema, mass, none");
  config.train.class_weight = make_map({{"mass", 2}, {"1", 2}});
  CHECK(find_error(config) ==
        "train.class_weight: names class 1 twice, by its name and by its number");
}

}  // namespace trainer::train::target_weight_test

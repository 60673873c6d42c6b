// What errors in arrays and their labels advise: each advice is followed, and the model is trained.
#include <doctest/doctest.h>

#include <cstdint>

#include "advice.h"
#include "base/error.h"
#include "e2e/npy.h"
#include "support/contains.h"

namespace trainer::e2e::array_advice_test {
namespace {

using test::contains;

constexpr int kSamples = 12;

// A config and arrays beside it; the program runs in their folder.
struct Arrays {
  AdvicePlace place;
  Arrays() {
    std::vector<std::uint8_t> pixels(kSamples * 64);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37);
    std::vector<std::int32_t> two, five, large;
    for (int i = 0; i < kSamples; ++i) {
      two.push_back(i % 2);
      five.push_back(i % 5);
      large.push_back(i == 3 ? 900'000 : i % 2);
    }
    write_npy(path("images.npy"), "|u1", {kSamples, 8, 8, 1}, pixels);
    write_npy(path("floats.npy"), "<f4", {kSamples, 8, 8, 1},
              std::vector<float>(pixels.begin(), pixels.end()));
    write_npy(path("two.npy"), "<i4", {kSamples}, two);
    write_npy(path("five.npy"), "<i4", {kSamples}, five);
    write_npy(path("large.npy"), "<i4", {kSamples}, large);
    write_npy(path("targets.npy"), "<f4", {kSamples}, std::vector<float>(two.begin(), two.end()));
    write_npy(path("rows.npy"), "<f4", {kSamples, 2}, std::vector<float>(kSamples * 2, 1));
    write_file_atomic(path("arrays.yaml"),
                      std::string_view("model: {layers: [flatten, dense: 2]}\n"
                                       "data: {format: npz, train: {images: images.npy, labels: "
                                       "two.npy}}\n"
                                       "optimizer: {sgd: {learning_rate: 0.01}}\n"
                                       "train: {max_steps: 2, batch_size: 4}\n"));
  }
  Path path(const std::string& name) const { return place.work / name; }
  std::string train(const std::string& options) const {
    return "train arrays.yaml --run-dir RUN --overwrite " + options;
  }
};

std::string set(const std::string& setting) { return concat("--set '", setting, "' "); }
std::string labels(const std::string& file) { return set("data.train.labels=" + file); }

struct ArrayAdvice {
  std::string failed;
  const char* text;
  Arguments followed;
};

std::vector<ArrayAdvice> make_advices() {
  const std::string one_output = set("model.layers=[flatten, dense: 1]");
  const std::string five_outputs = set("model.layers=[flatten, dense: 5]");
  const std::string regression = set("model.loss=mean_squared_error") + one_output;
  const std::string floats = set("data.train.images=floats.npy");
  return {
      {labels("targets.npy"),
       "For targets that are not classes give model.loss: mean_squared_error",
       {labels("targets.npy") + regression, labels("two.npy")}},
      {labels("rows.npy"),
       "Give model.loss: binary_cross_entropy, which takes each class for itself",
       {labels("rows.npy") + set("model.loss=binary_cross_entropy")}},
      {labels("large.npy"),
       "number the classes from 0, or set data.num_classes",
       {labels("two.npy")}},
      {labels("five.npy") + set("data.num_classes=2"),
       "set data.num_classes or data.classes to the classes of the files",
       {labels("five.npy") + set("data.num_classes=5") + five_outputs,
        labels("five.npy") + set("data.classes=[a, b, c, d, e]") + five_outputs}},
      {labels("five.npy") + one_output + set("model.loss=binary_cross_entropy"),
       "one number for each of the 5 classes; set units: 5",
       {labels("five.npy") + five_outputs + set("model.loss=binary_cross_entropy"),
        labels("five.npy") + five_outputs + set("model.loss=softmax_cross_entropy")}},
      {floats + set("data.train.augment=[{random_crop: {padding: 1}}]"),
       "convert them to uint8, or keep mixup and cutmix alone",
       {set("data.train.augment=[{random_crop: {padding: 1}}]"),
        floats + set("data.train.augment=[{mixup: {alpha: 0.2}}]")}},
      {set("data.train.images=two.npy") + labels("images.npy"),
       "Are images and labels swapped?",
       {set("data.train.images=images.npy") + labels("two.npy")}},
      {set("data.train={images: images.npy}"),
       "'images' needs 'labels' beside it",
       {set("data.train={images: images.npy, labels: two.npy}")}},
      {set("data.sampling=balanced") + labels("targets.npy") + regression,
       "use data.sampling: uniform",
       {set("data.sampling=uniform") + labels("targets.npy") + regression}},
      {set("train.class_weight=balanced") + labels("targets.npy") + regression,
       "give a map of classes to weights",
       {set("train.class_weight={0: 1, 1: 2}") + labels("targets.npy") + regression}},
      {set("data.classes=[a]") + one_output + labels("two.npy"),
       "set data.num_classes or data.classes to the classes of the files",
       {set("data.classes=[a, b]") + labels("two.npy")}},
  };
}

}  // namespace

TEST_CASE("messages: the command that follows each advice on arrays succeeds") {
  const Arrays arrays;
  arrays.place.check_success(arrays.train(""));
  for (const ArrayAdvice& advice : make_advices()) {
    INFO(std::string(advice.text));
    const Result failed = arrays.place.run(arrays.train(advice.failed));
    CHECK((failed.code == kExitConfig || failed.code == kExitData));
    CHECK_MESSAGE(contains(failed.err, advice.text), failed.err);
    for (const std::string& options : advice.followed) {
      arrays.place.check_success(arrays.train(options));
    }
  }
}

}  // namespace trainer::e2e::array_advice_test

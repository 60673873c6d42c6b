// Operations and tables of the policies against torchvision's: fixtures of make_policies.py.
#include "data/images/augment/policies.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/source_files.h"

namespace trainer::data {
namespace {

using nlohmann::json;
using Op = PixelOp;

const std::map<std::string, Op> kNames{{"Identity", Op::kIdentity},
                                       {"ShearX", Op::kShearX},
                                       {"ShearY", Op::kShearY},
                                       {"TranslateX", Op::kTranslateX},
                                       {"TranslateY", Op::kTranslateY},
                                       {"Rotate", Op::kRotate},
                                       {"Brightness", Op::kBrightness},
                                       {"Color", Op::kColor},
                                       {"Contrast", Op::kContrast},
                                       {"Sharpness", Op::kSharpness},
                                       {"Posterize", Op::kPosterize},
                                       {"Solarize", Op::kSolarize},
                                       {"AutoContrast", Op::kAutoContrast},
                                       {"Equalize", Op::kEqualize},
                                       {"Invert", Op::kInvert}};

const json& fixture() {
  static const json content = [] {
    std::ifstream file(test::source_file("test/data/images/policies.json"));
    return json::parse(file);
  }();
  return content;
}

std::vector<std::uint8_t> to_bytes(const std::string& hex) {
  std::vector<std::uint8_t> bytes(hex.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return bytes;
}

Pixels image_named(const std::string& name) {
  const std::vector<std::uint8_t> bytes = to_bytes(fixture()["images"][name]);
  const int height = fixture()["height"], width = fixture()["width"];
  Pixels image(height, width, static_cast<int>(bytes.size()) / (height * width));
  std::copy(bytes.begin(), bytes.end(), image.data());
  return image;
}

// The largest difference of a pixel.
int distance(const Pixels& image, const std::string& hex) {
  const std::vector<std::uint8_t> expected = to_bytes(hex);
  if (expected.size() != image.size()) return 256;
  int most = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    most = std::max(most, std::abs(image.data()[i] - expected[i]));
  }
  return most;
}

}  // namespace

TEST_CASE("apply_op has the pixels of torchvision on Pillow images") {
  for (const json& c : fixture()["ops"]) {
    Pixels image = image_named(c["image"]);
    apply_op(kNames.at(c["op"]), c["magnitude"], image);
    CHECK_MESSAGE(distance(image, c["pixels"]) == 0, c["op"].get<std::string>(), ' ',
                  c["magnitude"].get<double>(), " of ", c["image"].get<std::string>());
  }
}

TEST_CASE("augmentations: grey images, padded crops and blurs have the pixels of torchvision") {
  for (const auto& [name, pixels] : fixture()["grayscale"].items()) {
    Pixels image = image_named(name);
    remove_colour(image);
    CHECK(distance(image, pixels) == 0);
  }
  for (const json& c : fixture()["crops"]) {
    Pixels image = image_named(c["image"]);
    crop_padded(4, c["top"], c["left"], c["fill"], image);
    CHECK(distance(image, c["pixels"]) == 0);
  }
  int others = 0, values = 0;
  for (const json& c : fixture()["blurs"]) {
    Pixels image = image_named(c["image"]);
    gaussian_blur(c["kernel_size"], c["sigma"], image);
    CHECK(distance(image, c["pixels"]) <= 1);  // sums of floats in another order
    others += distance(image, c["pixels"]);
    ++values;
  }
  CHECK(others <= values / 4);
}

TEST_CASE("magnitudes are the values of torchvision") {
  const int height = fixture()["magnitude_height"], width = fixture()["magnitude_width"];
  for (const json& table : fixture()["magnitudes"]) {
    const Strength strength = table["wide"] ? Strength::kWide : Strength::kDefault;
    for (const auto& [name, values] : table["values"].items()) {
      const std::vector<float> ours =
          magnitudes(kNames.at(name), strength, table["bins"], height, width);
      REQUIRE(ours.size() == values.size());
      for (std::size_t i = 0; i < ours.size(); ++i) {
        CHECK_MESSAGE(ours[i] == values[i].get<float>(), name, " bin ", i, " of ", ours.size());
      }
    }
  }
}

TEST_CASE("augmentation policies apply the operations of torchvision") {
  std::vector<Op> order;
  for (const json& name : fixture()["order"]) order.push_back(kNames.at(name));
  CHECK(std::equal(order.begin(), order.end(), policy_ops().begin(), policy_ops().end()));
  for (const auto& [name, op] : kNames) {
    const json& names = fixture()["signed"];
    CHECK(is_signed(op) == (std::find(names.begin(), names.end(), name) != names.end()));
  }
  const std::map<std::string, config::AutoAugment::Policy> policies{
      {"imagenet", config::AutoAugment::Policy::kImageNet},
      {"cifar10", config::AutoAugment::Policy::kCifar10},
      {"svhn", config::AutoAugment::Policy::kSvhn}};
  for (const auto& [name, pairs] : fixture()["auto_augment"].items()) {
    const auto ours = policy_pairs(policies.at(name));
    REQUIRE(ours.size() == pairs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      for (std::size_t k = 0; k < 2; ++k) {
        CAPTURE(concat(name, ' ', i, ' ', k));
        CHECK(ours[i][k].op == kNames.at(pairs[i][k][0]));
        CHECK(ours[i][k].probability == pairs[i][k][1].get<float>());
        CHECK(ours[i][k].bin == pairs[i][k][2].get<int>());
      }
    }
  }
}

}  // namespace trainer::data

// Operations and arguments of timm's RandAugment: fixtures of make_timm_rand_augment.py.
#include "data/images/augment/timm_rand_augment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "support/source_files.h"

namespace trainer::data::timm_rand_augment_test {
namespace {

using nlohmann::json;
using Op = PixelOp;

const std::map<std::string, Op> kNames{{"AutoContrast", Op::kAutoContrast},
                                       {"Equalize", Op::kEqualize},
                                       {"Invert", Op::kInvert},
                                       {"Rotate", Op::kRotate},
                                       {"Posterize", Op::kPosterize},
                                       {"Solarize", Op::kSolarize},
                                       {"SolarizeAdd", Op::kSolarizeAdd},
                                       {"Color", Op::kColor},
                                       {"Contrast", Op::kContrast},
                                       {"Brightness", Op::kBrightness},
                                       {"Sharpness", Op::kSharpness},
                                       {"ShearX", Op::kShearX},
                                       {"ShearY", Op::kShearY},
                                       {"TranslateX", Op::kTranslateX},
                                       {"TranslateY", Op::kTranslateY}};

const json& fixture() {
  static const json content = [] {
    std::ifstream file(test::source_file("test/data/images/timm_rand_augment.json"));
    return json::parse(file);
  }();
  return content;
}

Pixels read_pixels(const std::string& hex) {
  Pixels image(fixture()["height"], fixture()["width"], 3);
  REQUIRE(hex.size() == 2 * image.size());
  for (std::size_t i = 0; i < image.size(); ++i) {
    image.data()[i] = static_cast<std::uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return image;
}

bool is_equal(const Pixels& a, const Pixels& b) {
  return a.size() == b.size() && std::equal(a.data(), a.data() + a.size(), b.data());
}

Denormalizer make_denormalizer() {
  config::Data data;
  data.preprocess = config::PreprocessPreset::kTorch;
  return Denormalizer(config::find_normalize(data));
}

// Returns the image "noise" after the policy, in the epoch.
std::string apply(const config::TimmRandAugment& policy, std::uint64_t epoch) {
  Pixels image = read_pixels(fixture()["images"]["noise"]);
  Random random(3, Stream::kAugment, epoch, 5);
  apply_policy(policy, make_denormalizer(), random, image);
  return {image.data(), image.data() + image.size()};
}

}  // namespace

TEST_CASE("timm_rand_augment: operations have the pixels of timm on Pillow images") {
  const std::vector<std::uint8_t> fill = fixture()["fill"];
  for (const json& c : fixture()["ops"]) {
    Pixels image = read_pixels(fixture()["images"][c["image"].get<std::string>()]);
    apply_timm_op(kNames.at(c["op"]), c["argument"],
                  c["bicubic"] ? config::Interpolation::kBicubic : config::Interpolation::kBilinear,
                  fill, image);
    CHECK_MESSAGE(is_equal(image, read_pixels(c["pixels"])), c["op"].get<std::string>(), ' ',
                  c["argument"].get<double>(), " of ", c["image"].get<std::string>());
  }
}

TEST_CASE("timm_rand_augment: posterize without any bit gives black") {
  for (const double bits : {0.0, -8.0}) {
    Pixels image = read_pixels(fixture()["images"]["noise"]);
    apply_timm_op(Op::kPosterize, bits, config::Interpolation::kBilinear, {}, image);
    CHECK(std::all_of(image.data(), image.data() + image.size(), [](int v) { return v == 0; }));
  }
}

TEST_CASE("timm_rand_augment: arguments by magnitude are timm's, with and without inc") {
  const std::vector<double> magnitudes = fixture()["magnitudes"];
  for (const json& table : fixture()["arguments"]) {
    for (const auto& [name, values] : table["ops"].items()) {
      for (std::size_t i = 0; i < magnitudes.size(); ++i) {
        CAPTURE(name);
        CAPTURE(magnitudes[i]);
        CHECK(find_argument(kNames.at(name),
                            {magnitudes[i], table["increasing"], table["negative"]}) == values[i]);
      }
    }
  }
}

TEST_CASE("timm_rand_augment: the operations are timm's, in its order") {
  std::vector<Op> order;
  for (const json& name : fixture()["order"]) order.push_back(kNames.at(name));
  CHECK(std::ranges::equal(order, kTimmOps));
}

TEST_CASE("timm_rand_augment: magnitudes are N(m, mstd), cut to [0, mmax]") {
  constexpr int kDraws = 20000;
  const auto draw = [](const config::TimmRandAugment& policy) {
    std::vector<double> magnitudes(kDraws);
    Random random(1, Stream::kAugment);
    for (double& magnitude : magnitudes) magnitude = draw_magnitude(policy, random);
    return magnitudes;
  };
  const auto share = [](const std::vector<double>& magnitudes, auto holds) {
    return static_cast<double>(std::count_if(magnitudes.begin(), magnitudes.end(), holds)) / kDraws;
  };
  config::TimmRandAugment policy;
  policy.magnitude = 9;
  SUBCASE("without mstd, the magnitude itself") {
    CHECK(share(draw(policy), [](double m) { return m == 9; }) == 1);
  }
  SUBCASE("mstd 0.5: 2.3 % are cut to 10, and 68.3 % are between 8.5 and 9.5") {
    policy.magnitude_std = 0.5;
    const std::vector<double> magnitudes = draw(policy);
    CHECK(share(magnitudes, [](double m) { return m == 10; }) ==
          doctest::Approx(0.02275).epsilon(0.2));
    CHECK(share(magnitudes, [](double m) { return m > 10 || m < 0; }) == 0);
    CHECK(share(magnitudes, [](double m) { return m > 8.5 && m < 9.5; }) ==
          doctest::Approx(0.6827).epsilon(0.02));
    CHECK(share(magnitudes, [](double m) { return m < 9; }) == doctest::Approx(0.5).epsilon(0.03));
  }
  SUBCASE("mmax 12 cuts there") {
    policy.magnitude_std = 3;
    policy.max_magnitude = 12;
    const std::vector<double> magnitudes = draw(policy);
    CHECK(*std::max_element(magnitudes.begin(), magnitudes.end()) == 12);
    CHECK(*std::min_element(magnitudes.begin(), magnitudes.end()) >= 0);
    CHECK(share(magnitudes, [](double m) { return m == 12; }) ==
          doctest::Approx(0.1587).epsilon(0.07));
  }
  SUBCASE("above 100, uniform from 0 to m") {
    policy.magnitude_std = 101;
    const std::vector<double> magnitudes = draw(policy);
    CHECK(share(magnitudes, [](double m) { return m < 3; }) ==
          doctest::Approx(1 / 3.0).epsilon(0.05));
    CHECK(share(magnitudes, [](double m) { return m > 9; }) == 0);
    CHECK(share(magnitudes, [](double m) { return m > 8; }) ==
          doctest::Approx(1 / 9.0).epsilon(0.1));
  }
}

TEST_CASE("timm_rand_augment: all operations, signs and interpolations occur") {
  config::TimmRandAugment policy;
  policy.magnitude = 7;
  policy.num_ops = 1;
  policy.probability = 1;
  const auto find_results = [&] {
    std::set<std::string> results;
    for (std::uint64_t epoch = 0; epoch < 1500; ++epoch) results.insert(apply(policy, epoch));
    return results;
  };
  // What each operation makes of the image, with both signs and interpolations.
  const auto list_results = [&] {
    std::set<std::string> results;
    const std::vector<std::uint8_t> fill = fixture()["fill"];  // the pixels of 0 in `torch`
    for (const Op op : kTimmOps) {
      for (const bool is_negative : {false, true}) {
        for (const auto interpolation :
             {config::Interpolation::kBilinear, config::Interpolation::kBicubic}) {
          Pixels image = read_pixels(fixture()["images"]["noise"]);
          const TimmStrength strength{7, policy.increasing, is_negative};
          apply_timm_op(op, find_argument(op, strength), interpolation, fill, image);
          results.emplace(image.data(), image.data() + image.size());
        }
      }
    }
    return results;
  };
  const std::set<std::string> plain = find_results();
  CHECK(plain == list_results());
  CHECK(plain.size() >= 29);
  policy.increasing = true;
  const std::set<std::string> increasing = find_results();
  CHECK(increasing == list_results());
  CHECK(increasing.size() > plain.size());
}

TEST_CASE("timm_rand_augment: a share of operations is applied, which is a function of the epoch") {
  config::TimmRandAugment policy;
  policy.magnitude = 9;
  policy.magnitude_std = 0.5;
  policy.increasing = true;
  policy.num_ops = 1;
  Pixels original = read_pixels(fixture()["images"]["noise"]);
  const std::string unchanged(original.data(), original.data() + original.size());
  const auto count_changed = [&] {
    int changed = 0;
    for (std::uint64_t epoch = 0; epoch < 1000; ++epoch) {
      changed += apply(policy, epoch) != unchanged ? 1 : 0;
    }
    return changed;
  };
  policy.probability = 0;
  CHECK(count_changed() == 0);
  policy.probability = 0.5;
  const int half = count_changed();
  CHECK(half > 400);
  CHECK(half < 560);
  policy.num_ops = 2;
  const int two = count_changed();
  CHECK(two > 650);
  CHECK(two < 800);
  CHECK(apply(policy, 4) == apply(policy, 4));
}

TEST_CASE("timm_rand_augment: every image takes the same count of draws") {
  const auto find_next_draw = [](const config::TimmRandAugment& policy) {
    Pixels image = read_pixels(fixture()["images"]["slope"]);
    Random random(9, Stream::kAugment);
    apply_policy(policy, make_denormalizer(), random, image);
    return random.next_u32();
  };
  config::TimmRandAugment policy;
  const std::uint32_t next = find_next_draw(policy);
  policy.probability = 1;
  policy.magnitude = 3;
  policy.magnitude_std = 0.5;
  policy.increasing = true;
  CHECK(find_next_draw(policy) == next);
  policy.magnitude_std = 200;
  CHECK(find_next_draw(policy) == next);
}

TEST_CASE("timm_rand_augment: grey images keep one channel") {
  Pixels image(8, 8, 1);
  for (std::size_t i = 0; i < image.size(); ++i) {
    image.data()[i] = static_cast<std::uint8_t>(37 * i % 251);
  }
  config::TimmRandAugment policy;
  policy.probability = 1;
  policy.num_ops = 16;
  Random random(9, Stream::kAugment);
  apply_policy(policy, Denormalizer({}), random, image);
  CHECK(image.channels() == 1);
}

}  // namespace trainer::data::timm_rand_augment_test
